// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import Synchronization

/// URLs of origins under the path of a local server: a number stands for each origin, and path and query stay, so that
/// relative references in manifests lead to the right places. URLs come out normalized. Thread-safe.
final class OriginMap: Sendable {
    private let origins = Mutex<[String]>([])

    /// `0/path?query`. Nil for what is no http or https URL.
    func path(of url: String) -> String? {
        let reference = URIReference(URIReference.normalized(url))
        guard reference.isHTTP, let scheme = reference.scheme, let authority = reference.authority else { return nil }
        let origin = "\(scheme)://\(authority)"
        let number = origins.withLock { origins in
            if let known = origins.firstIndex(of: origin) { return known }
            origins.append(origin)
            return origins.count - 1
        }
        return "\(number)\(reference.path)\(reference.query.map { "?\($0)" } ?? "")"
    }

    /// The URL that was given for `path`; nil where there was none.
    func url(path: String, query: String?) -> String? {
        guard let slash = path.firstIndex(of: "/"), let number = Int(path[..<slash]) else { return nil }
        let origin = origins.withLock { $0.indices.contains(number) ? $0[number] : nil }
        return origin.map { "\($0)\(path[slash...])\(query.map { "?\($0)" } ?? "")" }
    }
}
