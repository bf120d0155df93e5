// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import LatchkeyContainers
public import LatchkeyProtection

/// A PlayReady header: what content says of its keys and of where licences are to be had.
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
        /// LICENSEREQUESTED: whether a challenge with this header asks for a licence at all. Since 4.3.
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
