// SPDX-License-Identifier: MPL-2.0

/// What is asked of a service. The raw value is the name of the operation.
public enum PlayReadyOperation: String, Sendable, CaseIterable {
    /// Its messages are those that Microsoft's documentation prints.
    case acquireLicense = "AcquireLicense"
    /// The inner message is Latchkey's own.
    case acknowledgeLicense = "AcknowledgeLicense"
    /// The inner message is Latchkey's own.
    case joinDomain = "JoinDomain"
    /// The inner message is Latchkey's own.
    case leaveDomain = "LeaveDomain"
    /// The operation and its messages are Latchkey's own.
    case getTime = "GetLatchkeyTime"

    /// The value of the header field SOAPAction, quotes included.
    public var soapAction: String { "\"\(SOAP.protocols)/\(rawValue)\"" }

    /// The value of the header field Content-Type.
    public static let contentType = "text/xml; charset=utf-8"

    /// The operation that a SOAPAction names, with or without quotes.
    public init?(soapAction text: String) {
        let name = text.filter { $0 != "\"" }
        guard name.hasPrefix(SOAP.protocols + "/") else { return nil }
        self.init(rawValue: String(name.dropFirst(SOAP.protocols.count + 1)))
    }

    /// Of Latchkey's own messages.
    package static let latchkeyNamespace = "urn:latchkey:playready:1"

    /// The signed element of a request.
    package var requestElement: String {
        switch self {
        case .acquireLicense: "LA"
        case .acknowledgeLicense: "LicenseAcknowledgement"
        case .joinDomain: "DomainJoin"
        case .leaveDomain: "DomainLeave"
        case .getTime: "TimeRequest"
        }
    }

    /// The signed element of an answer.
    package var responseElement: String {
        switch self {
        case .acquireLicense: "LicenseResponse"
        case .acknowledgeLicense: "LicenseAcknowledgementResponse"
        case .joinDomain: "DomainJoinResponse"
        case .leaveDomain: "DomainLeaveResponse"
        case .getTime: "TimeResponse"
        }
    }

    /// What wraps a signed element and its signature.
    package func request(_ content: String) -> [UInt8] {
        SOAP.envelope(
            "<\(rawValue) xmlns=\"\(SOAP.protocols)\"><challenge><Challenge xmlns=\"\(SOAP.protocols)/messages\">"
                + "\(content)</Challenge></challenge></\(rawValue)>")
    }

    package func response(_ content: String) -> [UInt8] {
        SOAP.envelope(
            "<\(rawValue)Response xmlns=\"\(SOAP.protocols)\"><\(rawValue)Result>"
                + "<Response xmlns=\"\(SOAP.protocols)/messages\">\(content)</Response>"
                + "</\(rawValue)Result></\(rawValue)Response>")
    }
}
