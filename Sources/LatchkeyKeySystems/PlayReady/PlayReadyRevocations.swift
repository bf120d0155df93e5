// SPDX-License-Identifier: MPL-2.0

public import LatchkeyContainers
public import LatchkeyManifests

/// The revocation lists that a device has, each checked: one for each id, the newest.
///
/// A value; thread-safe.
public struct PlayReadyRevocations: Hashable, Sendable {
    /// The list of PlayReady's public documentation whose version licenses may ask for (RevInfo2).
    public static let revocationInformationID = GUID("52D1FF11-D388-4EDD-82B7-68EA4C20A16C")

    private var byID: [GUID: RevocationList] = [:]
    private let rootKey: [UInt8]

    init(rootKey: [UInt8]) { self.rootKey = rootKey }

    /// In the order of their ids.
    public var lists: [RevocationList] { byID.values.sorted { $0.id.description < $1.id.description } }

    /// What a challenge says of them.
    var information: [PlayReadyExchange.RevocationList] { lists.map { .init(id: $0.id, version: $0.version) } }

    /// Digests of the keys of all that is revoked.
    var keyDigests: Set<[UInt8]> { byID.values.reduce(into: []) { $0.formUnion($1.keyDigests) } }

    /// The version of the revocation information; nil where there is no such list.
    public var informationVersion: UInt32? { Self.revocationInformationID.flatMap { byID[$0]?.version } }

    /// Takes a list in the place of an older one. False where it is not newer than the one that is there.
    ///
    /// Throws `malformedResponse` where it cannot be read, `untrustedCertificate`, `certificateRevoked` and
    /// `invalidSignature` where the signer is not one of revocation lists under the provisioned root.
    @discardableResult
    public mutating func take(_ bytes: [UInt8]) throws(PlayReadyError) -> Bool {
        let list: RevocationList
        do throws(FormatError) {
            list = try RevocationList(reading: bytes)
        } catch {
            throw .malformedResponse("the revocation list: \(error)")
        }
        try CertificateTrust(rootKey: rootKey, revoked: keyDigests).check(list.chain)
        let leaf = list.chain.leaf
        guard leaf.basic.kind == BCert.Kind.revocationListSigner.rawValue, let key = leaf.key(for: .signRevocationList)
        else { throw .untrustedCertificate("the signer of \(list) may not sign it") }
        guard P256.verify(list.signature, of: Array(list.signedBytes), by: key) else {
            throw .invalidSignature("that of \(list)")
        }
        guard byID[list.id].map({ $0.version < list.version }) ?? true else { return false }
        byID[list.id] = list
        return true
    }
}

extension PlayReadyProvisioning {
    /// The same with newer revocation lists. Those that cannot be used are left out.
    public func adding(_ lists: [RevocationList]) -> PlayReadyProvisioning {
        var provisioning = self
        for list in lists { _ = try? provisioning.revocations.take(list.bytes) }
        return provisioning
    }

    /// Whom services have to go back to.
    var trust: CertificateTrust { CertificateTrust(rootKey: rootKey, revoked: revocations.keyDigests) }

    /// Whom the time service has to go back to.
    var timeTrust: CertificateTrust {
        CertificateTrust(rootKey: timeKey ?? rootKey, revoked: revocations.keyDigests)
    }
}

extension PlayReadyExchange {
    /// The revocation lists of an answer that are newer than those of the challenge. They have signatures of their own,
    /// so the answer's does not matter. Lists that cannot be used are left out; `log` gets an error for each.
    public func revocationLists(
        in response: [UInt8], log: (PlayReadyError) -> Void = { _ in }
    ) -> [LatchkeyKeySystems.RevocationList] {
        let (revocations, newer) = revocations(after: response, log: log)
        return revocations.lists.filter { newer.contains($0.id) }
    }

    /// All lists that count after this answer, and which of them came with it.
    func revocations(
        after response: [UInt8], log: (PlayReadyError) -> Void = { _ in }
    ) -> (PlayReadyRevocations, newer: Set<GUID>) {
        var (revocations, newer) = (revocations, [] as Set<GUID>)
        guard response.firstRange(of: "Revocation".utf8) != nil, response.count <= XMLLimits.exchange.size,
            let message = try? XMLElement(reading: response, limits: .exchange)
        else { return (revocations, newer) }
        for element in message.first("RevInfo")?.children.prefix(Self.maximumRevocationLists) ?? [] {
            guard let bytes = SOAP.bytes("ListData", in: element) else { continue }
            do throws(PlayReadyError) {
                if try revocations.take(bytes), let id = (try? LatchkeyKeySystems.RevocationList(reading: bytes))?.id {
                    newer.insert(id)
                }
            } catch {
                log(error)
            }
        }
        return (revocations, newer)
    }

    private static let maximumRevocationLists = 16
}
