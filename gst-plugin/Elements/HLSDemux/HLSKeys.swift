// SPDX-License-Identifier: MPL-2.0

import KeySystems
import LicenseControl
import MediaFormats
import ProtectionModel
import Synchronization

/// The keys of one presentation: names them, asks for them early, and waits for those that are needed here. Thread-safe.
final class HLSKeys: Sendable {
    let session: KeySession
    private let timeout: Duration
    private let startGeneration: UInt64
    private let observer = Atomic<UInt64>(0)

    /// `timeout` is how long `contentKey(for:)` waits.
    init(session: KeySession, timeout: Duration) {
        self.session = session
        self.timeout = timeout
        startGeneration = session.generation
    }

    /// Whose requests these are: the id of the demuxer's observation.
    func setObserver(_ id: UInt64) { observer.store(id, ordering: .releasing) }

    /// The KID that stands for the key. `mediaKeyID` is what the media has beside it.
    func keyID(of key: HLSKey, mediaKeyID: KeyID? = nil) -> KeyID {
        session.keyID(forURI: key.uri ?? "", mediaKeyID: mediaKeyID ?? key.keyID)
    }

    /// Asks for the key, unless it is there or was asked for. `keyID` is what `keyID(of:mediaKeyID:)` gave.
    func demand(_ key: HLSKey, as keyID: KeyID? = nil) {
        let keyID = keyID ?? self.keyID(of: key)
        let box = key.initializationData(keyID: keyID)
        let data = InitializationData(system: box.system, bytes: box.serialized() ?? [], origin: "hls/m3u8")
        // A key at its own URI is no matter of a licence service.
        let isIdentity = key.keyFormat == HLSKeyFormat.identity.name
        session.demand(
            KeyDemand(
                keyIDs: [keyID], keySystem: isIdentity ? nil : KeySystem(box.system), initializationData: [data],
                retryFailuresUpTo: startGeneration, origin: observer.load(ordering: .acquiring)))
    }

    /// Asks for the key that opens an envelope, unless it is there or was asked for. `object` is what the envelope has in
    /// front.
    func demand(_ keyID: KeyID, of object: PlayReadyObject) {
        let bytes = (try? object.serialized()) ?? []
        let data = InitializationData(system: .playReady, bytes: bytes, origin: "hls/envelope")
        let details = (try? object.header())?.details
        session.demand(
            KeyDemand(
                keyIDs: [keyID], keySystem: .playReady, initializationData: [data],
                suggestedURL: details?.licenseAcquisitionURL, retryFailuresUpTo: startGeneration,
                origin: observer.load(ordering: .acquiring)))
    }

    /// The key itself, for what is decrypted here. Waits for it.
    func contentKey(for key: HLSKey) async throws(HLSFailure) -> ContentKey {
        try await contentKey(keyID(of: key), called: key.description) { demand(key) }
    }

    /// The key that opens an envelope, for what is decrypted here. Waits for it.
    func contentKey(_ keyID: KeyID, of object: PlayReadyObject) async throws(HLSFailure) -> ContentKey {
        try await contentKey(keyID, called: "KID \(keyID)") { demand(keyID, of: object) }
    }

    private func contentKey(
        _ keyID: KeyID, called name: String, _ demand: () -> Void
    ) async throws(HLSFailure) -> ContentKey {
        let (changes, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let observation = session.observe { _ in signal.yield() }
        let timeout = timeout
        let alarm = Task {
            try? await Task.sleep(for: timeout)
            signal.finish()
        }
        defer {
            observation.cancel()
            alarm.cancel()
        }
        demand()
        signal.yield()
        for await _ in changes {
            switch session.status(of: keyID) {
            case .usable(let contentKey): return contentKey
            case .failed(let error, _): throw .key(name, error)
            case .absent, .pending: continue
            }
        }
        throw .key(name, .timedOut("no answer in \(timeout)"))
    }
}
