// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyProtection

/// Use case 1: a key server of one's own. Its URL is fixed, or made of the key URI.
///
/// Written out step by step, as one does with `AVAssetResourceLoaderDelegate`; `FairPlayLoader` does the same and more.
final class OnPremiseLoader: ResourceLoader {
    let name = "on-premise key server"
    private let keyServer: String?
    private let certificate: ApplicationCertificate

    /// Without `keyServer` the server stands in the key URI: `skd:{server}?cid={id}`.
    init(keyServer: String?, certificate: ApplicationCertificate) {
        self.keyServer = keyServer
        self.certificate = certificate
    }

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        guard let text = request.keyURI, KeyURI(text).scheme == "skd" else { return false }
        let uri = KeyURI(text)
        Task {
            do throws(KeyError) {
                request.finishLoading(with: .license(try await ckc(for: request, uri)))
            } catch {
                request.finishLoading(with: error)
            }
        }
        return true
    }

    private func ckc(for request: KeyLoadingRequest, _ uri: KeyURI) async throws(KeyError) -> [UInt8] {
        // Where to send it, and what the content is called.
        guard let url = keyServer ?? uri.url(scheme: "http") else { throw .malformedRequest("no key server") }
        let contentIdentifier = Array((uri.parameter("cid") ?? uri.afterScheme).utf8)

        // The question for the key server.
        let spc = try request.streamingContentKeyRequestData(
            forApp: try await certificate.der(), contentIdentifier: contentIdentifier)

        let post = HTTPRequest(
            method: "POST", url: url, headers: [HTTPHeader(name: "Content-Type", value: "application/octet-stream")],
            body: spc)
        let response: HTTPResponse
        do throws(HTTPError) {
            response = try await CurlTransport.shared.send(post)
        } catch {
            throw .network(error.description)
        }
        guard response.status == 200 else { throw .serverStatus("\(response.printableURL): \(response.status)") }
        return try LicenseResponse.ckc(in: response.body)
    }
}
