// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

extension DASHManifest {
    /// The manifest that was fetched from `url`, with the media at other origins: those that `route` gives for
    /// `scheme://authority`, without a slash at the end. `route` gives nil for an origin whose media is to stay there.
    ///
    /// The result has an absolute BaseURL, so that it may come from anywhere. Nil where media cannot be led elsewhere
    /// soundly: where parts of the manifest come from another place (`xlink:href`), where a reference leads above the root of
    /// its origin, where one without an origin may belong to several, and where the result is too large for any reader.
    /// Throws as `init` does.
    public static func routed(
        _ bytes: some Collection<UInt8>, from url: String, route: (String) -> String?
    ) throws(FormatError) -> [UInt8]? {
        let root = try XMLElement(reading: bytes, limits: .manifest)
        guard root.localName == "MPD" else { throw .malformed("no MPD: the document is something else") }
        return withoutActuallyEscaping(route) { route in
            var routing = DASHRouting(routes: OriginRoutes(route: route))
            guard let text = routing.routed(root, from: url)?.canonicalText else { return nil }
            return text.utf8.count <= XMLLimits.manifest.size ? Array(text.utf8) : nil
        }
    }
}

/// One manifest on the way. Bases are combined as GStreamer's demuxer does: of several BaseURLs at one place, the first
/// holds for what is below.
private struct DASHRouting {
    let routes: OriginRoutes
    /// Of the bases of all media.
    private var origins: Set<String> = []
    /// Of the directory of the base that is nearest to its root.
    private var depth = Int.max
    /// The most steps up in a reference.
    private var steps = 0
    /// A reference has no origin of its own, or no scheme.
    private var hasRooted = false
    private var isSound = true
    /// The reader fetches the manifest again, at a place that stands for its own: what it fetches from elsewhere then, it
    /// would name that place to.
    private var isDynamic = false

    private static let containers: Set<String> = ["MPD", "Period", "AdaptationSet", "Representation"]
    /// Attributes that are URLs of media, by their elements (ISO/IEC 23009-1, 5.3.9).
    private static let references: [String: Set<String>] = [
        "SegmentTemplate": ["media", "index", "initialization", "bitstreamSwitching"],
        "SegmentURL": ["media", "index"], "Initialization": ["sourceURL"], "RepresentationIndex": ["sourceURL"],
        "BitstreamSwitching": ["sourceURL"],
    ]

    init(routes: OriginRoutes) { self.routes = routes }

    mutating func routed(_ root: XMLElement, from url: String) -> XMLElement? {
        var base = URIReference(url).target(of: "")
        guard let home = OriginRoutes.origin(of: base), routes.route(home) != nil else { return nil }
        isDynamic = root[attribute: "type"] == "dynamic"
        look(at: root, base)
        // Without an origin of its own, a reference needs one that is the same everywhere.
        guard isSound, steps <= depth, !hasRooted || origins.count == 1 else { return nil }
        var result = written(root, base, origins.first ?? home)
        if root.child("BaseURL") == nil {
            // Its query is no matter of the media.
            base.query = nil
            let name = XMLElement(
                "BaseURL", prefix: root.prefix, namespace: root.namespace, nodes: [.text(absolute(base.text))])
            result.nodes.insert(.element(name), at: 0)
        }
        return result
    }

    private func absolute(_ url: String) -> String { routes.routed(absolute: url) ?? url }

    // MARK: What there is

    private mutating func look(at element: XMLElement, _ outer: URIReference) {
        var base = outer
        if Self.containers.contains(element.localName) {
            let own = element.children.filter { $0.localName == "BaseURL" }.map(\.trimmedText)
            for text in own.dropFirst() { note(outer.target(of: text)) }
            if let first = own.first { base = outer.target(of: first) }
            note(base)
        }
        for attribute in element.attributes {
            if attribute.localName == "href", !attribute.namespace.isEmpty,
                attribute.value != "urn:mpeg:dash:resolve-to-zero:2013"
            {
                isSound = false
            }
            guard Self.isReference(attribute, of: element) else { continue }
            let count = URIReference(attribute.value).stepsUp
            switch ReferenceKind(attribute.value) {
            case .absolute: isSound = isSound && count == 0
            case .ofScheme, .ofOrigin: (hasRooted, isSound) = (true, isSound && count == 0)
            case .below: steps = max(steps, count)
            }
        }
        for child in element.children { look(at: child, base) }
    }

    private mutating func note(_ base: URIReference) {
        guard let origin = OriginRoutes.origin(of: base), !isDynamic || routes.route(origin) != nil else {
            isSound = false
            return
        }
        origins.insert(origin)
        depth = min(depth, base.depth)
    }

    private static func isReference(_ attribute: XMLElement.Attribute, of element: XMLElement) -> Bool {
        attribute.namespace.isEmpty && references[element.localName]?.contains(attribute.localName) == true
    }

    // MARK: What becomes of it

    private func written(_ element: XMLElement, _ outer: URIReference, _ origin: String) -> XMLElement {
        var result = element
        var base = outer
        if Self.containers.contains(element.localName), let first = element.child("BaseURL") {
            base = outer.target(of: first.trimmedText)
        }
        for index in result.attributes.indices where Self.isReference(result.attributes[index], of: element) {
            result.attributes[index].value = written(result.attributes[index].value, origin)
        }
        result.nodes = element.nodes.map { node in
            guard case .element(var child) = node else { return node }
            guard child.localName == "BaseURL" else { return .element(written(child, base, origin)) }
            let text = child.trimmedText
            // At the root it is the manifest's own place no more.
            if element.localName == "MPD" || ReferenceKind(text) != .below || URIReference(text).stepsUp > 0 {
                child.nodes = [.text(absolute(outer.target(of: text).text))]
            }
            return .element(child)
        }
        return result
    }

    /// `origin` is where a reference belongs that has none.
    private func written(_ reference: String, _ origin: String) -> String {
        switch ReferenceKind(reference) {
        case .absolute: routes.routed(absolute: reference) ?? reference
        case .ofScheme: absolute("\(origin.prefix { $0 != ":" }):\(reference)")
        case .ofOrigin: absolute(origin + reference)
        case .below: reference
        }
    }
}
