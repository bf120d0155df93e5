// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

extension BCert.Basic {
    init(reading body: inout ByteReader) throws(FormatError) {
        id = Array(try body.readBytes(16))
        securityLevel = try body.readUInt32()
        flags = try body.readUInt32()
        kind = try body.readUInt32()
        keyDigest = Array(try body.readBytes(32))
        expiry = try body.readUInt32()
        clientID = Array(try body.readBytes(16))
    }

    /// The object of this information: 88 bytes with its header.
    public var object: BCertObject {
        var body = id + bigEndian(securityLevel)
        body += bigEndian(flags) + bigEndian(kind)
        body += keyDigest + bigEndian(expiry) + clientID
        return BCertObject(.basic, body)
    }
}

extension BCert.Key {
    private static let bits: UInt16 = 512

    init(reading body: inout ByteReader) throws(FormatError) {
        let place = body.place
        let (type, bits) = (try body.readUInt16(), try body.readUInt16())
        guard type == 1, bits == Self.bits else { throw .unsupported("\(place): key of type \(type), \(bits) bits") }
        flags = try body.readUInt32()
        publicKey = Array(try body.readBytes(64))
        usages = []
        for _ in 0..<(try body.readUInt32()) { usages.append(try body.readUInt32()) }
    }

    /// The one object that holds all keys of a certificate.
    public static func object(_ keys: [BCert.Key]) -> BCertObject {
        var body = bigEndian(UInt32(clamping: keys.count))
        for key in keys {
            body += bigEndian(UInt16(1)) + bigEndian(bits)
            body += bigEndian(key.flags) + key.publicKey
            body += bigEndian(UInt32(clamping: key.usages.count))
            for usage in key.usages { body += bigEndian(usage) }
        }
        return BCertObject(.keys, body)
    }
}

extension BCert.Signature {
    init(reading body: inout ByteReader) throws(FormatError) {
        let place = body.place
        let (type, size) = (try body.readUInt16(), try body.readUInt16())
        guard type == 1, size == 64 else { throw .unsupported("\(place): signature of type \(type), \(size) bytes") }
        value = Array(try body.readBytes(64))
        let bits = try body.readUInt32()
        guard bits == 512 else { throw .unsupported("\(place): issuer key of \(bits) bits") }
        issuerKey = Array(try body.readBytes(64))
        guard body.isAtEnd else { throw .malformed("\(body.place): bytes behind the signature") }
    }

    var object: BCertObject {
        var body = bigEndian(UInt16(1)) + bigEndian(UInt16(64))
        body += value + bigEndian(UInt32(512)) + issuerKey
        return BCertObject(.signature, body)
    }
}

extension BCert {
    /// What a device says of the licences that it can take: three sizes.
    public static func deviceObject(
        maximumLicenseSize: UInt32 = 10240, maximumHeaderSize: UInt32 = 15360, maximumChainDepth: UInt32 = 2
    ) -> BCertObject {
        BCertObject(
            .device, bigEndian(maximumLicenseSize) + bigEndian(maximumHeaderSize) + bigEndian(maximumChainDepth))
    }

    /// What a device can do, as a count of 32 bits and 32 bits for each feature.
    public static func featuresObject(_ features: [Feature]) -> BCertObject {
        BCertObject(
            .features, bigEndian(UInt32(clamping: features.count)) + features.flatMap { bigEndian($0.rawValue) })
    }

    /// Who made the thing: three texts in UTF-8.
    public static func manufacturerObject(name: String, model: String, number: String) -> BCertObject {
        let texts = [name, model, number].flatMap { text in
            let bytes = Array(text.utf8)
            let padding = [UInt8](repeating: 0, count: (4 - bytes.count % 4) % 4)
            return bigEndian(UInt32(clamping: bytes.count)) + bytes + padding
        }
        return BCertObject(.manufacturer, bigEndian(UInt32(0)) + texts)
    }

    /// Which domain a domain certificate stands for.
    public struct Domain: Hashable, Sendable {
        /// The DS_ID of the domain service, as headers name it.
        public var serviceID: GUID
        /// Whose domain it is: the id that licences are bound to.
        public var accountID: GUID
        /// Counts up with each new key of the domain.
        public var revision: UInt32
        /// Of the domain service, in UTF-8; zeros at its end are dropped.
        public var url: String

        /// Takes the values as they are.
        public init(serviceID: GUID, accountID: GUID, revision: UInt32, url: String) {
            self.serviceID = serviceID
            self.accountID = accountID
            self.revision = revision
            self.url = url
        }

        /// Both ids in GUID order, then revision, length of the URL and the URL, padded with zeros to four bytes.
        public var object: BCertObject {
            let text = Array(url.utf8)
            let padding = [UInt8](repeating: 0, count: (4 - text.count % 4) % 4)
            var body = serviceID.guidOrderBytes + accountID.guidOrderBytes
            body += bigEndian(revision) + bigEndian(UInt32(clamping: text.count))
            return BCertObject(.domain, body + text + padding)
        }
    }

    /// What the certificate of a domain says of it. Nil for another certificate. Throws `truncated` where the object
    /// ends early.
    public func domain() throws(FormatError) -> Domain? {
        guard let object = objects.first(where: { $0.tag == .domain }) else { return nil }
        var body = ByteReader(object.body, structure: "domain of a certificate")
        var domain = Domain(
            serviceID: try body.readGUID(), accountID: try body.readGUID(), revision: try body.readUInt32(), url: "")
        let text = try body.readBytes(try body.readUInt32())
        domain.url = String(decoding: text.prefix { $0 != 0 }, as: UTF8.self)
        return domain
    }
}
