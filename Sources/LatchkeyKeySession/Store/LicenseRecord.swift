// SPDX-License-Identifier: MPL-2.0

public import LatchkeyKeySystems
public import LatchkeyProtection

/// What the licence store keeps: some bytes, and what they are looked up by.
///
/// On disk, the whole record is sealed. Kind, key system, KIDs, content id and dates stand beside it in clear, for
/// queries; they are compared with the sealed ones whenever a record is read.
public struct LicenseRecord: Hashable, Sendable {
    /// What the payload is. The raw value stands in the database and does not change.
    public enum Kind: UInt8, Sendable, CaseIterable {
        /// A licence, as the licence service sent it.
        case license = 1
        /// Membership in a domain: its certificate and keys.
        case domain = 2
        /// A FairPlay-style persistable key.
        case persistableKey = 3
        /// When a licence was first used for playing. It outlives the licence.
        case firstPlay = 4
        /// A report of a session that has expired, to be sent to its service.
        case expiredSessionReport = 5
        /// The state of the trusted clock.
        case clock = 6
        /// A device that was made locally: its certificate and keys.
        case device = 7
        /// A service still has to hear that its licences arrived.
        case acknowledgement = 8
        /// Certificates that are not to be trusted any more, as a service sent them.
        case revocationList = 9
    }

    /// Names the record in the store. A new record of the same kind and id takes its place.
    public var id: RecordID
    /// What the payload is.
    public var kind: Kind
    /// The system that the payload belongs to; nil for none.
    public var keySystem: KeySystem?
    /// Each once. At most `maximumKeyIDs`.
    public var keyIDs: [KeyID]
    /// What the application or the key system calls the content; at most `maximumContentIDSize` bytes, may be empty.
    public var contentID: [UInt8]
    /// No use before; nil for none.
    public var begins: UnixTime?
    /// No use after; nil for none.
    public var ends: UnixTime?
    /// May be deleted after; nil for never.
    public var removal: UnixTime?
    /// At most `maximumPayloadSize` bytes.
    public var payload: [UInt8]

    /// The most KIDs of a record.
    public static let maximumKeyIDs = 1024
    /// The largest `contentID`, in bytes.
    public static let maximumContentIDSize = 4096
    /// The largest payload, in bytes.
    public static let maximumPayloadSize = 4 << 20

    /// Sizes are checked where the record is stored.
    public init(
        id: RecordID = .random(), kind: Kind, keySystem: KeySystem? = nil, keyIDs: [KeyID] = [],
        contentID: [UInt8] = [], begins: UnixTime? = nil, ends: UnixTime? = nil, removal: UnixTime? = nil,
        payload: [UInt8]
    ) {
        self.id = id
        self.kind = kind
        self.keySystem = keySystem
        self.keyIDs = keyIDs
        self.contentID = contentID
        self.begins = begins
        self.ends = ends
        self.removal = removal
        self.payload = payload
    }
}

extension LicenseRecord: CustomStringConvertible, CustomReflectable {
    /// Without the payload: it may hold keys.
    public var description: String {
        "\(kind) \(id) (\(payload.count) bytes; KIDs: \(keyIDs.map(\.description).joined(separator: ", ")))"
    }

    /// Empty: the payload may hold keys.
    public var customMirror: Mirror { Mirror(self, children: []) }
}

extension LicenseRecord {
    /// A record without its payload, for lists.
    public struct Summary: Hashable, Sendable {
        /// That of the record, for reading it whole.
        public let id: RecordID
        /// What the payload is.
        public let kind: Kind
        /// The system that the payload belongs to; nil for none.
        public let keySystem: KeySystem?
        /// Each once, in the order of the record.
        public let keyIDs: [KeyID]
        /// What the content is called; may be empty.
        public let contentID: [UInt8]
        /// No use before; nil for none.
        public let begins: UnixTime?
        /// No use after; nil for none.
        public let ends: UnixTime?
        /// May be deleted after; nil for never.
        public let removal: UnixTime?
    }
}
