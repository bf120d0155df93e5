// SPDX-License-Identifier: MPL-2.0

extension SmoothManifest {
    /// Leads the fragments of the manifest that was fetched from `url` to other origins: those that `route` gives for
    /// `scheme://authority`, without a slash at the end. `serialized` has it so then.
    ///
    /// False, and nothing changed, where that cannot be done soundly: where `route` gives nothing for the manifest's own
    /// origin, and where a stream's Url leads above its root.
    public mutating func route(from url: String, _ route: (String) -> String?) -> Bool {
        withoutActuallyEscaping(route) { routed(from: url, OriginRoutes(route: $0)) }
    }

    private mutating func routed(from url: String, _ routes: OriginRoutes) -> Bool {
        let base = URIReference(url).target(of: "")
        guard let home = OriginRoutes.origin(of: base), let other = routes.route(home) else { return false }
        let folder = base.path.lastIndex(of: "/").map { base.path[...$0] } ?? "/"
        return changeURLs { text in
            let steps = URIReference(text).stepsUp
            guard steps <= (ReferenceKind(text) == .below ? base.depth : 0) else { return nil }
            return switch ReferenceKind(text) {
            case .absolute: routes.routed(absolute: text) ?? text
            case .ofScheme: routes.routed(absolute: "\(home.prefix { $0 != ":" }):\(text)")
            case .ofOrigin: other + text
            case .below: "\(other)\(folder)\(text)"
            }
        }
    }
}
