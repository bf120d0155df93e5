// SPDX-License-Identifier: MPL-2.0

import MediaFormats
import Synchronization

/// Gives each resource a URL of its own, and the same again for the same resource.
final class TestRoutes: Sendable {
    private let known = Mutex<[HLSResource: Int]>([:])

    func url(_ resource: HLSResource) -> String {
        let number = known.withLock { known in
            if let number = known[resource] { return number }
            known[resource] = known.count
            return known.count - 1
        }
        switch resource {
        case .playlist: return "http://127.0.0.1:9/t/\(number).m3u8"
        case .initSegment: return "http://127.0.0.1:9/t/\(number).mp4"
        case .segment: return "http://127.0.0.1:9/t/\(number).m4s"
        case .key: return "http://127.0.0.1:9/t/\(number).key"
        case .keyNote: return "http://127.0.0.1:9/t/\(number).note"
        }
    }

    /// The resource that was given a URL.
    func resource(_ url: String) -> HLSResource? {
        known.withLock { known in known.keys }.first { self.url($0) == url }
    }
}
