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

/// A SOAP message with one element that is signed: a challenge or an answer.
///
/// The signature covers the exact bytes of the element, and those of SignedInfo. Both are read again from these bytes
/// alone, so that nothing which is not signed can stand in for what is.
package struct SignedMessage {
    package static let identifier = "SignedData"

    /// What was signed.
    package let element: XMLElement
    private let signedInfo: [UInt8]
    private let signature: [UInt8]

    package enum Failure: Error {
        /// There is no signature.
        case missing
        /// The message is not what it should be, or was changed.
        case invalid(String)
    }

    /// Reads the message and checks the digest. The signature itself is checked by `isSigned(by:)`.
    package init(reading document: [UInt8], element name: String) throws(Failure) {
        do {
            guard document.count <= XMLLimits.exchange.size else {
                throw FormatError.tooLarge("\(document.count) bytes")
            }
            let signed = try XMLElement.bytes(ofElement: name, in: document)
            element = try XMLElement(reading: signed, limits: .exchange)
            guard element[attribute: "Id"] == Self.identifier else {
                throw Failure.invalid("another element is signed")
            }
            guard let info = try? XMLElement.bytes(ofElement: "SignedInfo", in: document) else { throw Failure.missing }
            signedInfo = Array(info)
            let root = try XMLElement(reading: info, limits: .exchange)
            guard root.child("CanonicalizationMethod")?[attribute: "Algorithm"] == SOAP.canonicalization,
                root.child("SignatureMethod")?[attribute: "Algorithm"] == "\(SOAP.protocols)#ecdsa-sha256",
                root.children.count(where: { $0.localName == "Reference" }) == 1,
                let reference = root.child("Reference"), reference[attribute: "URI"] == "#\(Self.identifier)",
                reference.child("DigestMethod")?[attribute: "Algorithm"] == "\(SOAP.protocols)#sha256"
            else { throw Failure.invalid("a signature of another kind") }
            guard try Digest.sha256(Array(signed)) == SOAP.bytes("DigestValue", in: reference) else {
                throw Failure.invalid("the digest is that of other bytes")
            }
            let value = try XMLElement(
                reading: XMLElement.bytes(ofElement: "SignatureValue", in: document), limits: .exchange)
            guard let bytes = SOAP.bytes("SignatureValue", in: value) else { throw Failure.invalid("no Base64") }
            signature = bytes
        } catch let failure as Failure {
            throw failure
        } catch let error as FormatError {
            throw .invalid(error.description)
        } catch {
            throw .invalid("the digest cannot be computed")
        }
    }

    package func isSigned(by publicKey: [UInt8]) -> Bool { P256.verify(signature, of: signedInfo, by: publicKey) }

    /// The Signature element for `signed`, which has to be in canonical form.
    package static func signature(
        over signed: String, key: P256PrivateKey, namesKey: Bool
    ) throws(CryptoError) -> String {
        let digest = SOAP.base64(try Digest.sha256(Array(signed.utf8)))
        let info =
            "<SignedInfo xmlns=\"\(SOAP.xmlSignature)\">"
            + "<CanonicalizationMethod Algorithm=\"\(SOAP.canonicalization)\"></CanonicalizationMethod>"
            + "<SignatureMethod Algorithm=\"\(SOAP.protocols)#ecdsa-sha256\"></SignatureMethod>"
            + "<Reference URI=\"#\(identifier)\"><DigestMethod Algorithm=\"\(SOAP.protocols)#sha256\"></DigestMethod>"
            + "<DigestValue>\(digest)</DigestValue></Reference></SignedInfo>"
        let value = SOAP.base64(try key.sign(Array(info.utf8)))
        var keyInfo = ""
        if namesKey {
            keyInfo =
                "<KeyInfo xmlns=\"\(SOAP.xmlSignature)\"><KeyValue><ECCKeyValue>"
                + SOAP.element("PublicKey", SOAP.base64(key.publicKey)) + "</ECCKeyValue></KeyValue></KeyInfo>"
        }
        return "<Signature xmlns=\"\(SOAP.xmlSignature)\">\(info)<SignatureValue>\(value)</SignatureValue>\(keyInfo)"
            + "</Signature>"
    }
}

/// EncryptedData of a message: a random point for the receiver's key, whose x coordinate is IV and key of AES-128-CBC.
package enum SealedData {
    /// The EncryptedData element.
    package static func seal(
        _ clear: [UInt8], for receiver: [UInt8], keyName: String, random: RandomSource
    ) throws(CryptoError) -> String {
        let point = try P256.Point.base(times: .random(random))
        let wrapped = try P256.encrypt(point, for: receiver, random: random)
        var secret = try point.bytes()
        defer { wipe(&secret) }
        var key = Array(secret[16..<32])
        defer { wipe(&key) }
        guard let key = ContentKey(key) else { throw CryptoError(reason: 0) }
        let iv = Array(secret[..<16])
        let sealed = iv + (try AES.cbcSeal(key: key, iv: iv, clear))
        let method = "EncryptionMethod"
        return "<EncryptedData xmlns=\"\(SOAP.xmlEncryption)\" Type=\"\(SOAP.xmlEncryption)Element\">"
            + "<\(method) Algorithm=\"\(SOAP.xmlEncryption)aes128-cbc\"></\(method)>"
            + "<KeyInfo xmlns=\"\(SOAP.xmlSignature)\"><EncryptedKey xmlns=\"\(SOAP.xmlEncryption)\">"
            + "<\(method) Algorithm=\"\(SOAP.protocols)#ecc256\"></\(method)>"
            + "<KeyInfo xmlns=\"\(SOAP.xmlSignature)\">\(SOAP.element("KeyName", keyName))</KeyInfo>"
            + "<CipherData>\(SOAP.element("CipherValue", SOAP.base64(wrapped)))</CipherData></EncryptedKey></KeyInfo>"
            + "<CipherData>\(SOAP.element("CipherValue", SOAP.base64(sealed)))</CipherData></EncryptedData>"
    }

    /// What an EncryptedData element holds. Throws where it is laid out otherwise or was made for another key.
    package static func open(_ element: XMLElement, with key: P256PrivateKey) throws(CryptoError) -> [UInt8] {
        guard let wrapped = element.descendant("KeyInfo", "EncryptedKey", "CipherData"),
            let sealed = element.child("CipherData"), let wrapped = SOAP.bytes("CipherValue", in: wrapped),
            let sealed = SOAP.bytes("CipherValue", in: sealed), sealed.count >= 32
        else { throw CryptoError(reason: 0) }
        let isInToken = key.tokenURI != nil
        return try key.decrypt(wrapped) { secret throws(CryptoError) in
            // The first half is the IV, which tells the right message from the other one of a token.
            guard !isInToken || secret.prefix(16).elementsEqual(sealed[..<16]) else { return nil }
            var bytes = Array(secret[16...])
            defer { wipe(&bytes) }
            guard let key = ContentKey(bytes) else { throw CryptoError(reason: 0) }
            return try AES.cbcOpen(key: key, iv: Array(sealed[..<16]), Array(sealed[16...]))
        }
    }
}
