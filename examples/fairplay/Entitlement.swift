// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyProtection

/// Use case 2: an entitlement server says who may play, and answers with a URL that has a token in it.
struct Entitlement: Sendable {
    let server: String
    let user: String
    /// The token is to be bound to the device on which the user played first.
    let enforcesDevice: Bool

    /// A loader that asks for a token before it asks for the key.
    func loader(certificate: ApplicationCertificate) -> FairPlayLoader {
        var service = LicenseService(.expressPlay)
        service.contentIdentifier = .firstOf([.queryParameter("cid"), .afterScheme])
        return FairPlayLoader(service: service, certificate: certificate) { _, identifier throws(KeyError) in
            try await tokenURL(for: identifier)
        }
    }

    /// The URL is the whole body, of type text/uri-list.
    func tokenURL(for contentIdentifier: [UInt8]) async throws(KeyError) -> String {
        var url = "\(server)/entitlement?cid=\(escaped(contentIdentifier))&user=\(escaped(Array(user.utf8)))"
        if enforcesDevice { url += "&device=enforce" }
        let response: HTTPResponse
        do throws(HTTPError) {
            response = try await CurlTransport.shared.send(HTTPRequest(url: url))
        } catch {
            throw .network(error.description)
        }
        guard response.status == 200 else {
            throw .denied("\(response.printableURL) answers with status \(response.status)")
        }
        let lines = String(decoding: response.body, as: UTF8.self).split(whereSeparator: \.isNewline)
        guard let line = lines.first else { throw .malformedResponse("no token URL") }
        return String(line)
    }

    private func escaped(_ bytes: [UInt8]) -> String { bytes.map { "%" + Hex.encode([$0]) }.joined() }
}
