// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
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
