// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests

/// What Latchkey's own messages have in common: a version, a nonce that has to come back, and the pattern of a licence
/// challenge.
package enum OwnMessage {
    package static let version = 1

    static func request(
        _ operation: PlayReadyOperation, fields: String, device: PlayReadyDevice, provisioning: PlayReadyProvisioning,
        clientTime: UInt32, random: RandomSource
    ) throws(PlayReadyError) -> (request: [UInt8], nonce: [UInt8]) {
        do throws(CryptoError) {
            let nonce = try random.bytes(16)
            let sealed = try ServiceMessage.clientData(
                device, features: [], serverKey: provisioning.serverKey, random: random)
            let name = operation.requestElement
            var text = "<\(name) xmlns=\"\(PlayReadyOperation.latchkeyNamespace)\" Id=\"\(SignedMessage.identifier)\">"
            text += SOAP.element("Version", String(version)) + SOAP.element("Nonce", SOAP.base64(nonce))
            text += SOAP.element("ClientTime", String(clientTime)) + fields + sealed + "</\(name)>"
            return (try ServiceMessage.request(operation, signed: text, device: device), nonce)
        } catch {
            throw .internalError("no request can be made: \(error)")
        }
    }

    static func open(
        response bytes: [UInt8], _ operation: PlayReadyOperation, nonce: [UInt8], trust: CertificateTrust,
        kind: BCert.Kind, now: UInt32?
    ) throws(PlayReadyError) -> XMLElement {
        let message = try ServiceMessage.open(
            response: bytes, operation, trust: trust, kind: kind, requiresSignature: true, now: now)
        guard message.child("Version")?.text == String(version) else {
            throw .malformedResponse("another version of Latchkey's own messages")
        }
        guard message.child("Nonce").flatMap({ SOAP.bytes("Nonce", in: $0) }) == nonce else {
            throw .wrongNonce("ask again")
        }
        return message
    }
}
