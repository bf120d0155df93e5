// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyHTTP
public import LatchkeyProtection
public import LatchkeyViewingSession

/// Where the token of a viewing session goes in a license request.
public struct SessionTokenPlacement: Sendable, Hashable {
    /// The names in a configuration file are the raw values.
    public enum Form: String, Sendable, Hashable, CaseIterable {
        /// A header field of its own.
        case header
        /// Behind what the header field has already, with a comma between them.
        case joinedHeader = "joined-header"
        /// A parameter of the URL's query.
        case query
        /// A member of the JSON object, or a field of the form, that the body is.
        case body
        /// The license request goes without.
        case none
    }

    /// Where in the request.
    public var form: Form
    /// Of the header field, the parameter or the member.
    public var name: String

    /// Without a name: `sessionToken` in a query or a body, `X-Session-Token` in a header.
    public init(_ form: Form = .header, name: String? = nil) {
        self.form = form
        self.name = name ?? (form == .query || form == .body ? "sessionToken" : "X-Session-Token")
    }

    /// Puts the token into the request. Throws `invalidConfiguration` where the body has no place for it.
    public func add(_ token: SessionToken, to request: inout HTTPRequest) throws(KeyError) {
        // Now the request holds a credential.
        if form != .none { request.staysWithinOrigin = true }
        switch form {
        case .none: break
        case .header:
            request.headers.removeAll { isField($0) }
            request.headers.append(HTTPHeader(name: name, value: token.text))
        case .joinedHeader:
            guard let index = request.headers.lastIndex(where: isField) else {
                request.headers.append(HTTPHeader(name: name, value: token.text))
                return
            }
            let value = request.headers[index].value
            request.headers[index] = HTTPHeader(
                name: request.headers[index].name, value: value.isEmpty ? token.text : "\(value),\(token.text)")
        case .query:
            let fragment = request.url.firstIndex(of: "#") ?? request.url.endIndex
            var url = String(request.url[..<fragment])
            if !url.contains("?") { url += "?" } else if !url.hasSuffix("?"), !url.hasSuffix("&") { url += "&" }
            request.url = url + field(token)
        case .body: try addToBody(token, &request)
        }
    }

    private func isField(_ header: HTTPHeader) -> Bool { header.name.lowercased() == name.lowercased() }

    private func field(_ token: SessionToken) -> String {
        "\(PercentEncoding.encode(name))=\(PercentEncoding.encode(token.text))"
    }

    private func addToBody(_ token: SessionToken, _ request: inout HTTPRequest) throws(KeyError) {
        let type = request.headers.last { $0.name.lowercased() == "content-type" }?.value.lowercased() ?? ""
        if type.hasPrefix("application/x-www-form-urlencoded") {
            request.body += Array(((request.body.isEmpty ? "" : "&") + field(token)).utf8)
            return
        }
        guard let first = request.body.firstIndex(where: { !Self.isSpace($0) }), request.body[first] == 0x7B,
            let next = request.body[(first + 1)...].firstIndex(where: { !Self.isSpace($0) })
        else {
            throw .invalidConfiguration(
                "the body of the license request is neither a JSON object nor a form, so that the session's token has "
                    + "no place in it; set another token-form in [session]")
        }
        let member = "\(LicenseRequestBody.JSON.quote(name)):\(LicenseRequestBody.JSON.quote(token.text))"
        request.body.insert(
            contentsOf: Array((member + (request.body[next] == 0x7D ? "" : ",")).utf8), at: first + 1)
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || (0x09...0x0D).contains(byte) }
}

/// Sends requests over another transport, those to the configured license service with the viewing session's token as it
/// is at that moment.
struct SessionTokenTransport: HTTPTransport {
    let base: any HTTPTransport
    let permit: ViewingPermit

    func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        guard request.mayCarrySessionToken, let token = permit.token else { return try await base.send(request) }
        var request = request
        do throws(KeyError) {
            try permit.tokenPlacement.add(token, to: &request)
        } catch {
            throw .invalidRequest(error.reason)
        }
        var response = try await base.send(request)
        response.sentSecrets.append(token.text)
        return response
    }
}

extension KeySession {
    /// The transport for loaders of this session: with a session server, license requests carry the session's token.
    public func transport(over base: any HTTPTransport) -> any HTTPTransport {
        guard let permit = viewing else { return base }
        return SessionTokenTransport(base: base, permit: permit)
    }
}
