// SPDX-License-Identifier: MPL-2.0

public import LatchkeyContainers
import LatchkeyProtection

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
        var bytes: [UInt8] = [1]
        bytes += bigEndian(UInt32(clamping: certificates.count)) + certificates
        bytes.append(UInt8(clamping: keys.count))
        for item in keys.prefix(255) {
            do throws(CryptoError) {
                var pem = try item.key.pem()
                defer { wipe(&pem) }
                bytes += bigEndian(item.revision) + bigEndian(UInt16(clamping: pem.count))
                bytes += pem
            } catch {
                throw .internalError("the domain's keys cannot be written: \(error)")
            }
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

extension PlayReadyMembership: CustomStringConvertible, CustomReflectable {
    /// Account and revision, never keys.
    public var description: String { "member of domain \(accountID), revision \(revision)" }
    /// The same two; the private keys do not show in `dump`.
    public var customMirror: Mirror { Mirror(self, children: ["accountID": accountID, "revision": revision]) }
}
