// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
public import LatchkeyProtection

/// The service's side of domains: who is a member, and the keys of all revisions.
///
/// For tests and demonstrations, with a test authority. A value that lives in memory; each change is `mutating`.
public struct PlayReadyDomainController: Sendable {
    private struct Revision {
        var key: P256PrivateKey
        var chain: BCertChain
    }

    private struct Domain {
        var memberLimit: Int
        var url: String
        /// Revision 1 first.
        var revisions: [Revision] = []
        /// By the digest of the device's signing key; the revision up to which it has keys.
        var members: [[UInt8]: UInt32] = [:]
    }

    /// The service whose domains these are.
    public let serviceID: GUID
    private let authority: PlayReadyTestAuthority
    private let random: RandomSource
    private var domains: [GUID: Domain] = [:]

    /// Without domains. The domains' keys come from `random`, their certificates from `authority`.
    public init(serviceID: GUID, authority: PlayReadyTestAuthority, random: RandomSource = .system) {
        self.serviceID = serviceID
        self.authority = authority
        self.random = random
    }

    /// Adds an empty domain with a first revision. One that is there already is left as it is. Throws `internalError`
    /// where OpenSSL refuses.
    public mutating func add(accountID: GUID, memberLimit: Int, url: String) throws(PlayReadyError) {
        guard domains[accountID] == nil else { return }
        domains[accountID] = Domain(memberLimit: memberLimit, url: url)
        do {
            try renew(accountID: accountID)
        } catch {
            domains[accountID] = nil
            throw error
        }
    }

    /// Makes a new revision: a new key. Members have to join again for licenses of it. Throws `domainRequired` for an
    /// account that was not added, `internalError` where OpenSSL refuses.
    public mutating func renew(accountID: GUID) throws(PlayReadyError) {
        guard var domain = domains[accountID] else { throw .domainRequired("no domain \(accountID)") }
        let number = UInt32(clamping: domain.revisions.count + 1)
        let value = BCert.Domain(serviceID: serviceID, accountID: accountID, revision: number, url: domain.url)
        do {
            let key = try P256PrivateKey.generate(random)
            let issuer = try authority.signer(.domainIssuer)
            let objects = [
                BCert.Basic(
                    id: try random.bytes(16), securityLevel: authority.securityLevel, kind: .domain,
                    keyDigest: try Digest.sha256(key.publicKey)
                ).object,
                value.object, BCert.Key.object([.init(key.publicKey, usages: [.encryptKey])]),
            ]
            let certificate = try BCert.make(objects: objects, issuerKey: issuer.key.publicKey) {
                try issuer.key.sign($0)
            }
            let chain = try BCertChain([certificate] + issuer.chain.certificates)
            domain.revisions.append(Revision(key: key, chain: chain))
        } catch {
            throw .internalError("no revision of the domain can be made")
        }
        domains[accountID] = domain
    }

    /// Takes a device out, from the service's side.
    public mutating func remove(device: PlayReadyDevice, accountID: GUID) {
        domains[accountID]?.members[device.chain.leaf.basic.keyDigest] = nil
    }

    /// How many devices are members of the domain of an account now.
    public func memberCount(accountID: GUID) -> Int { domains[accountID]?.members.count ?? 0 }

    /// Answers a request to join or to leave.
    public mutating func respond(
        to request: [UInt8], _ operation: PlayReadyOperation, now: UInt32
    ) -> PlayReadyLicenseServer.Answer {
        do throws(PlayReadyFault) {
            guard let key = try? authority.key(.server) else {
                throw PlayReadyFault(code: PlayReadyFault.internalError)
            }
            let request = try ServiceRequest(
                request, operation, serverKey: key, trust: CertificateTrust(rootKey: authority.rootKey), now: now)
            let onlyAccount = domains.count == 1 ? domains.keys.first : nil
            guard let account = request.guid("AccountId") ?? onlyAccount, var domain = domains[account],
                request.guid("ServiceId") ?? serviceID == serviceID
            else { throw PlayReadyFault(code: PlayReadyFault.unknownAccountID) }
            let device = request.chain.leaf.basic.keyDigest
            let body: [UInt8]
            if operation == .joinDomain {
                guard domain.members[device] != nil || domain.members.count < domain.memberLimit else {
                    throw PlayReadyFault(code: PlayReadyFault.deviceLimitReached)
                }
                domain.members[device] = UInt32(clamping: domain.revisions.count)
                body = try internally { try join(domain, request) }
            } else {
                guard domain.members.removeValue(forKey: device) != nil else {
                    throw PlayReadyFault(code: PlayReadyFault.notAMember)
                }
                body = try internally {
                    try authority.signer(.domainController).ownResponse(
                        .leaveDomain, nonce: request.nonce, fields: "")
                }
            }
            domains[account] = domain
            return PlayReadyLicenseServer.Answer(body: body)
        } catch {
            return PlayReadyLicenseServer.Answer(fault: error)
        }
    }

    private func join(_ domain: Domain, _ request: ServiceRequest) throws -> [UInt8] {
        guard let newest = domain.revisions.last, let receiver = request.chain.leaf.key(for: .encryptKey) else {
            throw CryptoError(reason: 0)
        }
        var list = ""
        for (index, revision) in domain.revisions.enumerated() {
            var scalar = try revision.key.scalarBytes()
            defer { wipe(&scalar) }
            list += "<Key Revision=\"\(index + 1)\">\(SOAP.base64(scalar))</Key>"
        }
        let sealed = try SealedData.seal(
            Array("<Keys>\(list)</Keys>".utf8), for: receiver, keyName: "Device", random: random)
        var fields = SOAP.element("DomainCertificateChain", SOAP.base64(newest.chain.serialized))
        if let data = request.text("CustomData") { fields += SOAP.element("CustomData", data) }
        return try authority.signer(.domainController).ownResponse(
            .joinDomain, nonce: request.nonce, fields: fields + sealed)
    }

    /// The key to bind a license to, for a member with keys of the newest revision. Throws the fault for others.
    func binding(accountID: GUID, device: [UInt8]) throws(PlayReadyFault) -> (revision: UInt32, publicKey: [UInt8]) {
        guard let domain = domains[accountID], let newest = domain.revisions.last else {
            throw PlayReadyFault(code: PlayReadyFault.unknownAccountID)
        }
        let current = UInt32(clamping: domain.revisions.count)
        var fault = PlayReadyFault(
            code: PlayReadyFault.domainRequired, serviceID: serviceID, accountID: accountID, domainServerURL: domain.url
        )
        guard let revision = domain.members[device] else { throw fault }
        guard revision == current else {
            fault.code = PlayReadyFault.renewDomain
            throw fault
        }
        return (current, newest.key.publicKey)
    }
}

extension PlayReadyDomainController: Redacted {
    /// How many domains there are, never their keys or members.
    public var description: String { "domain controller, \(domains.count) domains" }
}
