// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// Leads URLs of one origin to another: what stands behind `https://media.example` in a URL stands behind the other text
/// then. A value.
///
/// References in manifests may be templates, which are no URLs before a demuxer fills them in, so that nothing of what
/// stands behind the origin is changed.
struct OriginRoutes {
    /// Gives what stands for `scheme://authority`, without a slash at the end. Nil: URLs of that origin stay.
    let route: (String) -> String?

    /// What stands in front of the paths of files.
    static let files = "file://"

    /// Nil where it is no http or https URL, and no `file:///` URL.
    static func origin(of url: URIReference) -> String? {
        if url.scheme == "file", url.authority == "" { return files }
        guard url.isHTTP, let scheme = url.scheme, let authority = url.authority else { return nil }
        return "\(scheme)://\(authority)"
    }

    /// An absolute URL or template led elsewhere; nil where it stays.
    func routed(absolute text: String) -> String? {
        guard let origin = Self.origin(of: URIReference(text)), let other = route(origin) else { return nil }
        let rest = text.dropFirst(origin.utf8.count)
        // An empty path means the root.
        return rest.isEmpty || rest.first == "?" ? "\(other)/\(rest)" : other + rest
    }
}

/// How a reference in a manifest finds its origin.
enum ReferenceKind: Hashable {
    /// It has an origin of its own, or a scheme that knows none.
    case absolute
    /// `//host/path`
    case ofScheme
    /// `/path`
    case ofOrigin
    /// Below the base.
    case below

    init(_ text: String) {
        if URIReference(text).scheme != nil {
            self = .absolute
        } else if text.hasPrefix("//") {
            self = .ofScheme
        } else {
            self = text.hasPrefix("/") ? .ofOrigin : .below
        }
    }
}

extension URIReference {
    /// How many parts of the path lead up.
    var stepsUp: Int {
        path.split(separator: "/").count { $0.lowercased().replacing("%2e", with: ".") == ".." }
    }

    /// How many directories stand above the last part of the path.
    var depth: Int { max(path.utf8.count { $0 == UInt8(ascii: "/") } - 1, 0) }

    /// `reference` as seen from this base, without parts that lead up, without a fragment.
    func target(of reference: String) -> URIReference {
        var target = URIReference(Self.resolve(reference, against: self))
        target.path = Self.removingDotSegments(target.path)
        target.fragment = nil
        return target
    }
}
