// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import LatchkeyContainers
import LatchkeyManifests

extension PlayReadyFault {
    /// The fault in a SOAP answer. Nil for an answer without one, and for a document that cannot be read.
    ///
    /// Children are taken by local name, because services do not agree on namespaces. A fault without a number counts as
    /// an internal error.
    public init?(response bytes: [UInt8]) {
        guard let root = try? XMLElement(reading: bytes, limits: .exchange), let fault = root.first("Fault") else {
            return nil
        }
        self.init(code: Self.internalError)
        let detail = fault.child("detail")
        func text(_ name: String) -> String? {
            detail?.first(name).map(\.trimmedText).flatMap { $0.isEmpty ? nil : $0 }
        }
        if let code = text("StatusCode").flatMap(Self.number) { self.code = code }
        self.text = ServerText.printable(fault.child("faultstring")?.trimmedText ?? "")
        customData = text("CustomData")
        serviceID = text("ServiceId").flatMap(Self.guid)
        accountID = text("AccountId").flatMap(Self.guid)
        domainServerURL = text("DomainServerUrl")
        redirectURL = text("RedirectUrl")
        // A service may put the address into its custom data.
        if redirectURL == nil, code == Self.redirect, let url = customData, url.hasPrefix("http") { redirectURL = url }
    }

    /// The SOAP answer, for a body of status 500.
    public var serialized: [UInt8] {
        var detail = SOAP.element("StatusCode", Self.hexadecimal(code).lowercased())
        if let serviceID { detail += SOAP.element("ServiceId", SOAP.base64(serviceID.guidOrderBytes)) }
        if let accountID { detail += SOAP.element("AccountId", SOAP.base64(accountID.guidOrderBytes)) }
        if let domainServerURL { detail += SOAP.element("DomainServerUrl", domainServerURL) }
        if let redirectURL { detail += SOAP.element("RedirectUrl", redirectURL) }
        if let customData { detail += SOAP.element("CustomData", customData) }
        return SOAP.envelope(
            "<soap:Fault><faultcode>soap:Server</faultcode>" + SOAP.element("faultstring", text)
                + "<detail><Exception xmlns=\"\(SOAP.protocols)/messages\">\(detail)</Exception></detail></soap:Fault>")
    }

    private static func number(_ text: String) -> UInt32? {
        UInt32(text.lowercased().hasPrefix("0x") ? String(text.dropFirst(2)) : text, radix: 16)
    }

    private static func guid(_ text: String) -> GUID? {
        GUID(text) ?? Base64.decode(text).flatMap { GUID(guidOrder: $0) }
    }
}
