// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems

extension PlayReadyOperation {
    /// The operation that a SOAPAction names, with or without quotes.
    package init?(soapAction text: String) {
        let name = text.filter { $0 != "\"" }
        guard name.hasPrefix(SOAP.protocols + "/") else { return nil }
        self.init(rawValue: String(name.dropFirst(SOAP.protocols.count + 1)))
    }

    /// What wraps a signed element and its signature.
    func response(_ content: String) -> [UInt8] {
        SOAP.envelope(
            "<\(rawValue)Response xmlns=\"\(SOAP.protocols)\"><\(rawValue)Result>"
                + "<Response xmlns=\"\(SOAP.protocols)/messages\">\(content)</Response>"
                + "</\(rawValue)Result></\(rawValue)Response>")
    }
}
