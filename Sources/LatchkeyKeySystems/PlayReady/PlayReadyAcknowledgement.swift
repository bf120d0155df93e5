// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests

/// Tells a service that its licenses have been stored, where the answer had a transaction id.
///
/// The inner message of PlayReady's acknowledgement is not public. This one is Latchkey's own, version 1:
/// LicenseAcknowledgement with Version (1), Nonce, ClientTime, TransactionID (Base64) and EncryptedData, answered by
/// LicenseAcknowledgementResponse with Version, Nonce and SigningCertificateChain.
public struct PlayReadyAcknowledgement: Sendable {
    /// The body of the request, for `PlayReadyOperation.acknowledgeLicense`.
    public let request: [UInt8]
    private let nonce: [UInt8]
    private let trust: CertificateTrust

    /// Throws `internalError` where OpenSSL refuses.
    public init(
        transactionID: [UInt8], device: PlayReadyDevice, provisioning: PlayReadyProvisioning, clientTime: UInt32,
        random: RandomSource = .system
    ) throws(PlayReadyError) {
        (request, nonce) = try OwnMessage.request(
            .acknowledgeLicense, fields: SOAP.element("TransactionID", SOAP.base64(transactionID)), device: device,
            provisioning: provisioning, clientTime: clientTime, random: random)
        trust = provisioning.trust
    }

    /// Checks the answer. Throws as `PlayReadyExchange.open` does.
    public func confirm(response bytes: [UInt8], now: UInt32? = nil) throws(PlayReadyError) {
        _ = try OwnMessage.open(
            response: bytes, .acknowledgeLicense, nonce: nonce, trust: trust, kind: .licenseSigner, now: now)
    }
}

/// Gets the time from a time service that the provisioned root vouches for, or the time key where one is provisioned.
///
/// The wire format of PlayReady's secure time is not public. This one is Latchkey's own, version 1: TimeRequest with
/// Version (1), Nonce, ClientTime and EncryptedData, answered by TimeResponse with Version, Nonce, Time (seconds since
/// 1970) and SigningCertificateChain, whose leaf is a secure time server.
public struct PlayReadyTimeExchange: Sendable {
    /// The body of the request, for `PlayReadyOperation.getTime`.
    public let request: [UInt8]
    private let nonce: [UInt8]
    private let trust: CertificateTrust

    /// Throws `internalError` where OpenSSL refuses.
    public init(
        device: PlayReadyDevice, provisioning: PlayReadyProvisioning, clientTime: UInt32, random: RandomSource = .system
    ) throws(PlayReadyError) {
        (request, nonce) = try OwnMessage.request(
            .getTime, fields: "", device: device, provisioning: provisioning, clientTime: clientTime, random: random)
        trust = provisioning.timeTrust
    }

    /// The time that the service signed, in seconds since 1970: that of the moment at which it answered. The nonce makes
    /// it younger than the request.
    ///
    /// Throws as `PlayReadyExchange.open` does. The dates of the certificates are checked against the time itself.
    public func time(response bytes: [UInt8]) throws(PlayReadyError) -> UInt32 {
        let message = try OwnMessage.open(
            response: bytes, .getTime, nonce: nonce, trust: trust, kind: .secureTimeServer, now: nil)
        guard let time = message.child("Time").flatMap({ UInt32($0.text) }) else { throw .malformedResponse("no time") }
        _ = try OwnMessage.open(
            response: bytes, .getTime, nonce: nonce, trust: trust, kind: .secureTimeServer, now: time)
        return time
    }
}

/// What Latchkey's own messages have in common: a version, a nonce that has to come back, and the pattern of a license
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
