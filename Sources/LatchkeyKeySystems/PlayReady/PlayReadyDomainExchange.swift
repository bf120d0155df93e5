// SPDX-License-Identifier: MPL-2.0

public import LatchkeyContainers
public import LatchkeyManifests
public import LatchkeyProtection

/// Joins a domain, or leaves one.
///
/// The inner messages of PlayReady's domain protocol are not public. These are Latchkey's own, version 1, in the pattern
/// of the license messages; they work with Latchkey's reference server and with no other service.
///
/// ```
/// DomainJoin (xmlns "urn:latchkey:playready:1", Id "SignedData"):
///     Version (1), Nonce (Base64, 16 bytes), ClientTime (seconds since 1970), ServiceId?, AccountId? (Base64, GUID
///     order), FriendlyName?, CustomData?, EncryptedData (as in a license challenge)
/// DomainJoinResponse: Version, Nonce, DomainCertificateChain (Base64), CustomData?, EncryptedData for the device's
///     encryption key: <Keys><Key Revision="1">Base64, 32 bytes, private</Key>…</Keys>, SigningCertificateChain
/// DomainLeave: Version, Nonce, ClientTime, ServiceId?, AccountId, CustomData?, EncryptedData
/// DomainLeaveResponse: Version, Nonce, SigningCertificateChain
/// ```
public struct PlayReadyDomainExchange: Sendable {
    /// What names the domain, and what the service gets.
    public struct Parameters: Sendable {
        /// The service that the domain belongs to.
        public var serviceID: GUID?
        /// The domain's account at that service.
        public var accountID: GUID?
        /// What people call the device; the service may show it.
        public var friendlyName: String?
        /// What the application sends to the service, as text.
        public var customData: String?

        /// A service needs `accountID`, or decides by `customData` what the domain is.
        public init(
            serviceID: GUID? = nil, accountID: GUID? = nil, friendlyName: String? = nil, customData: String? = nil
        ) {
            self.serviceID = serviceID
            self.accountID = accountID
            self.friendlyName = friendlyName
            self.customData = customData
        }

        /// What a fault that asks for a domain says of it. The application's custom data, where there are some, take the
        /// place of the fault's.
        public init(fault: PlayReadyFault, customData: String? = nil) {
            self.init(
                serviceID: fault.serviceID, accountID: fault.accountID, customData: customData ?? fault.customData)
        }
    }

    /// The body of the request: SOAP in UTF-8, to be sent with the `soapAction` of `operation`.
    public let request: [UInt8]
    /// `joinDomain` or `leaveDomain`.
    public let operation: PlayReadyOperation
    private let nonce: [UInt8]
    private let device: PlayReadyDevice
    private let trust: CertificateTrust
    private let accountID: GUID?

    /// Makes the request to join. Throws `internalError` where OpenSSL refuses.
    public static func join(
        _ parameters: Parameters, device: PlayReadyDevice, provisioning: PlayReadyProvisioning, clientTime: UInt32,
        random: RandomSource = .system
    ) throws(PlayReadyError) -> PlayReadyDomainExchange {
        try PlayReadyDomainExchange(.joinDomain, parameters, device, provisioning, clientTime, random)
    }

    /// Makes the request to leave. Throws `internalError` where OpenSSL refuses.
    public static func leave(
        _ membership: PlayReadyMembership, customData: String? = nil, device: PlayReadyDevice,
        provisioning: PlayReadyProvisioning, clientTime: UInt32, random: RandomSource = .system
    ) throws(PlayReadyError) -> PlayReadyDomainExchange {
        let parameters = Parameters(
            serviceID: membership.serviceID, accountID: membership.accountID, customData: customData)
        return try PlayReadyDomainExchange(.leaveDomain, parameters, device, provisioning, clientTime, random)
    }

    private init(
        _ operation: PlayReadyOperation, _ parameters: Parameters, _ device: PlayReadyDevice,
        _ provisioning: PlayReadyProvisioning, _ clientTime: UInt32, _ random: RandomSource
    ) throws(PlayReadyError) {
        var fields = ""
        if let id = parameters.serviceID { fields += SOAP.element("ServiceId", SOAP.base64(id.guidOrderBytes)) }
        if let id = parameters.accountID { fields += SOAP.element("AccountId", SOAP.base64(id.guidOrderBytes)) }
        if let name = parameters.friendlyName { fields += SOAP.element("FriendlyName", name) }
        if let data = parameters.customData { fields += SOAP.element("CustomData", data) }
        (request, nonce) = try OwnMessage.request(
            operation, fields: fields, device: device, provisioning: provisioning, clientTime: clientTime,
            random: random)
        self.operation = operation
        self.device = device
        trust = provisioning.trust
        accountID = parameters.accountID
    }

    /// Checks the answer to a request to join, and gives the membership.
    ///
    /// Throws `fault`, and `invalidDomainResponse` for an answer that is not to be trusted or not to this request.
    public func membership(response bytes: [UInt8], now: UInt32? = nil) throws(PlayReadyError) -> PlayReadyMembership {
        let message = try open(bytes, now)
        guard operation == .joinDomain, let encoded = SOAP.bytes("DomainCertificateChain", in: message),
            let sealed = message.child("EncryptedData"), let chain = try? BCertChain(reading: encoded)
        else { throw .invalidDomainResponse("no certificate and keys") }
        try trust.check(chain, now: now)
        let membership = try PlayReadyMembership(chain: chain, keys: try keys(in: sealed))
        guard accountID == nil || membership.accountID == accountID else {
            throw .invalidDomainResponse("the certificate is that of another domain")
        }
        return membership
    }

    /// Checks the answer to a request to leave. Throws as `membership` does.
    public func confirmLeaving(response bytes: [UInt8], now: UInt32? = nil) throws(PlayReadyError) {
        _ = try open(bytes, now)
    }

    private func open(_ bytes: [UInt8], _ now: UInt32?) throws(PlayReadyError) -> XMLElement {
        do throws(PlayReadyError) {
            return try OwnMessage.open(response: bytes, operation, nonce: nonce, trust: trust, kind: .server, now: now)
        } catch {
            if error.fault != nil { throw error }
            throw .invalidDomainResponse(error.description)
        }
    }

    private func keys(in sealed: XMLElement) throws(PlayReadyError) -> [PlayReadyMembership.RevisionKey] {
        do {
            var clear = try SealedData.open(sealed, with: device.encryptionKey)
            defer { wipe(&clear) }
            let list = try XMLElement(reading: clear, limits: .exchange)
            return try list.children.prefix(255).map { element in
                var bytes = SOAP.bytes("Key", in: element) ?? []
                defer { wipe(&bytes) }
                guard let revision = element[attribute: "Revision"].flatMap({ UInt32($0) }),
                    let scalar = P256.Scalar(bytes)
                else { throw CryptoError(reason: 0) }
                return .init(revision: revision, key: try P256PrivateKey.key(scalar: scalar))
            }
        } catch {
            throw .invalidDomainResponse("the domain's keys cannot be opened")
        }
    }
}

extension PlayReadyDomainExchange: Redacted {
    /// Operation and size of the request, never its content.
    public var description: String { "\(operation.rawValue), request of \(request.count) bytes" }
}

/// A device's membership in a domain: the domain's certificate and one private key for each revision.
///
/// Immutable and thread-safe; prints without keys.
public struct PlayReadyMembership: Sendable {
    struct RevisionKey {
        let revision: UInt32
        let key: P256PrivateKey
    }

    /// The service that the domain belongs to.
    public let serviceID: GUID
    /// The domain's account at that service.
    public let accountID: GUID
    /// Where the domain service is, as the domain's certificate says.
    public let url: String
    /// The newest revision that this device has a key of.
    public let revision: UInt32
    /// That of the newest revision.
    public let chain: BCertChain
    let keys: [RevisionKey]

    /// All revisions that this device has a key of.
    public var revisions: Set<UInt32> { Set(keys.map(\.revision)) }

    /// Throws `invalidDomainResponse` where the newest key is not the certificate's.
    init(chain: BCertChain, keys: [RevisionKey]) throws(PlayReadyError) {
        guard chain.leaf.basic.kind == BCert.Kind.domain.rawValue, let domain = try? chain.leaf.domain() else {
            throw .invalidDomainResponse("the certificate is none of a domain")
        }
        guard let newest = keys.first(where: { $0.revision == domain.revision }),
            chain.leaf.key(for: .encryptKey) == newest.key.publicKey
        else { throw .invalidDomainResponse("no key for revision \(domain.revision)") }
        serviceID = domain.serviceID
        accountID = domain.accountID
        revision = domain.revision
        url = domain.url
        self.chain = chain
        self.keys = keys
    }

    /// What a store keeps of it, readable and secret: the caller seals it and wipes its copy. Version 1 of Latchkey's
    /// own format: UInt8 version, UInt32 chain length, the chain, UInt8 count, then UInt32 revision, UInt16 length and
    /// PEM of each key. Integers are big-endian. Throws `internalError` where OpenSSL refuses.
    public func serialized() throws(PlayReadyError) -> [UInt8] {
        let certificates = chain.serialized
        var pems: [[UInt8]] = []
        defer { for place in pems.indices { wipe(&pems[place]) } }
        do throws(CryptoError) {
            for item in keys.prefix(255) { pems.append(try item.key.pem()) }
        } catch {
            throw .internalError("the domain's keys cannot be written: \(error)")
        }
        var bytes: [UInt8] = []
        // It does not grow: that would leave a copy of the keys behind.
        bytes.reserveCapacity(6 + certificates.count + pems.reduce(0) { $0 + 6 + $1.count })
        bytes.append(1)
        bytes += bigEndian(UInt32(clamping: certificates.count))
        bytes += certificates
        bytes.append(UInt8(clamping: keys.count))
        for place in pems.indices {
            bytes += bigEndian(keys[place].revision) + bigEndian(UInt16(clamping: pems[place].count))
            bytes += pems[place]
        }
        return bytes
    }

    /// Reads what `serialized` wrote. Throws `invalidDomainResponse` where it cannot be read.
    public init(reading bytes: [UInt8]) throws(PlayReadyError) {
        let (chain, keys): (BCertChain, [RevisionKey])
        do {
            var reader = ByteReader(bytes, structure: "domain membership")
            guard try reader.readUInt8() == 1 else { throw FormatError.unsupported(reader.place) }
            chain = try BCertChain(reading: try reader.readBytes(try reader.readUInt32()))
            keys = try (0..<(try reader.readUInt8())).map { _ in
                let revision = try reader.readUInt32()
                var pem = Array(try reader.readBytes(try reader.readUInt16()))
                defer { wipe(&pem) }
                return RevisionKey(revision: revision, key: try P256PrivateKey.key(pem: pem))
            }
        } catch {
            throw .invalidDomainResponse("a kept membership cannot be read: \(error)")
        }
        try self.init(chain: chain, keys: keys)
    }
}

extension PlayReadyMembership: Redacted {
    /// Account and revision, never keys.
    public var description: String { "member of domain \(accountID), revision \(revision)" }
    /// The same two; the private keys do not show in `dump`.
    public var shown: KeyValuePairs<String, Any> { ["accountID": accountID, "revision": revision] }
}
