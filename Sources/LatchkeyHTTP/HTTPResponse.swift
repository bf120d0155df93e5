// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// A complete response, whatever its status.
///
/// Prints its status and its URL without query and user information; never fields or body.
public struct HTTPResponse: Sendable {
    /// 200 to 599. A redirect that names no target is also handed on.
    public var status: Int
    /// In the order of arrival. Trailers are not among them.
    public var headers: [HTTPHeader]
    /// Whole, without transfer coding. The receiver's to wipe where it holds keys.
    public var body: [UInt8]
    /// The URL that answered, after redirects, without fragment. It may hold a query and user information: print
    /// `printableURL`.
    public var url: String
    /// Where redirects for good (301, 308) led, up to the first that is none; nil: nowhere.
    package var movedURL: String?
    /// What a transport added to the request and error texts must not quote.
    package var sentSecrets: [String] = []

    /// For transports of one's own: `url` is the one that answered, after redirects.
    public init(status: Int, headers: [HTTPHeader] = [], body: [UInt8] = [], url: String) {
        self.status = status
        self.headers = headers
        self.body = body
        self.url = url
    }

    /// The value of the first field with this name, in any case.
    public func header(_ name: String) -> String? {
        headers.first { $0.isNamed(name) }?.value
    }

    /// The status as whoever wants the content sees it: 203 is 200 from a proxy that changed something (RFC 9110, 15.3.4).
    package static func plainStatus<Status: BinaryInteger>(_ status: Status) -> Status { status == 203 ? 200 : status }

    /// The same with `plainStatus`.
    package var withPlainStatus: HTTPResponse {
        var response = self
        response.status = Self.plainStatus(status)
        return response
    }

    /// The URL for logs and error texts: without query, fragment and user information.
    public var printableURL: String { URIReference.printable(url) }
}

extension HTTPResponse: Redacted {
    /// Status, `printableURL` and the size of the body.
    public var description: String { "\(status) from \(printableURL), \(body.count) bytes" }
    /// The same three for `dump`.
    public var shown: KeyValuePairs<String, Any> { ["status": status, "url": printableURL, "bodySize": body.count] }
}
