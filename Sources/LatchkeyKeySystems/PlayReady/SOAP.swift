// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import LatchkeyContainers
import LatchkeyManifests

/// The pieces of XML that all messages have in common, written in canonical form: what is signed is signed as it stands.
package enum SOAP {
    package static let protocols = "http://schemas.microsoft.com/DRM/2007/03/protocols"
    static let xmlEncryption = "http://www.w3.org/2001/04/xmlenc#"
    static let xmlSignature = "http://www.w3.org/2000/09/xmldsig#"
    static let canonicalization = "http://www.w3.org/TR/2001/REC-xml-c14n-20010315"

    package static func envelope(_ body: String) -> [UInt8] {
        let head =
            "<?xml version=\"1.0\" encoding=\"utf-8\"?>"
            + "<soap:Envelope xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" "
            + "xmlns:xsd=\"http://www.w3.org/2001/XMLSchema\" xmlns:soap=\"http://schemas.xmlsoap.org/soap/envelope/\">"
        return Array("\(head)<soap:Body>\(body)</soap:Body></soap:Envelope>".utf8)
    }

    /// An element with text alone.
    package static func element(_ name: String, _ text: String) -> String {
        "<\(name)>\(XMLElement.escaped(text))</\(name)>"
    }

    /// An element with elements.
    package static func element(_ name: String, content: String) -> String { "<\(name)>\(content)</\(name)>" }

    package static func base64(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }

    /// The bytes of Base64 text in the first element of this name below `element`.
    package static func bytes(_ name: String, in element: XMLElement) -> [UInt8]? {
        element.first(name).flatMap { Base64.decode($0.text.filter { !$0.isWhitespace }) }
    }
}

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
}
