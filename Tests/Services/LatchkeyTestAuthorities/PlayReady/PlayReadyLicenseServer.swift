// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyManifests
public import LatchkeyProtection

/// The service's side of a PlayReady-style exchange: challenge and policy in, answer out.
///
/// For tests and demonstrations, with a test authority. Pure: it keeps nothing between requests. Thread-safe.
public struct PlayReadyLicenseServer: Sendable {
    /// The body of an answer and what is known of it.
    public struct Answer: Sendable {
        /// The SOAP envelope, in UTF-8.
        public var body: [UInt8]
        /// A fault goes out with the HTTP status 500.
        public var fault: PlayReadyFault?
        /// Those that licenses were made for.
        public var keyIDs: [KeyID] = []
        /// What the client put into the challenge for the service, as text.
        public var customData: String?

        /// The HTTP status that goes with it: 500 for a fault, as SOAP 1.1 wants it.
        public var status: Int { fault == nil ? 200 : 500 }

        init(body: [UInt8]) { self.body = body }

        /// Another letter in a value that no reader looks at.
        mutating func changeResponseID() {
            guard let place = body.firstRange(of: "<ResponseID>".utf8)?.upperBound, place < body.count else { return }
            body[place] = body[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
        }

        /// The body is the SOAP fault, to be sent with status 500.
        public init(fault: PlayReadyFault) {
            body = fault.serialized
            self.fault = fault
        }
    }

    let authority: PlayReadyTestAuthority
    let random: RandomSource

    /// A service whose certificates are those of `authority`. Keys and nonces come from `random`.
    public init(authority: PlayReadyTestAuthority, random: RandomSource = .system) {
        self.authority = authority
        self.random = random
    }

    /// Answers a challenge. `now` is in seconds since 1970; `key` gives the content key for a KID that the policy brings
    /// no key for; `domains` has the members of domains.
    public func respond(
        to challenge: [UInt8], policy: PlayReadyServerPolicy = .init(), now: UInt32,
        domains: PlayReadyDomainController? = nil, key: (KeyID) -> ContentKey?
    ) -> Answer {
        do throws(PlayReadyFault) {
            let request = try open(challenge, .acquireLicense, now)
            if let fault = policy.fault { throw fault }
            if let skew = policy.maximumClockSkew, let time = request.clientTime, time.distance(from: now) > skew {
                throw PlayReadyFault(code: PlayReadyFault.serviceSpecific, text: "the client's clock is wrong")
            }
            guard let element = request.element.descendant("ContentHeader", "WRMHEADER"),
                let header = try? WRMHeader(element: element)
            else { throw PlayReadyFault(code: PlayReadyFault.invalidMessage, text: "no header that can be read") }
            return try internally {
                var answer = try licenses(for: header, request, policy, now, domains, key)
                answer.customData = request.text("CustomData")
                return answer
            }
        } catch {
            return Answer(fault: error)
        }
    }

    /// Answers an acknowledgement. `isKnown` says whether a transaction id was given out, and forgets it.
    public func acknowledge(_ request: [UInt8], now: UInt32, isKnown: ([UInt8]) -> Bool) -> Answer {
        do throws(PlayReadyFault) {
            let request = try open(request, .acknowledgeLicense, now)
            guard let id = request.element.child("TransactionID").flatMap({ SOAP.bytes("TransactionID", in: $0) }),
                isKnown(id)
            else { throw PlayReadyFault(code: PlayReadyFault.unknownTransactionID) }
            return try internally {
                Answer(
                    body: try authority.signer(.licenseSigner).ownResponse(
                        .acknowledgeLicense, nonce: request.nonce, fields: "")
                )
            }
        } catch {
            return Answer(fault: error)
        }
    }

    /// Answers a question for the time with `now`.
    public func time(_ request: [UInt8], now: UInt32) -> Answer {
        do throws(PlayReadyFault) {
            let request = try open(request, .getTime, now)
            return try internally {
                Answer(
                    body: try authority.signer(.timeServer).ownResponse(
                        .getTime, nonce: request.nonce, fields: SOAP.element("Time", String(now))))
            }
        } catch {
            return Answer(fault: error)
        }
    }

    private func open(
        _ bytes: [UInt8], _ operation: PlayReadyOperation, _ now: UInt32
    ) throws(PlayReadyFault) -> ServiceRequest {
        guard let key = try? authority.key(.server) else { throw PlayReadyFault(code: PlayReadyFault.internalError) }
        return try ServiceRequest(
            bytes, operation, serverKey: key, trust: CertificateTrust(rootKey: authority.rootKey), now: now)
    }
}

extension PlayReadyLicenseServer {
    private func licenses(
        for header: WRMHeader, _ request: ServiceRequest, _ policy: PlayReadyServerPolicy, _ now: UInt32,
        _ domains: PlayReadyDomainController?, _ key: (KeyID) -> ContentKey?
    ) throws -> Answer {
        var request = request
        if policy.defect == .nonce { request.nonce = try random.bytes(16) }
        var licenses: [[UInt8]] = []
        var keyIDs: [KeyID] = []
        var isPersistent = !header.details.isLicenseRequested
        for grant in header.details.isLicenseRequested ? policy.grants : [] {
            for keyID in grant.keyID.map({ [$0] }) ?? header.keys.map(\.keyID) {
                guard let content = grant.key ?? key(keyID) else {
                    throw PlayReadyFault(code: PlayReadyFault.serviceSpecific, text: "no key for KID \(keyID)")
                }
                let algorithm = header.keys.first { $0.keyID == keyID }?.algorithm
                let type = grant.keyType ?? (algorithm == .aesCBC ? .aesCBC : .aesCTR)
                guard type != .aesCBC || request.features.contains("AESCBC") else {
                    throw PlayReadyFault(code: PlayReadyFault.invalidMessage, text: "the client cannot do AES-CBC")
                }
                let issue = PlayReadyLicenseIssue(keyID: keyID, key: content, type: type, terms: grant.terms)
                var bytes = try license(issue, grant, request, now, domains).bytes
                // Its end is the code over the rest.
                if policy.defect == .license, let last = bytes.indices.last { bytes[last] ^= 1 }
                licenses.append(bytes)
                keyIDs.append(keyID)
                if !grant.terms.cannotPersist { isPersistent = true }
            }
        }
        let encoded = licenses.map { SOAP.element("License", SOAP.base64($0)) }.joined()
        var content = SOAP.element("Version", "1") + SOAP.element("Licenses", content: encoded)
        content += try revocation(policy, request)
        if let id = policy.transactionID {
            let id = SOAP.element("TransactionID", SOAP.base64(id))
            content += SOAP.element("Acknowledgement", content: id)
        }
        if let data = policy.customData { content += SOAP.element("CustomData", data) }
        if isPersistent { content += SOAP.element("LicenseNonce", SOAP.base64(request.nonce)) }
        content += SOAP.element("ResponseID", SOAP.base64(try random.bytes(16)))
        let signer =
            switch policy.defect {
            case .signer: try authority.signer(.domainController)
            case .root: try PlayReadyTestAuthority.generate(random: random).signer(.licenseSigner)
            default: try authority.signer(.licenseSigner)
            }
        var answer = Answer(
            body: try signer.response(
                .acquireLicense, namespace: SOAP.protocols, content: content))
        if policy.defect == .signature { answer.changeResponseID() }
        answer.keyIDs = keyIDs
        return answer
    }

    /// The element with the policy's revocation list; nothing for a client that has it.
    private func revocation(_ policy: PlayReadyServerPolicy, _ request: ServiceRequest) throws -> String {
        guard let version = policy.revocationListVersion else { return "" }
        let list = try authority.revocationList(version: version, revoking: policy.revoked)
        let known = request.element.child("RevocationLists")?.children.first { element in
            SOAP.bytes("ListID", in: element) == list.id.guidOrderBytes
        }
        guard known?.child("Version").flatMap({ UInt32($0.text) }).map({ $0 < version }) ?? true else { return "" }
        let id = SOAP.element("ListID", SOAP.base64(list.id.guidOrderBytes))
        let data = SOAP.element("ListData", SOAP.base64(list.bytes))
        return SOAP.element("RevInfo", content: SOAP.element("Revocation", content: id + data))
    }

    private func license(
        _ issue: PlayReadyLicenseIssue, _ grant: PlayReadyServerPolicy.Grant, _ request: ServiceRequest, _ now: UInt32,
        _ domains: PlayReadyDomainController?
    ) throws -> XMRLicense {
        var issue = issue
        issue.terms.issueDate = now
        if let lifetime = grant.lifetime {
            let (end, isTooLate) = now.addingReportingOverflow(lifetime)
            issue.terms.end = isTooLate ? .max : end
        }
        var receiver = request.chain.leaf.key(for: .encryptKey) ?? []
        if let account = grant.domain {
            guard let domains else { throw PlayReadyFault(code: PlayReadyFault.unknownAccountID) }
            let binding = try domains.binding(accountID: account, device: request.chain.leaf.basic.keyDigest)
            issue.terms.domain = .init(accountID: account, revision: binding.revision)
            receiver = binding.publicKey
        }
        let rightsID =
            if let fixed = grant.rightsID { fixed.uuidOrderBytes } else {
                grant.terms.cannotPersist ? request.nonce : try random.bytes(16)
            }
        return try issue.license(rightsID: rightsID, receiver: receiver, random: random)
    }
}

/// Gives faults on, and makes an internal error of everything else.
func internally<Value>(_ body: () throws -> Value) throws(PlayReadyFault) -> Value {
    do {
        return try body()
    } catch let fault as PlayReadyFault {
        throw fault
    } catch {
        throw PlayReadyFault(code: PlayReadyFault.internalError)
    }
}

extension UInt32 {
    fileprivate func distance(from other: UInt32) -> UInt32 { Swift.max(self, other) - Swift.min(self, other) }
}

/// A license to be made: a key and its terms.
struct PlayReadyLicenseIssue {
    var keyID: KeyID
    var key: ContentKey
    var type: XMRTerms.KeyType
    var terms: XMRTerms

    /// Wraps integrity key and content key for `receiver` (P-256, x and y) and signs with the integrity key.
    func license(rightsID: [UInt8], receiver: [UInt8], random: RandomSource) throws -> XMRLicense {
        guard let rightsID = GUID(uuidOrder: rightsID) else { throw CryptoError(reason: 0) }
        let (integrity, point) = try pointOfKeys(random)
        var terms = terms
        terms.boundKey = receiver
        terms.key = .init(keyID: keyID, type: type, data: try P256.encrypt(point, for: receiver, random: random))
        return try XMRLicense.make(rightsID: rightsID, objects: terms.objects) { try AES.cmac(key: integrity, $0) }
    }

    /// A point whose x coordinate is an integrity key and the content key. Every other draw is the x of a point.
    private func pointOfKeys(_ random: RandomSource) throws(CryptoError) -> (ContentKey, P256.Point) {
        for _ in 0..<256 {
            var integrity = try random.bytes(16)
            var x = integrity + key.withBytes { Array($0) }
            defer {
                wipe(&integrity)
                wipe(&x)
            }
            if let point = try P256.Point(x: x), let key = ContentKey(integrity) { return (key, point) }
        }
        throw CryptoError(reason: 0)
    }
}

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
            Self.publicKey(in: bytes) == key, message.isSigned(by: key)
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

    /// P-256, x and y, of the signer that the message names; nil if it names none.
    private static func publicKey(in document: [UInt8]) -> [UInt8]? {
        (try? XMLElement.bytes(ofElement: "PublicKey", in: document))
            .flatMap { try? XMLElement(reading: $0, limits: .exchange) }
            .flatMap { SOAP.bytes("PublicKey", in: $0) }
    }

    func text(_ name: String) -> String? { element.child(name)?.text }

    var clientTime: UInt32? { text("ClientTime").flatMap { UInt32($0) } }

    func guid(_ name: String) -> GUID? {
        element.child(name).flatMap { SOAP.bytes(name, in: $0) }.flatMap { GUID(guidOrder: $0) }
    }
}
