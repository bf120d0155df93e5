// SPDX-License-Identifier: MPL-2.0

public import LatchkeyContainers
public import LatchkeyManifests
public import LatchkeyProtection

/// One question for licenses and its answer, as PlayReady-style license services expect them.
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
        /// False takes answers with a wrong signature, or none. An attacker on the network path can make such an
        /// answer.
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

extension PlayReadyExchange: Redacted {
    /// The size of the challenge alone.
    public var description: String { "PlayReady-style exchange, challenge of \(request.count) bytes" }
}

extension PlayReadyExchange {
    /// What a service answered.
    public struct Answer: Sendable {
        /// In the order of the answer. None where the header did not ask for one.
        public var licenses: [PlayReadyLicense] = []
        /// The service's word for the application.
        public var customData: String?
        /// If it is there, the service wants a message when the licenses have been stored: `PlayReadyAcknowledgement`.
        public var transactionID: [UInt8]?
        /// Revocation lists as they came, by the id that the answer says, whether they can be used or not.
        public var revocationListData: [GUID: [UInt8]] = [:]
        /// Those that are newer than the client's, and were checked. They count for this answer already.
        public var revocationLists: [LatchkeyKeySystems.RevocationList] = []
        /// Whether any license may be stored.
        public var isPersistent: Bool { licenses.contains { !$0.terms.cannotPersist } }
    }

    /// The most licenses of an answer that are read.
    public static let maximumLicenseCount = 64

    /// Checks an answer and opens its licenses. `now` is the trusted time, where there is one.
    ///
    /// Checked are the signature of the answer, the certificates of the signer up to the provisioned root, the nonce (in
    /// the answer where a license may be stored, and in each license that may not), and the signature of each license.
    ///
    /// A newer revocation list that comes with the answer counts already, also against the signer of the answer.
    ///
    /// Throws `fault` for the service's own faults, `malformedResponse`, `signatureMissing`, `invalidSignature`,
    /// `untrustedCertificate`, `certificateRevoked`, `wrongNonce`, and the errors of `PlayReadyLicense`.
    public func open(response bytes: [UInt8], now: UInt32? = nil) throws(PlayReadyError) -> Answer {
        var (answer, trust) = (Answer(), trust)
        let (revocations, newer) = revocations(after: bytes)
        answer.revocationLists = revocations.lists.filter { newer.contains($0.id) }
        trust.revoked = revocations.keyDigests
        let message = try ServiceMessage.open(
            response: bytes, .acquireLicense, trust: trust, kind: .licenseSigner,
            requiresSignature: options.requiresSignature, now: now)
        let encoded = message.child("Licenses")?.children.filter { $0.localName == "License" } ?? []
        guard encoded.count <= Self.maximumLicenseCount else {
            throw .malformedResponse("\(encoded.count) licenses; \(Self.maximumLicenseCount) are read")
        }
        for element in encoded {
            guard let bytes = SOAP.bytes("License", in: element) else {
                throw .malformedResponse("a license not in Base64")
            }
            answer.licenses.append(try PlayReadyLicense(reading: bytes, keyring: keyring))
        }
        if options.requiresNonce { try checkNonce(of: message, answer) }
        answer.customData = message.child("CustomData")?.text
        if let acknowledgement = message.child("Acknowledgement") {
            answer.transactionID = SOAP.bytes("TransactionID", in: acknowledgement)
        }
        for list in message.child("RevInfo")?.children ?? [] where list.localName == "Revocation" {
            guard let id = SOAP.bytes("ListID", in: list).flatMap({ GUID(guidOrder: $0) }),
                let data = SOAP.bytes("ListData", in: list)
            else { throw .malformedResponse("a revocation list that cannot be read") }
            answer.revocationListData[id] = data
        }
        return answer
    }

    private func checkNonce(of message: XMLElement, _ answer: Answer) throws(PlayReadyError) {
        for license in answer.licenses where license.terms.cannotPersist {
            guard license.xmr.rightsID.uuidOrderBytes == nonce else {
                throw .wrongNonce("the license for KID \(license.keyID) was made for another request")
            }
        }
        let answered = message.child("LicenseNonce").flatMap { SOAP.bytes("LicenseNonce", in: $0) }
        // Where nothing may be stored, the licenses carry the nonce, and the answer need not.
        guard answered == nonce || answered == nil && !answer.licenses.isEmpty && !answer.isPersistent else {
            throw .wrongNonce("ask again")
        }
    }
}

extension PlayReadyExchange.Answer: Redacted {
    /// How many licenses there are, never keys or custom data.
    public var description: String { "\(licenses.count) licenses" }
    /// The licenses, which hide their keys themselves.
    public var shown: KeyValuePairs<String, Any> { ["licenses": licenses] }
}
