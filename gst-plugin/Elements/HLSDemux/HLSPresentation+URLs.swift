// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyManifests
import Synchronization

extension HLSPresentation {
    /// A text of the stock demuxer, with the origin's URL in place of each URL of the loopback servers: that one is a
    /// secret of this process, and of no use to anybody. `isForPeople`: without queries, where tokens are.
    ///
    /// What has no URL of its own, as a note, gets the presentation's.
    func withOriginURLs(_ text: String, isForPeople: Bool) -> String {
        let (servers, home) = state.withLock { ($0.servers, $0.home) }
        guard let servers else { return text }
        var result = ""
        var rest = text[...]
        while let range = servers.firstURL(in: rest) {
            result += rest[..<range.lowerBound]
            var path = rest[range.upperBound...].prefix(while: Self.isOfPath)
            // The end of a sentence.
            while path.last == "." { path.removeLast() }
            rest = rest[path.endIndex...]
            let name = path.prefix { $0 != "." && $0 != "?" }
            var url = table.resource(String(name))?.originURL ?? home
            let query = path.drop { $0 != "?" }.dropFirst()
            if !query.isEmpty { url = HLSDeliveryDirectives.forwarding(String(query), to: url) }
            result += isForPeople ? HTTPRequest(url: url).printableURL : url
        }
        return result + rest
    }

    /// What the URLs of the loopback servers are made of.
    private static func isOfPath(_ character: Character) -> Bool {
        character.isASCII && (character.isLetter || character.isNumber || "._?=&-%".contains(character))
    }
}

extension HLSResource {
    /// Scheme, host and port of where it comes from. Nil where it is made here.
    var mediaOrigin: String? { originURL.flatMap { URIReference($0).origin } }

    /// Where it comes from. Nil where it is made here.
    var originURL: String? {
        switch self {
        case .playlist(let url): url
        case .initSegment(let segment): segment.url
        case .segment(let segment): segment.url
        case .relayedSegment(let url): url
        case .envelope(let segment): segment.url
        case .keyNote: nil
        }
    }
}
