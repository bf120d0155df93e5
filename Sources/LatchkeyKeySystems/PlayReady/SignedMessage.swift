// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests

/// A SOAP message with one element that is signed: a challenge or an answer.
///
/// The signature covers the exact bytes of the element, and those of SignedInfo. Both are read again from these bytes
/// alone, so that nothing which is not signed can stand in for what is.
package struct SignedMessage {
    package static let identifier = "SignedData"

    /// What was signed.
    package let element: XMLElement
    /// P-256, x and y, of whoever is said to have signed; nil where the message does not say.
    package let keyInfo: [UInt8]?
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
            keyInfo = (try? XMLElement.bytes(ofElement: "PublicKey", in: document))
                .flatMap { try? XMLElement(reading: $0, limits: .exchange) }
                .flatMap { SOAP.bytes("PublicKey", in: $0) }
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
