// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems

/// Signs the answers of a service: a certificate and its private key.
struct ServiceSigner {
    let chain: BCertChain
    let key: P256PrivateKey

    /// The body of an answer whose signed element is made of `content`.
    func response(
        _ operation: PlayReadyOperation, namespace: String, content: String
    ) throws(CryptoError) -> [UInt8] {
        let name = operation.responseElement
        let chain = SOAP.element("SigningCertificateChain", SOAP.base64(chain.serialized))
        let signed =
            "<\(name) xmlns=\"\(namespace)\" Id=\"\(SignedMessage.identifier)\">\(content)\(chain)</\(name)>"
        return operation.response(
            signed + (try SignedMessage.signature(over: signed, key: key, namesKey: false)))
    }

    /// The body of an answer in Latchkey's own messages, with the nonce of the request.
    func ownResponse(
        _ operation: PlayReadyOperation, nonce: [UInt8], fields: String
    ) throws(CryptoError) -> [UInt8] {
        let head = SOAP.element("Version", String(OwnMessage.version)) + SOAP.element("Nonce", SOAP.base64(nonce))
        return try response(
            operation, namespace: PlayReadyOperation.latchkeyNamespace, content: head + fields)
    }
}
