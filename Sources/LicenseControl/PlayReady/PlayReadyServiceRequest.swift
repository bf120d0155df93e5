// SPDX-License-Identifier: MPL-2.0

public import HTTP
public import KeySystems
public import ProtectionModel

/// A challenge on its way to a licence or domain service.
///
/// Address and header fields may be changed; the challenge is signed and stays as it is. Prints without the address's
/// query and without fields and challenge.
public struct PlayReadyServiceRequest: Sendable {
    /// What the service is asked to do.
    public let operation: PlayReadyOperation
    /// Where it goes: an absolute http or https URL.
    public var url: String
    /// Beside Content-Type and SOAPAction, which `httpRequest` adds.
    public var headers: [HTTPHeader]
    /// The body: SOAP in UTF-8.
    public let challenge: [UInt8]
    /// For the whole exchange; nil leaves the transport's own.
    public var timeout: Duration?
    private let mayCarrySessionToken: Bool
    private let transport: any HTTPTransport

    /// The most bytes of an answer that are read.
    public static let maximumResponseSize = 1 << 20

    init(
        _ operation: PlayReadyOperation, url: String, headers: [HTTPHeader], challenge: [UInt8], timeout: Duration?,
        mayCarrySessionToken: Bool = false, transport: any HTTPTransport
    ) {
        self.operation = operation
        self.url = url
        self.headers = headers
        self.challenge = challenge
        self.timeout = timeout
        self.mayCarrySessionToken = mayCarrySessionToken
        self.transport = transport
    }

    /// The request as PlayReady-style services take it: SOAP 1.1 by POST.
    public var httpRequest: HTTPRequest {
        var request = HTTPRequest(
            method: "POST", url: url,
            headers: [
                HTTPHeader(name: "Content-Type", value: PlayReadyOperation.contentType),
                HTTPHeader(name: "SOAPAction", value: operation.soapAction),
            ] + headers, body: challenge)
        // Custom data is often a token.
        request.staysWithinOrigin = true
        request.mayCarrySessionToken = mayCarrySessionToken
        request.maximumResponseSize = Self.maximumResponseSize
        if let timeout { request.timeout = timeout }
        return request
    }

    /// Sends it as it is now. Returns the body of the answer; a service's fault is one.
    ///
    /// Ends soon after the task is cancelled. Throws `serverStatus` for a status that is no success and brings no fault.
    public func send() async throws(KeyError) -> [UInt8] {
        let response: HTTPResponse
        do throws(HTTPError) {
            response = try await transport.send(httpRequest)
        } catch {
            throw KeyError(error)
        }
        guard 200..<300 ~= response.status || PlayReadyFault(response: response.body) != nil else {
            throw .serverStatus("\(response.printableURL) answers with status \(response.status)")
        }
        return response.body
    }
}

extension PlayReadyServiceRequest: CustomStringConvertible, CustomReflectable {
    /// Operation and URL without its query.
    public var description: String { "\(operation.rawValue) to \(HTTPRequest(url: url).printableURL)" }
    /// The same; fields and challenge do not show in `dump`.
    public var customMirror: Mirror { Mirror(self, children: ["request": description]) }
}
