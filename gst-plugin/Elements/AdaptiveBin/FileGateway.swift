// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyHTTP

/// Brings a whole file from its server to a source element of this process, over a loopback server whose path nobody can
/// guess. Where the network fails after something came, the element's request is held, and goes on where it was.
/// Closes with the object. Thread-safe.
package final class FileGateway: Sendable {
    /// What to play in the place of the file's URL. It belongs in no log.
    package let url: String
    private let server: SegmentServer

    /// `limit` is how long one outage may last. `tell` gets the fields of `latchkey-fetch` messages, and `lose` the reason
    /// why a file that was handed on in part cannot be had to its end. Nil where no source element of this process could
    /// reach the gateway, or the URL is not one that it takes.
    package init?(
        _ contentURL: String, limit: Duration, tell: @escaping @Sendable ([String: FieldValue]) -> Void,
        lose: @escaping @Sendable (String) -> Void
    ) {
        guard limit > .zero, LoopbackReach.isDirect(Environment.variable),
            let authority = contentURL.firstRange(of: "://")?.upperBound,
            ["http", "https"].contains(contentURL[..<authority].dropLast(3).lowercased())
        else { return nil }
        let end = contentURL[authority...].firstIndex { "/?#".contains($0) } ?? contentURL.endIndex
        let place = contentURL[end...].prefix { $0 != "#" }
        let origin = PresentationOrigin(transport: CurlTransport.shared, medium: "file")
        let relay = SegmentRelay(origin, limit: limit, isForPlayers: true) { notice in
            if case .lost(let failure) = notice { return lose(failure.text) }
            tell(Dictionary(notice.fields, uniquingKeysWith: { $1 }))
        }
        server = SegmentServer(origin, relay: relay)
        guard (try? server.open()) != nil, let base = server.route(String(contentURL[..<end])) else { return nil }
        url = base + (place.hasPrefix("/") ? "" : "/") + place
    }

    deinit { server.close() }
}
