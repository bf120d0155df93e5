// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyElementTestSupport
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyProtection
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// Which keys are asked for before a sample needs them.
    @Suite struct PrefetchTests {
        private let used = KeyID(high: 1, low: 2)
        private let other = KeyID(high: 3, low: 4)

        private func asked(usedKeyIDs: [KeyID], usedOnly: Bool) throws -> Set<KeyID> {
            TestProcess.prepare
            var configuration = KeySessionConfiguration()
            configuration.prefetchesUsedKeysOnly = usedOnly
            let session = KeySession(loaders: [CallbackLoader { _ in true }], configuration: configuration)
            let sources = try KeySources(
                settings: DecryptorSettings(), shared: SharedSession(session, ControlSettings()),
                playback: session.playback(of: 1), observer: 1)
            let box = PSSHBox(system: .common, keyIDs: [used, other], data: [])
            let bytes = try #require(box.serialized())
            var found: Set<KeyID> = []
            sources.prefetch(
                Event.Protection(systemID: box.system.uuid, data: bytes, origin: "isobmff/moov"),
                usedKeyIDs: usedKeyIDs
            ) { found.formUnion($0) }
            for keyID in [used, other] {
                if case .absent = sources.status(of: keyID) { #expect(!found.contains(keyID)) }
            }
            session.close(.sessionClosed("the test is over"))
            return found
        }

        @Test func whoAcquiresByItselfIsNotAskedForWhatNoTrackUses() throws {
            #expect(try asked(usedKeyIDs: [used], usedOnly: true) == [used])
            // Where nothing says what is used, all are.
            #expect(try asked(usedKeyIDs: [], usedOnly: true) == [used, other])
            #expect(try asked(usedKeyIDs: [KeyID(high: 5, low: 6)], usedOnly: true) == [])
        }

        @Test func otherwiseKeysAreThereAheadOfNeed() throws {
            #expect(try asked(usedKeyIDs: [used], usedOnly: false) == [used, other])
        }

        /// What no loader takes waits for the application; not for long where the manifest may say who has it.
        @Test func aManifestThatCannotBeReadIsToldSoon() throws {
            TestProcess.prepare
            let session = KeySession()
            let playback = session.playback(of: 1)
            var settings = DecryptorSettings()
            settings.keyTimeout = 6000
            let sources = try KeySources(
                settings: settings, shared: SharedSession(session, ControlSettings()), playback: playback, observer: 1)
            var reason: String {
                if case .key(_, let error) = sources.timeOut(used, after: 0, isUntaken: true) {
                    error.description
                } else {
                    ""
                }
            }
            #expect(sources.untakenTimeout == 2_000_000_000)
            #expect(reason.contains("no key source") && !reason.contains("the manifest"))
            playback.note(manifestFailure: "what the manifest says is not known")
            #expect(sources.untakenTimeout == 1_000_000_000)
            #expect(reason.contains("; what the manifest says is not known"))
            settings.keyTimeout = 0
            let patient = try KeySources(
                settings: settings, shared: SharedSession(session, ControlSettings()), playback: playback, observer: 2)
            #expect(patient.untakenTimeout == nil)
            session.close(.sessionClosed("the test is over"))
        }
    }
}
