// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection
import Testing

@Suite struct KeySystemTests {
    @Test func everyProtectionSystemOfAKeySystemLeadsBackToIt() {
        for keySystem in KeySystem.allCases {
            #expect(!keySystem.protectionSystems.isEmpty)
            for system in keySystem.protectionSystems { #expect(KeySystem(system) == keySystem) }
        }
    }

    @Test func aSystemWithoutAnExchangeHasNoKeySystem() {
        for system in ProtectionSystem.others { #expect(KeySystem(system) == nil) }
    }

    @Test func namesAreThoseOfTheSettings() {
        #expect(KeySystem.allCases.map(\.rawValue) == ["clearkey", "fairplay", "playready"])
    }
}
