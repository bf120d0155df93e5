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
    }
}
