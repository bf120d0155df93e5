// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyProtection
import Synchronization

/// Static keys, with a record of what was asked for.
final class RecordingLoader: ResourceLoader {
    let name = "recording"
    private let keys: StaticKeyLoader
    private let asked = Mutex<[KeyLoadingRequest]>([])

    init(_ keys: StaticKeys) { self.keys = StaticKeyLoader(keys) }

    var requests: [KeyLoadingRequest] { asked.withLock { $0 } }
    var keyURIs: [String] { requests.compactMap(\.keyURI) }

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        asked.withLock { $0.append(request) }
        return keys.shouldWaitForLoading(of: request)
    }
}

/// Takes down which keys are played, and has none.
final class PlayListener: ResourceLoader {
    let name = "listener"
    private let played = Mutex<[KeyID?]>([])

    /// The keys that this session's elements have told of so far.
    func keyIDs(in session: KeySession) async -> [KeyID?] {
        await session.unwrittenPlays.finish()
        return played.withLock { $0 }
    }

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool { false }
    func didStartPlaying(_ keyID: KeyID?, in session: KeySession) { played.withLock { $0.append(keyID) } }
}
