// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems

extension PlayReadyFault {
    /// The SOAP answer, for a body of status 500.
    package var serialized: [UInt8] {
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
}
