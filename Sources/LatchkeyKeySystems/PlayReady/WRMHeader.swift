// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import LatchkeyContainers
import LatchkeyManifests
public import LatchkeyProtection

/// A PlayReady header: what content says of its keys and of where licenses are to be had.
///
/// The format is Microsoft's "PlayReady Header Specification", sections 3 and 4
/// (<https://learn.microsoft.com/playready/specifications/playready-header-specification>). Immutable; thread-safe.
public struct WRMHeader: Hashable, Sendable {
    /// The XML namespace of all versions.
    public static let namespace = "http://schemas.microsoft.com/DRM/2007/03/PlayReadyHeader"

    /// The `version` attribute of WRMHEADER. Later versions have the larger raw value as text, too.
    public enum Version: String, Sendable, CaseIterable, Comparable {
        /// One key, in PROTECTINFO/ALGID and DATA/KID.
        case v4_0 = "4.0.0.0"
        /// One key at most, in PROTECTINFO/KID. May come without keys, for content that names them in its segments.
        case v4_1 = "4.1.0.0"
        /// Any number of keys, in PROTECTINFO/KIDS.
        case v4_2 = "4.2.0.0"
        /// Adds AESCBC and LICENSEREQUESTED.
        case v4_3 = "4.3.0.0"

        /// By age: `v4_0` comes first.
        public static func < (left: Version, right: Version) -> Bool { left.rawValue < right.rawValue }
    }

    /// ALGID: what the content is encrypted with.
    public enum Algorithm: String, Sendable {
        /// Counter mode: the schemes cenc and cens.
        case aesCTR = "AESCTR"
        /// Cipher block chaining: cbcs and cbc1. Since 4.3.
        case aesCBC = "AESCBC"
        /// Microsoft's cipher of the days before AES; Latchkey reads the name and decrypts nothing with it.
        case cocktail = "COCKTAIL"
    }

    /// One KID of the header with what belongs to it.
    public struct Key: Hashable, Sendable {
        /// In the byte order of its text form; the header itself has it in GUID order and Base64.
        public var keyID: KeyID
        /// Nil where the header does not say, as 4.3 may.
        public var algorithm: Algorithm?
        /// 8 bytes for AESCTR, 7 for COCKTAIL; empty for none.
        public var checksum: [UInt8]

        /// `checksum` has 8 bytes with AESCTR, 7 with COCKTAIL; lengths are checked where the header is made.
        public init(_ keyID: KeyID, algorithm: Algorithm? = .aesCTR, checksum: [UInt8] = []) {
            self.keyID = keyID
            self.algorithm = algorithm
            self.checksum = checksum
        }
    }

    /// The parts that do not depend on the version.
    public struct Details: Hashable, Sendable {
        /// LA_URL: where to post a challenge.
        public var licenseAcquisitionURL: String?
        /// LUI_URL: a page for people.
        public var licenseUserInterfaceURL: String?
        /// DS_ID: the domain service.
        public var domainServiceID: GUID?
        /// CUSTOMATTRIBUTES with all that it holds.
        public var customAttributes: XMLElement?
        /// DECRYPTORSETUP is ONDEMAND: keys change while the content plays, and the segments name them. Since 4.1.
        public var isOnDemand: Bool
        /// LICENSEREQUESTED: whether a challenge with this header asks for a license at all. Since 4.3.
        public var isLicenseRequested: Bool

        /// The defaults are what a header means that leaves the element out.
        public init(
            licenseAcquisitionURL: String? = nil, licenseUserInterfaceURL: String? = nil,
            domainServiceID: GUID? = nil, customAttributes: XMLElement? = nil, isOnDemand: Bool = false,
            isLicenseRequested: Bool = true
        ) {
            self.licenseAcquisitionURL = licenseAcquisitionURL
            self.licenseUserInterfaceURL = licenseUserInterfaceURL
            self.domainServiceID = domainServiceID
            self.customAttributes = customAttributes
            self.isOnDemand = isOnDemand
            self.isLicenseRequested = isLicenseRequested
        }
    }

    /// The version that a client of 4.3 takes the header for.
    public let version: Version
    /// In the order of the header. None where the segments name the keys.
    public let keys: [Key]
    /// Without what only `text` keeps: elements that are not known.
    public let details: Details
    /// The element as canonical XML: what a challenge carries. For a header that was read, all of it, known or not.
    public let text: String

    /// Makes a header. Throws `malformed` where the version does not allow it: no key or more than one in 4.0, more than
    /// one in 4.1, a cipher or a detail that the version does not know, a checksum for AESCBC or of another length,
    /// different ciphers.
    public init(version: Version, keys: [Key], details: Details = Details()) throws(FormatError) {
        self.version = version
        self.keys = keys
        self.details = details
        text = try Self.write(version: version, keys: keys, details: details).canonicalText
    }

    init(version: Version, keys: [Key], details: Details, text: String) {
        self.version = version
        self.keys = keys
        self.details = details
        self.text = text
    }

    /// `text` in UTF-16, little-endian, as a PlayReady object holds it.
    public var utf16Bytes: [UInt8] { UTF16Text.encode(text) }
}

extension WRMHeader {
    /// Reads the bytes of a header record: UTF-16 or UTF-8, with or without byte order mark and XML declaration.
    ///
    /// Lenient as far as the meaning is not in doubt: elements in any order, ones that are not known, white space round
    /// values, KIDs at the place of another version. Throws `unsupported` for a version above 4.3 and for a document
    /// type, `malformed` for another element and for values that cannot be read, and the errors of
    /// `XMLElement.init(reading:limits:)`.
    public init(reading bytes: some Collection<UInt8>) throws(FormatError) {
        // Zeros behind the text are padding that some packagers leave.
        let padding = bytes.reversed().prefix { $0 == 0 }.count
        var kept = Array(bytes.dropLast(padding))
        if kept.count % 2 == 1, kept.starts(with: [0xFF, 0xFE]) || kept.dropFirst().first == 0 { kept.append(0) }
        try self.init(element: try XMLElement(reading: kept, limits: .header))
    }

    /// Reads a WRMHEADER element that is part of another document. Throws `unsupported` and `malformed` as
    /// `init(reading:)` does.
    public init(element: XMLElement) throws(FormatError) {
        guard element.localName == "WRMHEADER" else { throw .malformed("WRMHEADER: another element") }
        version = try Self.version(element[attribute: "version"] ?? "")
        guard let data = element.child("DATA") else { throw .malformed("WRMHEADER: no DATA") }
        keys = try Self.keys(in: data)
        details = try Self.details(in: data)
        var element = element
        // Where the namespace came from a parent, the text would lose it.
        if !element.declarations.contains(where: { $0.prefix == element.prefix }) {
            element.declarations.append(.init(prefix: element.prefix, uri: element.namespace))
        }
        text = element.canonicalText
    }

    /// The version that a client of 4.3 takes `text` for: it may skip what it does not know of an older header, and has
    /// to refuse a newer one.
    private static func version(_ text: String) throws(FormatError) -> Version {
        if let version = Version(rawValue: text) { return version }
        let parts = text.split(separator: ".", omittingEmptySubsequences: false).map { UInt16($0) }
        guard parts.count == 4, let major = parts[0], let minor = parts[1], !parts.contains(nil) else {
            throw .malformed("WRMHEADER: no version")
        }
        guard major == 4, minor <= 3 else { throw .unsupported("WRMHEADER \(major).\(minor)") }
        return Version.allCases[Int(minor)]
    }

    private static func keys(in data: XMLElement) throws(FormatError) -> [Key] {
        let protection = data.child("PROTECTINFO")
        var keys: [Key] = []
        let lists = [protection].compactMap(\.self) + (protection?.children.filter { $0.localName == "KIDS" } ?? [])
        for element in lists.flatMap(\.children) where element.localName == "KID" {
            keys.append(
                Key(
                    try keyID(element[attribute: "VALUE"] ?? element.trimmedText),
                    algorithm: try algorithm(element[attribute: "ALGID"]),
                    checksum: try bytes(element[attribute: "CHECKSUM"], "CHECKSUM") ?? []))
        }
        if let element = data.child("KID") {
            let keyID = try keyID(element.trimmedText)
            if !keys.contains(where: { $0.keyID == keyID }) {
                keys.insert(
                    Key(
                        keyID, algorithm: try algorithm(protection?.child("ALGID")?.trimmedText),
                        checksum: try bytes(data.child("CHECKSUM")?.trimmedText, "CHECKSUM") ?? []), at: 0)
            }
        }
        return keys
    }

    private static func keyID(_ text: String) throws(FormatError) -> KeyID {
        guard let bytes = try bytes(text, "KID"), let keyID = KeyID(guidOrder: bytes) else {
            throw .malformed("WRMHEADER: a KID of another size than 16 bytes")
        }
        return keyID
    }

    private static func algorithm(_ text: String?) throws(FormatError) -> Algorithm? {
        guard let text, !text.isEmpty else { return nil }
        guard let algorithm = Algorithm(rawValue: text) else { throw .unsupported("WRMHEADER: another cipher") }
        return algorithm
    }

    /// Nil for no text.
    private static func bytes(_ text: String?, _ name: String) throws(FormatError) -> [UInt8]? {
        guard let text, !text.isEmpty else { return nil }
        guard let bytes = Base64.decode(text.filter { !$0.isWhitespace }) else {
            throw .malformed("WRMHEADER: \(name) is not Base64")
        }
        return bytes
    }

    private static func details(in data: XMLElement) throws(FormatError) -> Details {
        func text(_ name: String) -> String? {
            data.child(name).map(\.trimmedText).flatMap { $0.isEmpty ? nil : $0 }
        }
        var details = Details(
            licenseAcquisitionURL: text("LA_URL"), licenseUserInterfaceURL: text("LUI_URL"),
            customAttributes: data.child("CUSTOMATTRIBUTES"), isOnDemand: text("DECRYPTORSETUP") == "ONDEMAND")
        if let id = try bytes(text("DS_ID"), "DS_ID") {
            guard let id = GUID(guidOrder: id) else {
                throw .malformed("WRMHEADER: DS_ID has another size than 16 bytes")
            }
            details.domainServiceID = id
        }
        details.isLicenseRequested =
            data.child("PROTECTINFO")?[attribute: "LICENSEREQUESTED"]?.lowercased() != "false"
        return details
    }
}

extension WRMHeader {
    static func write(version: Version, keys: [Key], details: Details) throws(FormatError) -> XMLElement {
        try check(version: version, keys: keys, details: details)
        func element(_ name: String, _ attributes: [XMLElement.Attribute] = [], _ nodes: [XMLElement.Node])
            -> XMLElement
        {
            XMLElement(name, namespace: namespace, attributes: attributes, nodes: nodes)
        }
        func leaf(_ name: String, _ text: String) -> XMLElement.Node {
            .element(element(name, [], text.isEmpty ? [] : [.text(text)]))
        }
        var data: [XMLElement.Node] = []
        var protection: [XMLElement.Node] = []
        if version == .v4_0, let key = keys.first, let algorithm = key.algorithm {
            protection = [leaf("KEYLEN", algorithm == .cocktail ? "7" : "16"), leaf("ALGID", algorithm.rawValue)]
            data.append(leaf("KID", base64(key.keyID.guidOrderBytes)))
            if !key.checksum.isEmpty { data.append(leaf("CHECKSUM", base64(key.checksum))) }
        } else {
            let list = keys.map { key in
                var attributes: [XMLElement.Attribute] = []
                if let algorithm = key.algorithm { attributes.append(.init("ALGID", algorithm.rawValue)) }
                if !key.checksum.isEmpty { attributes.append(.init("CHECKSUM", base64(key.checksum))) }
                attributes.append(.init("VALUE", base64(key.keyID.guidOrderBytes)))
                return XMLElement.Node.element(element("KID", attributes, []))
            }
            protection = version == .v4_1 || list.isEmpty ? list : [.element(element("KIDS", [], list))]
        }
        let attributes = details.isLicenseRequested ? [] : [XMLElement.Attribute("LICENSEREQUESTED", "false")]
        if !protection.isEmpty || !attributes.isEmpty {
            data.insert(.element(element("PROTECTINFO", attributes, protection)), at: 0)
        }
        if let url = details.licenseAcquisitionURL { data.append(leaf("LA_URL", url)) }
        if let url = details.licenseUserInterfaceURL { data.append(leaf("LUI_URL", url)) }
        if let id = details.domainServiceID { data.append(leaf("DS_ID", base64(id.guidOrderBytes))) }
        if let custom = details.customAttributes { data.append(.element(custom)) }
        if details.isOnDemand { data.append(leaf("DECRYPTORSETUP", "ONDEMAND")) }
        return XMLElement(
            "WRMHEADER", namespace: namespace, declarations: [.init(uri: namespace)],
            attributes: [.init("version", version.rawValue)], nodes: [.element(element("DATA", [], data))])
    }

    private static func check(version: Version, keys: [Key], details: Details) throws(FormatError) {
        func require(_ condition: Bool, _ rule: String) throws(FormatError) {
            guard condition else { throw .malformed("WRMHEADER \(version.rawValue): \(rule)") }
        }
        if version == .v4_0 { try require(keys.count == 1, "exactly one KID") }
        if version == .v4_1 { try require(keys.count <= 1, "one KID at most") }
        try require(Set(keys.map(\.algorithm)).count <= 1, "one cipher for all KIDs")
        for key in keys {
            if version < .v4_3 {
                try require(key.algorithm == .aesCTR || key.algorithm == .cocktail, "AESCTR or COCKTAIL for each KID")
            }
            let size = key.algorithm == .cocktail ? 7 : key.algorithm == .aesCBC ? 0 : 8
            try require(key.checksum.isEmpty || key.checksum.count == size, "a checksum of \(size) bytes")
        }
        try require(version > .v4_0 || !details.isOnDemand, "no DECRYPTORSETUP")
        try require(version == .v4_3 || details.isLicenseRequested, "no LICENSEREQUESTED")
        try require(details.customAttributes.map { $0.localName == "CUSTOMATTRIBUTES" } ?? true, "CUSTOMATTRIBUTES")
    }

    private static func base64(_ bytes: [UInt8]) -> String { Data(bytes).base64EncodedString() }
}
