// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// One question for licences and its answer, as PlayReady-style licence services expect them.
///
/// The messages follow the samples of Microsoft's documentation
/// (<https://learn.microsoft.com/playready/overview/license-server>). Make one for each request: no two share a nonce. A
/// value without side effects; `open` may be called from any thread. Prints without keys.
public struct PlayReadyExchange: Sendable {
    /// How a request is made and what its answer has to have.
    public struct Options: Sendable {
        /// For the service, in the signed part of the challenge.
        public var customData: String?
        /// What the service takes for the version of the client.
        public var clientVersion = "4.3.0.0"
        /// What the client can do. A service gives keys for AES-CBC only to one that names "AESCBC".
        public var features = ["AESCBC"]
        /// The versions of further revocation lists, beside those of the provisioning.
        public var revocationLists: [RevocationList] = []
        /// False takes answers with a wrong signature, or none. Anybody on the way can make such an answer.
        public var requiresSignature = true
        /// False takes answers to another request.
        public var requiresNonce = true

        /// Strict: the answer has to be signed, and to be the answer to this request.
        public init() {}
    }

    /// A revocation list that the client has, for the service to see whether a newer one is needed.
    public struct RevocationList: Hashable, Sendable {
        /// Which list; see `LatchkeyKeySystems.RevocationList.id`.
        public var id: GUID
        /// Grows with each list of this kind.
        public var version: UInt32

        /// What is sent to the service, in the signed part of the challenge.
        public init(id: GUID, version: UInt32) {
            self.id = id
            self.version = version
        }
    }

    /// The body of the request: SOAP in UTF-8. Sent by POST with `PlayReadyOperation.acquireLicense.soapAction` and
    /// `PlayReadyOperation.contentType`.
    public let request: [UInt8]
    /// 16 random bytes. The answer has to bring them back.
    public let nonce: [UInt8]
    /// What the request was made with.
    public let options: Options
    let keyring: PlayReadyKeyring
    let trust: CertificateTrust
    let revocations: PlayReadyRevocations

    /// Makes the challenge. Takes about a millisecond.
    ///
    /// `clientTime` is the client's clock, in seconds since 1970. All random bytes come from `random`, but those of the
    /// signature, which OpenSSL draws by itself. Throws `internalError` where OpenSSL refuses, and `malformedRequest` for
    /// custom data that XML cannot hold.
    public init(
        header: WRMHeader, keyring: PlayReadyKeyring, provisioning: PlayReadyProvisioning, clientTime: UInt32,
        options: Options = Options(), random: RandomSource = .system
    ) throws(PlayReadyError) {
        guard options.customData?.unicodeScalars.allSatisfy(Self.isAllowed) ?? true else {
            throw .malformedRequest("the custom data has a control character")
        }
        do throws(CryptoError) {
            nonce = try random.bytes(16)
            let sealed = try ServiceMessage.clientData(
                keyring.device, features: options.features, serverKey: provisioning.serverKey, random: random)
            var said = options
            let lists = provisioning.revocations.information
            said.revocationLists = lists + said.revocationLists.filter { list in !lists.contains { $0.id == list.id } }
            let signed = Self.challenge(header, nonce: nonce, clientTime: clientTime, options: said, sealed: sealed)
            request = try ServiceMessage.request(.acquireLicense, signed: signed, device: keyring.device)
        } catch {
            throw .internalError("no challenge can be made: \(error)")
        }
        self.options = options
        self.keyring = keyring
        trust = provisioning.trust
        revocations = provisioning.revocations
    }

    /// Characters that XML 1.0 can hold.
    private static func isAllowed(_ scalar: Unicode.Scalar) -> Bool {
        scalar.value >= 0x20 && scalar.value != 0xFFFE && scalar.value != 0xFFFF
            || "\t\n\r".unicodeScalars.contains(scalar)
    }

    /// The LA element, in canonical form.
    private static func challenge(
        _ header: WRMHeader, nonce: [UInt8], clientTime: UInt32, options: Options, sealed: String
    ) -> String {
        let lists = options.revocationLists.map { list in
            let id = SOAP.element("ListID", SOAP.base64(list.id.guidOrderBytes))
            return SOAP.element("RevListInfo", content: id + SOAP.element("Version", String(list.version)))
        }
        var text = "<LA xmlns=\"\(SOAP.protocols)\" Id=\"\(SignedMessage.identifier)\" xml:space=\"preserve\">"
        text += SOAP.element("Version", String(header.version.protocolVersion))
        text += SOAP.element("ContentHeader", content: header.text)
        text += SOAP.element("CLIENTINFO", content: SOAP.element("CLIENTVERSION", options.clientVersion))
        text += SOAP.element("RevocationLists", content: lists.joined())
        if let customData = options.customData { text += SOAP.element("CustomData", customData) }
        text += SOAP.element("LicenseNonce", SOAP.base64(nonce))
        text += SOAP.element("ClientTime", String(clientTime))
        return text + sealed + "</LA>"
    }
}

extension WRMHeader.Version {
    /// Of the protocol for headers of this version, as open clients have it.
    var protocolVersion: Int {
        switch self {
        case .v4_0, .v4_1: 1
        case .v4_2: 4
        case .v4_3: 5
        }
    }
}

extension PlayReadyExchange: CustomStringConvertible, CustomReflectable {
    /// The size of the challenge alone.
    public var description: String { "PlayReady-style exchange, challenge of \(request.count) bytes" }
    /// Empty: the exchange holds the device's private keys.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
