// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// The requests for keys that one element started, and of which of their keys it has told. A request may be answered key by key.
struct OwnRequests {
    private struct Request {
        var count: Int
        var told: Set<KeyID> = []
    }

    private var requests: [UInt64: Request] = [:]

    mutating func insert(_ id: UInt64, for keyIDs: [KeyID]) { requests[id] = Request(count: keyIDs.count) }

    /// Keys are there. Whether that is to be told: one of them is new, and the request is one of these.
    mutating func areUsable(_ keyIDs: [KeyID], of id: UInt64) -> Bool {
        guard var request = requests.removeValue(forKey: id) else { return false }
        let isNews = keyIDs.isEmpty || !request.told.isSuperset(of: keyIDs)
        request.told.formUnion(keyIDs)
        if request.told.count < request.count { requests[id] = request }
        return isNews
    }

    /// The rest of the keys will not come. Whether that is to be told.
    mutating func didFail(_ id: UInt64) -> Bool { requests.removeValue(forKey: id) != nil }
}
