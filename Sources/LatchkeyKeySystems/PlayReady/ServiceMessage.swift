// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection

/// Requests and answers of all operations: who seals, who signs, and what is checked.
enum ServiceMessage {
    /// Seals the device's certificates and its features for the service.
    static func clientData(
        _ device: PlayReadyDevice, features: [String], serverKey: [UInt8], random: RandomSource
    ) throws(CryptoError) -> String {
        let chain = SOAP.element("CertificateChain", SOAP.base64(device.chain.serialized))
        let list = features.map { "<Feature Name=\"\(XMLElement.escaped(attribute: $0))\"></Feature>" }.joined()
        let clear =
            "<Data>\(SOAP.element("CertificateChains", content: chain))\(SOAP.element("Features", content: list))"
        return try SealedData.seal(
            Array("\(clear)</Data>".utf8), for: serverKey, keyName: "WMRMServer", random: random)
    }

    /// The body of a request whose signed element is `signed`.
    static func request(
        _ operation: PlayReadyOperation, signed: String, device: PlayReadyDevice
    ) throws(CryptoError) -> [UInt8] {
        operation.request(signed + (try SignedMessage.signature(over: signed, key: device.signingKey, namesKey: true)))
    }

    /// Checks an answer and gives its signed element. Faults are thrown as such.
    ///
    /// `kind` and `usage` are those that the certificate of the signer has to have. Where `requiresSignature` is false,
    /// an answer whose signature is missing or does not fit is taken all the same.
    static func open(
        response bytes: [UInt8], _ operation: PlayReadyOperation, trust: CertificateTrust, kind: BCert.Kind,
        requiresSignature: Bool, now: UInt32?
    ) throws(PlayReadyError) -> XMLElement {
        guard bytes.count <= XMLLimits.exchange.size else { throw .malformedResponse("\(bytes.count) bytes") }
        if let fault = PlayReadyFault(response: bytes) { throw .fault(fault) }
        let message: SignedMessage
        do throws(SignedMessage.Failure) {
            message = try SignedMessage(reading: bytes, element: operation.responseElement)
        } catch {
            guard requiresSignature else { return try unsigned(bytes, operation) }
            switch error {
            case .missing: throw .signatureMissing("the service has to sign its answers")
            case .invalid(let reason):
                guard (try? unsigned(bytes, operation)) != nil else { throw .malformedResponse(reason) }
                throw .invalidSignature(reason)
            }
        }
        guard requiresSignature else { return message.element }
        guard let encoded = SOAP.bytes("SigningCertificateChain", in: message.element) else {
            throw .untrustedCertificate("the answer has no certificates")
        }
        let chain: BCertChain
        do throws(FormatError) {
            chain = try BCertChain(reading: encoded)
        } catch {
            throw .untrustedCertificate("the answer's certificates cannot be read: \(error)")
        }
        try trust.check(chain, now: now)
        guard chain.leaf.basic.kind == kind.rawValue, let key = chain.leaf.key(for: .signResponse) else {
            throw .untrustedCertificate("the signer of the answer may not sign it")
        }
        guard message.isSigned(by: key) else { throw .invalidSignature("another key signed the answer") }
        return message.element
    }

    private static func unsigned(
        _ bytes: [UInt8], _ operation: PlayReadyOperation
    ) throws(PlayReadyError) -> XMLElement {
        guard let element = (try? XMLElement(reading: bytes, limits: .exchange))?.first(operation.responseElement)
        else {
            throw .malformedResponse("no \(operation.responseElement)")
        }
        return element
    }
}
