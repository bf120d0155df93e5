// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

@Suite struct ProtectionSystemTests {
    @Test(arguments: [
        "94ce86fb-07ff-4f43-adb8-93d2fa968ca2", "94CE86FB-07FF-4F43-ADB8-93D2FA968CA2",
        "urn:uuid:94ce86fb-07ff-4f43-adb8-93d2fa968ca2", "URN:UUID:94CE86FB-07FF-4F43-ADB8-93D2FA968CA2",
        "{94CE86FB-07FF-4F43-ADB8-93D2FA968CA2}", "94ce86fb07ff4f43adb893d2fa968ca2",
    ])
    func everySpellingIsFairPlay(text: String) {
        #expect(ProtectionSystem(uuid: text) == .fairPlay)
    }

    @Test(arguments: ["", "fairplay", "urn:uuid:", "{94ce86fb-07ff-4f43-adb8-93d2fa968ca2", "{}", "94ce86fb"])
    func textThatIsNoUUID(text: String) {
        #expect(ProtectionSystem(uuid: text) == nil)
    }

    @Test func knownIdentifiersAreWellFormedAndOnlyOnce() {
        let own: [ProtectionSystem] = [.common, .clearKey, .fairPlay, .playReady]
        let all = own + ProtectionSystem.others
        #expect(Set(all).count == all.count)
        for system in all { #expect(ProtectionSystem(uuid: system.uuid)?.uuid == system.uuid) }
        #expect(ProtectionSystem.others.contains(.widevine))
    }

    @Test func namesAreForPeople() throws {
        #expect("\(ProtectionSystem.playReady)" == "PlayReady")
        #expect(ProtectionSystem.common.name == ProtectionSystem.clearKey.name)
        let other = try #require(ProtectionSystem(uuid: "00000000-0000-0000-0000-000000000001"))
        #expect(other.name == "00000000-0000-0000-0000-000000000001")
    }
}
