// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import LatchkeyContainers
import LatchkeyProtection

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
