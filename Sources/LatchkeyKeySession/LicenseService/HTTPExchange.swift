// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyHTTP
import LatchkeyManifests
import LatchkeyProtection

extension HTTPTransport {
    /// Sends a message of a key exchange, which is made anew and sent once more if the connection was lost: key servers
    /// refuse a message that they have seen. A timeout has used up the time that there is. Without `repeats`, it is sent
    /// once.
    func exchange(
        repeats: Bool = true, _ message: () throws(KeyError) -> HTTPRequest
    ) async throws(KeyError) -> (sent: HTTPRequest, response: HTTPResponse) {
        var isRepeated = !repeats
        while true {
            let request = try message()
            do throws(HTTPError) {
                return (request, try await send(request))
            } catch {
                let isLost = error.isConnectionFailure && !error.isSameKind(as: .timedOut(""))
                guard isLost, !isRepeated, !Task.isCancelled else { throw KeyError(error) }
                isRepeated = true
            }
        }
    }
}

extension HTTPResponse {
    /// Says that this is no success: URL, status, number and the server's own words, as far as there are any (`ServerText`).
    ///
    /// Not quoted: what `request` had in its fields and in its query, what a transport added to it, and `secrets`.
    func refusal(of request: HTTPRequest, hiding secrets: [String] = []) -> String {
        var text = "\(printableURL) answers with status \(status)"
        if let code = LicenseResponse.errorCode(in: body) { text += ", error \(code)" }
        guard status >= 400 else { return text }
        let words = ServerText.words(
            in: body, contentType: header("Content-Type"), hiding: secrets + sentSecrets + request.values)
        return text + (words.map { ": “\($0)”" } ?? "")
    }
}

extension HTTPRequest {
    /// The values of fields, those of the query, and user name and password, as they are written and decoded.
    var values: [String] {
        var values: [String] = []
        for header in headers where !["content-type", "soapaction"].contains(header.name.lowercased()) {
            values.append(header.value)
            for part in header.value.split(separator: " ") { values.append(String(part)) }
        }
        // The transport sends these in a field, as Basic authentication.
        if let authority = URIReference(url).authority, let sign = authority.utf8.lastIndex(of: UInt8(ascii: "@")) {
            let parts = authority[..<sign].split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            let decoded = parts.map { PercentEncoding.decodeText($0) ?? String($0) }
            let pair = "\(decoded.first ?? ""):\(decoded.dropFirst().joined())"
            values += parts.map { String($0) } + decoded + [Base64.encode(Array(pair.utf8))]
        }
        guard let mark = url.firstIndex(of: "?") else { return values }
        for item in url[mark...].dropFirst().split(separator: "&") {
            guard let equals = item.firstIndex(of: "=") else { continue }
            let value = item[equals...].dropFirst()
            values += [String(value)] + (PercentEncoding.decodeText(value).map { [$0] } ?? [])
        }
        return values
    }
}

extension KeyError {
    /// A failed exchange with a license service. The text names the URL, without its query.
    init(_ error: HTTPError) {
        let text = error.description
        self =
            if error.isSameKind(as: .cancelled("")) {
                .cancelled(text)
            } else if error.isSameKind(as: .timedOut("")) {
                .timedOut(text)
            } else if error.isSameKind(as: .tooLarge("")) {
                .malformedResponse(text)
            } else if error.isSameKind(as: .localAddress("")) {
                .denied(text)
            } else if error.isSameKind(as: .invalidURL("")) || error.isSameKind(as: .invalidRequest("")) {
                .invalidConfiguration(text)
            } else {
                .network(text)
            }
    }
}
