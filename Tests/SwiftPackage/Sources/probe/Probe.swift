// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyProtection

/// Answers each request with one key, and each of its KIDs gets it.
final class OneKeyLoader: ResourceLoader {
    let name = "one key"
    private let key: ContentKey

    init(key: ContentKey) { self.key = key }

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        request.finishLoading(with: .keys(Dictionary(uniqueKeysWithValues: request.keyIDs.map { ($0, key) })))
        return true
    }
}

/// Registers a loader with a session, demands a key of it, and prints the KID when the key is there.
@main struct Probe {
    static func main() async {
        guard let key = ContentKey(hex: "00112233445566778899aabbccddeeff") else { return }
        let keyID = KeyID(high: 1, low: 2)
        let session = KeySession()
        session.addLoader(OneKeyLoader(key: key))
        let (events, continuation) = AsyncStream.makeStream(of: KeyEvent.self)
        let observation = session.observe { continuation.yield($0) }
        session.demand(KeyDemand(keyIDs: [keyID]))
        for await event in events {
            guard case .usable = event else { continue }
            print("usable: \(keyID)")
            break
        }
        observation.cancel()
    }
}
