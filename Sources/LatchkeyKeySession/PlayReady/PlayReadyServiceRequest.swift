// SPDX-License-Identifier: MPL-2.0

public import LatchkeyHTTP
public import LatchkeyKeySystems
import LatchkeyManifests
public import LatchkeyProtection

/// A challenge on its way to a license or domain service.
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
    private let customData: String?
    /// What is checked before `url` is asked, as long as that is the one that the client chose.
    private let check: (url: String, body: Check)?
    private let cookies: CookieStore?
    private let transport: any HTTPTransport

    /// The most bytes of an answer that are read.
    public static let maximumResponseSize = 1 << 20

    /// Throws where the request must not be sent.
    typealias Check = @Sendable (inout HTTPRequest) throws(KeyError) -> Void

    init(
        _ operation: PlayReadyOperation, url: String, headers: [HTTPHeader], challenge: [UInt8], timeout: Duration?,
        mayCarrySessionToken: Bool = false, customData: String? = nil, check: Check? = nil,
        cookies: CookieStore? = nil, transport: any HTTPTransport
    ) {
        self.operation = operation
        self.url = url
        self.headers = headers
        self.challenge = challenge
        self.timeout = timeout
        self.mayCarrySessionToken = mayCarrySessionToken
        self.customData = customData
        self.check = check.map { (url, $0) }
        self.cookies = cookies
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
        request.cookies = cookies
        request.toleratesCompression = true
        request.maximumResponseSize = Self.maximumResponseSize
        if let timeout { request.timeout = timeout }
        return request
    }

    /// Sends it as it is now. Returns the body of the answer; a service's fault is one.
    ///
    /// Sends it once more if the connection was lost. Ends soon after the task is cancelled. Throws `denied` where media or a
    /// service names the URL, and `Configuration.mediaLicenseURLs` does not allow it; a `url` that was changed is not checked.
    /// Throws `serverStatus` for a status that is no success and brings no fault.
    public func send() async throws(KeyError) -> [UInt8] {
        // The trusted clock asks again by itself.
        let (request, response) = try await transport.exchange(repeats: operation != .getTime) { () throws(KeyError) in
            var request = httpRequest
            if let check, check.url == url { try check.body(&request) }
            return request
        }
        let secrets = response.sentSecrets + (customData.map { [$0] } ?? [])
        // The text of a service's fault is quoted in error texts; what is beside it counts as it is. Faults are not signed.
        if PlayReadyFault(response: response.body) != nil {
            let body = ServerText.removing(secrets, from: response.body)
            let name = Array("faultstring".utf8)
            let places = body.ranges(of: name)
            guard let start = places.first?.upperBound, let end = places.last?.lowerBound, start < end else {
                return body
            }
            return body[..<start] + ServerText.removing(request.values, from: Array(body[start..<end])) + body[end...]
        }
        guard 200..<300 ~= response.status else {
            throw .serverStatus(response.refusal(of: request, hiding: secrets))
        }
        return response.body
    }
}

extension PlayReadyServiceRequest: Redacted {
    /// Operation and URL without its query.
    public var description: String { "\(operation.rawValue) to \(HTTPRequest(url: url).printableURL)" }
}

/// A service's URL, and what it is known from.
struct NamedService: Sendable {
    enum Source: Sendable {
        /// Settings, or the application.
        case settings
        /// Content from this URL; nil: not known.
        case media(String?)
        /// The service at this URL, which no one signs. With what held for its own address.
        case service(String, forbidsLocalAddresses: Bool)
    }

    let url: String
    let namedBy: Source
    /// Those of the presentation that a license is for.
    var cookies: CookieStore?

    func check(_ rule: MediaLicenseURLs) -> PlayReadyServiceRequest.Check? {
        switch namedBy {
        case .settings: nil
        case .media(let mediaURL): { request throws(KeyError) in try rule.check(&request, mediaURL: mediaURL) }
        case .service(let url, let forbidden):
            { request throws(KeyError) in
                try rule.check(&request, serviceURL: url, forbidsLocalAddresses: forbidden)
            }
        }
    }

    /// Whether requests for it may reach no local address.
    func forbidsLocalAddresses(_ rule: MediaLicenseURLs) -> Bool {
        var request = HTTPRequest(url: url)
        if let allows = check(rule) { try? allows(&request) }
        return request.forbidsLocalAddresses
    }
}

/// Sends challenges in the place of the client: with fields or cookies of its own, to another address, or through a
/// portal that knows the user.
///
/// Called on a task, never on the main thread. The task is cancelled when the license is not wanted any more; a delegate that
/// waits for something else than `PlayReadyServiceRequest.send` looks at `Task.isCancelled` itself. A delegate that only adds
/// something:
///
/// ```swift
/// func performLicenseAcquisition(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8] {
///     var request = request
///     request.headers.append(HTTPHeader(name: "Cookie", value: cookie))
///     return try await request.send()
/// }
/// ```
public protocol PlayReadyDelegate: AnyObject, Sendable {
    /// Sends a challenge for a license and returns the body of the answer, a fault included. Throws, `denied` say, where
    /// there is no usable one; the acquisition has failed then.
    func performLicenseAcquisition(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8]

    /// The same for a challenge to join a domain, which a service asked for. Not implemented: the client sends it.
    func performJoinDomain(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8]
}

extension PlayReadyDelegate {
    /// Sends the challenge as the client would. Throws as `PlayReadyServiceRequest.send` does.
    public func performJoinDomain(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8] {
        try await request.send()
    }
}
