// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// A rewritten playlist in the making.
struct HLSOutput {
    let base: URIBase
    private let route: (HLSResource) -> String
    private var routed: Set<HLSResource> = []
    /// The scheme and the authority of the URL that was noted last.
    private var lastPlace = ""
    var routedChildren: Set<HLSRewriting.Child> = []
    /// The URLs of the segment that was written last and of its last part.
    var lastSegment: (url: String, part: String?)?
    /// The last part since then.
    var lastPart: String?
    var result: HLSRewriting

    init(kind: HLSPlaylist.Kind, base: URIBase, route: @escaping (HLSResource) -> String) {
        self.base = base
        self.route = route
        result = HLSRewriting(kind: kind)
        if let origin = base.reference.origin { result.origins.insert(origin) }
    }

    /// The URL of a resource; remembers the resource.
    mutating func url(_ resource: HLSResource) -> String {
        if routed.insert(resource).inserted { result.resources.append(resource) }
        return route(resource)
    }

    /// `reference` as an absolute URL; remembers it and its origin.
    mutating func absolute(_ reference: some StringProtocol) -> String {
        let url = base.resolve(reference)
        note(url)
        return url
    }

    /// Remembers a URL and its origin.
    mutating func note(_ url: String) {
        if result.kind == .media { result.urls.insert(url) }
        // Neighbours have mostly the same, and to find it out takes longer.
        if !lastPlace.isEmpty, url.utf8.starts(with: lastPlace.utf8) { return }
        let reference = URIReference(url)
        guard let origin = reference.origin, let scheme = reference.scheme, let authority = reference.authority else {
            return
        }
        result.origins.insert(origin)
        lastPlace = "\(scheme)://\(authority)/"
    }

    mutating func write(_ line: HLSLine) throws(FormatError) {
        try write(line.text, ending: line.ending)
    }

    mutating func write(_ text: some StringProtocol, ending: Substring = "\n") throws(FormatError) {
        result.bytes += text.utf8
        if ending.utf8.starts(with: "\r\n".utf8) {
            result.bytes += "\r\n".utf8
        } else if !ending.isEmpty {
            // What a carriage return within the line hides from us is hidden from all others too.
            result.bytes += "\n".utf8
        }
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
