// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyManifests

/// A request that a service has opened and checked.
struct ServiceRequest {
    let element: XMLElement
    let chain: BCertChain
    let features: Set<String>
    /// 16 bytes, to go back in the answer.
    var nonce: [UInt8]

    /// Opens a request. Throws the fault that the client gets.
    init(
        _ bytes: [UInt8], _ operation: PlayReadyOperation, serverKey: P256PrivateKey, trust: CertificateTrust,
        now: UInt32
    ) throws(PlayReadyFault) {
        func invalid(_ text: String) -> PlayReadyFault {
            PlayReadyFault(code: PlayReadyFault.invalidMessage, text: text)
        }
        let message: SignedMessage
        do throws(SignedMessage.Failure) {
            message = try SignedMessage(reading: bytes, element: operation.requestElement)
        } catch {
            throw invalid("no signed \(operation.requestElement)")
        }
        guard let sealed = message.element.child("EncryptedData"),
            let clear = try? SealedData.open(sealed, with: serverKey),
            let data = try? XMLElement(reading: clear, limits: .exchange),
            let encoded = SOAP.bytes("CertificateChain", in: data), let chain = try? BCertChain(reading: encoded)
        else { throw invalid("the client's data cannot be opened") }
        do throws(PlayReadyError) {
            try trust.check(chain, now: now)
        } catch {
            throw invalid(error.description)
        }
        guard chain.leaf.basic.kind == BCert.Kind.device.rawValue, let key = chain.leaf.key(for: .sign),
            message.keyInfo == key, message.isSigned(by: key)
        else { throw invalid("the device did not sign the request") }
        let name = operation == .acquireLicense ? "LicenseNonce" : "Nonce"
        guard let nonce = message.element.child(name).flatMap({ SOAP.bytes(name, in: $0) }), nonce.count == 16 else {
            throw invalid("no nonce")
        }
        element = message.element
        self.chain = chain
        self.nonce = nonce
        features = Set(data.child("Features")?.children.compactMap { $0[attribute: "Name"] } ?? [])
    }

    func text(_ name: String) -> String? { element.child(name)?.text }

    var clientTime: UInt32? { text("ClientTime").flatMap { UInt32($0) } }

    func guid(_ name: String) -> GUID? {
        element.child(name).flatMap { SOAP.bytes(name, in: $0) }.flatMap { GUID(guidOrder: $0) }
    }
}
