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
    private let waiting = Atomic<Int>(0)

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

    /// Whether somebody waits for a key in `contentKey(for:within:)`.
    var isAwaited: Bool { waiting.load(ordering: .acquiring) > 0 }

    /// Asks for the key, unless it is there or was asked for. `keyID` is what `keyID(of:mediaKeyID:)` gave. A key that
    /// stands in the playlist itself is there at once.
    func demand(_ key: HLSKey, as keyID: KeyID? = nil) {
        let keyID = keyID ?? self.keyID(of: key)
        if let own = Self.ownKey(of: key) {
            if case .absent = session.status(of: keyID) { session.install([keyID: own]) }
            return
        }
        let box = key.initializationData(keyID: keyID)
        let data = InitializationData(system: box.system, bytes: box.serialized() ?? [], origin: "hls/m3u8")
        // A key at its own URI is no matter of a licence service.
        let isIdentity = key.keyFormat == HLSKeyFormat.identity.name
        session.demand(
            KeyDemand(
                keyIDs: [keyID], keySystem: isIdentity ? nil : KeySystem(box.system), initializationData: [data],
                retryFailuresUpTo: startGeneration, origin: observer.load(ordering: .acquiring)))
    }

    /// The key itself, for what is decrypted here. Waits for it, at most `limit`.
    func contentKey(for key: HLSKey, within limit: Duration? = nil) async throws(HLSFailure) -> ContentKey {
        let (changes, signal) = AsyncStream.makeStream(of: Void.self, bufferingPolicy: .bufferingNewest(1))
        let observation = session.observe { _ in signal.yield() }
        let timeout = min(timeout, limit ?? timeout)
        let alarm = Task {
            try? await Task.sleep(for: timeout)
            signal.finish()
        }
        defer {
            observation.cancel()
            alarm.cancel()
        }
        waiting.add(1, ordering: .acquiringAndReleasing)
        defer { waiting.subtract(1, ordering: .acquiringAndReleasing) }
        demand(key)
        signal.yield()
        for await _ in changes {
            switch session.status(of: keyID(of: key)) {
            case .usable(let contentKey): return contentKey
            case .failed(let error, _): throw .key(key, error)
            case .absent, .pending: continue
            }
        }
        throw .key(key, .timedOut("no answer in \(timeout)"))
    }

    /// The key in a `data:` URI with Base64 (RFC 2397).
    private static func ownKey(of key: HLSKey) -> ContentKey? {
        guard key.keyFormat == HLSKeyFormat.identity.name, let uri = key.uri, uri.prefix(5).lowercased() == "data:",
            let comma = uri.firstIndex(of: ","), uri[..<comma].lowercased().hasSuffix(";base64"),
            var bytes = Base64.decode(uri[uri.index(after: comma)...])
        else { return nil }
        defer { wipe(&bytes) }
        return ContentKey(bytes)
    }
}
