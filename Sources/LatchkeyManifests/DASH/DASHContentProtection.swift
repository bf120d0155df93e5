// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// A ContentProtection descriptor of a DASH manifest (ISO/IEC 23009-1, 5.8.4.1), with what the common extensions put
/// into it: `cenc:default_KID` and `cenc:pssh` (ISO/IEC 23001-7, 11), `mspr:pro` (Microsoft) and `dashif:Laurl`
/// (DASH-IF Interoperability Points, content protection). License URLs have had many spellings: `dashif:Laurl`,
/// `clearkey:Laurl` and `ms:laurl` with an attribute are some.
public struct DASHContentProtection: Hashable, Sendable {
    /// What `schemeIdUri` says the descriptor is about.
    public enum Scheme: Hashable, Sendable {
        /// `urn:mpeg:dash:mp4protection:2011`: that the media is encrypted, and with which keys.
        case commonEncryption
        /// `urn:uuid:…`: what one protection system needs.
        case system(ProtectionSystem)
        /// Anything else, a scheme that is missing or no UUID included.
        case other
    }

    /// Read without regard to case.
    public var scheme: Scheme
    /// For `commonEncryption` the four characters of the encryption scheme; else a name or nothing.
    public var value: String?
    /// Those of `default_KID` that are UUIDs.
    public var defaultKeyIDs: [KeyID]
    /// The `pssh` boxes, whole, one behind the other. Boxes that cannot be read are left out.
    public var protectionBoxes: [PSSHBox]
    /// The PlayReady object of `mspr:pro`, as it stands; nil for none, or for no Base64.
    public var playReadyObject: [UInt8]?
    /// License services that the manifest names, as it spells them.
    public var licenseURLs: [String]
    /// What of the descriptor cannot be used, in words for a log, each once. Never quotes it.
    public var flaws: [String]

    init(
        scheme: Scheme, value: String? = nil, defaultKeyIDs: [KeyID] = [], protectionBoxes: [PSSHBox] = [],
        playReadyObject: [UInt8]? = nil, licenseURLs: [String] = [], flaws: [String] = []
    ) {
        self.scheme = scheme
        self.value = value
        self.defaultKeyIDs = defaultKeyIDs
        self.protectionBoxes = protectionBoxes
        self.playReadyObject = playReadyObject
        self.licenseURLs = licenseURLs
        self.flaws = flaws
    }
}

extension DASHContentProtection {
    private static let missingScheme = "a ContentProtection has no schemeIdUri"

    /// The most KIDs and URLs of one descriptor that are taken.
    private static let listLimit = 256

    /// Reads a descriptor as packagers write them: names by their local part, whatever the namespace. What cannot be read
    /// is one of `flaws`.
    public init(_ element: XMLElement) {
        self.init(scheme: .other, value: element.attribute(anyNamespace: "value"))
        let uri = XMLElement.trimmed(element.attribute(anyNamespace: "schemeIdUri") ?? "").lowercased()
        if uri == "urn:mpeg:dash:mp4protection:2011" {
            scheme = .commonEncryption
        } else if uri.hasPrefix("urn:uuid:"), let system = ProtectionSystem(uuid: uri) {
            scheme = .system(system)
        } else if uri.isEmpty {
            note(Self.missingScheme)
        }
        for text in (element.attribute(anyNamespace: "default_KID") ?? "").split(whereSeparator: \.isWhitespace)
            .prefix(Self.listLimit)
        {
            if let keyID = KeyID(uuid: text) {
                defaultKeyIDs.append(keyID)
            } else {
                note("a default_KID is no UUID")
            }
        }
        for child in element.children {
            switch child.localName.lowercased() {
            case "pssh": readBoxes(child.text)
            case "pro": readPlayReadyObject(child.text)
            case "laurl", "la_url":
                let attribute = child.attributes.first { $0.localName.lowercased() == "licenseurl" }
                let text = attribute?.value ?? child.trimmedText
                if !text.isEmpty, licenseURLs.count < Self.listLimit { licenseURLs.append(text) }
            default: break
            }
        }
    }

    /// What a descriptor with a `ref` means that leads to `source`: what it has not itself, it has from there (ISO/IEC
    /// 23009-1, fifth edition, 5.8.4.1.3). Nil where the two are of different schemes.
    func inheriting(from source: DASHContentProtection) -> DASHContentProtection? {
        let hasNoScheme = flaws.contains(Self.missingScheme)
        guard hasNoScheme || scheme == source.scheme else { return nil }
        var result = self
        result.scheme = source.scheme
        result.value = value ?? source.value
        if defaultKeyIDs.isEmpty { result.defaultKeyIDs = source.defaultKeyIDs }
        if protectionBoxes.isEmpty { result.protectionBoxes = source.protectionBoxes }
        result.playReadyObject = playReadyObject ?? source.playReadyObject
        if licenseURLs.isEmpty { result.licenseURLs = source.licenseURLs }
        result.flaws.removeAll { $0 == Self.missingScheme }
        for flaw in source.flaws { result.note(flaw) }
        return result
    }

    mutating func note(_ flaw: String) {
        if !flaws.contains(flaw) { flaws.append(flaw) }
    }

    private mutating func readBoxes(_ text: String) {
        let boxes = Self.bytes(ofBase64: text).map { PSSHBox.readableBoxes(in: $0) } ?? []
        if boxes.isEmpty { note("a cenc:pssh has no box that can be read") }
        protectionBoxes += boxes.prefix(max(0, Self.listLimit - protectionBoxes.count))
    }

    private mutating func readPlayReadyObject(_ text: String) {
        if let bytes = Self.bytes(ofBase64: text), !bytes.isEmpty {
            playReadyObject = playReadyObject ?? bytes
        } else {
            note("a mspr:pro is no Base64")
        }
    }

    private static func bytes(ofBase64 text: String) -> [UInt8]? {
        Base64.decode(String(decoding: text.utf8.filter { $0 != 0x20 && !(0x09...0x0D ~= $0) }, as: UTF8.self))
    }
}

extension DASHContentProtection {
    /// What it holds, in bytes.
    var dataSize: Int {
        let boxes = protectionBoxes.reduce(0) { $0 + $1.data.count + 16 * $1.keyIDs.count }
        return boxes + (playReadyObject?.count ?? 0) + licenseURLs.reduce(0) { $0 + $1.utf8.count }
            + (value?.utf8.count ?? 0) + 16 * defaultKeyIDs.count
    }

    /// What a key request for that system can be made of: the system's own `pssh` boxes, or one around `mspr:pro`.
    public var systemBoxes: [PSSHBox] {
        guard case .system(let system) = scheme else { return [] }
        let own = protectionBoxes.filter { $0.system == system }
        if own.isEmpty, system == .playReady, let playReadyObject {
            return [PSSHBox(system: .playReady, data: playReadyObject)]
        }
        return own.isEmpty ? protectionBoxes : own
    }
}
