// SPDX-License-Identifier: MPL-2.0

/// A rewritten playlist in the making.
struct HLSOutput {
    let base: URIReference
    private let route: (HLSResource) -> String
    private var routes: [HLSResource: String] = [:]
    var routedChildren: Set<HLSRewriting.Child> = []
    var result: HLSRewriting

    init(kind: HLSPlaylist.Kind, base: URIReference, route: @escaping (HLSResource) -> String) {
        self.base = base
        self.route = route
        result = HLSRewriting(kind: kind)
        if let origin = base.origin { result.origins.insert(origin) }
    }

    /// The URL of a resource; remembers it.
    mutating func url(_ resource: HLSResource) -> String {
        if let known = routes[resource] { return known }
        let url = route(resource)
        routes[resource] = url
        result.resources.append(resource)
        return url
    }

    /// `reference` as an absolute URL; remembers its origin.
    mutating func absolute(_ reference: some StringProtocol) -> String {
        let url = URIReference.resolve(reference, against: base)
        note(url)
        return url
    }

    /// Remembers the origin of a URL.
    mutating func note(_ url: String) {
        if let origin = URIReference(url).origin { result.origins.insert(origin) }
    }

    mutating func write(_ line: HLSLine) throws(FormatError) {
        try write(line.text, ending: line.ending)
    }

    mutating func write(_ text: some StringProtocol, ending: Substring = "\n") throws(FormatError) {
        result.bytes += text.utf8
        result.bytes += ending.utf8
        guard result.bytes.count <= HLSPlaylistRewriter.maximumResultSize else {
            throw .tooLarge("more than \(HLSPlaylistRewriter.maximumResultSize) bytes when rewritten")
        }
    }

    /// Writes a tag whose list was changed by `change`, which gives the new value of an attribute, or nil to leave it.
    mutating func write(
        _ line: HLSLine, tag: Substring, list: HLSAttributeList,
        change: (inout HLSOutput, HLSAttribute) -> String?
    ) throws(FormatError) {
        var list = list
        for index in list.attributes.indices {
            guard let value = change(&self, list.attributes[index]) else { continue }
            list.attributes[index].value = value
            list.attributes[index].isQuoted = true
        }
        try write("#\(tag):\(list.text)", ending: line.ending)
    }
}
