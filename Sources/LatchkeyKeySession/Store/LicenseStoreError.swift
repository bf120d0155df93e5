// SPDX-License-Identifier: MPL-2.0

/// Why the license store did not do what it was asked for.
///
/// `description` is for people: it names the file and says what to do. `shortDescription` has no values in it and suits
/// metrics. Neither contains a secret or the contents of a record.
public struct LicenseStoreError: Error, Hashable, Sendable {
    private enum Code: String {
        case busy
        case inUse = "in use"
        case corrupted
        case foreign
        case altered
        case rolledBack = "rolled back"
        case missing
        case newerSchema = "newer schema"
        case diskFull = "disk full"
        case inputOutput = "input or output"
        case readOnly = "read only"
        case cannotOpen = "cannot open"
        case recordUnreadable = "record unreadable"
        case recordTooLarge = "record too large"
        case secretMissing = "secret missing"
        case secretUnusable = "secret unusable"
        case secretExposed = "secret exposed"
        case keyringUnavailable = "keyring unavailable"
        case cryptography
        case closed
        case aborted
    }

    private let code: Code
    private let detail: String

    private init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    /// Another process kept the database locked for longer than the store waits. Nothing was changed; try again.
    public static func busy(_ detail: String) -> Self { Self(.busy, detail) }
    /// The files cannot be moved or removed, because another store has them open.
    public static func inUse(_ detail: String) -> Self { Self(.inUse, detail) }
    /// The file is damaged, or no database at all. The text says where it was kept.
    public static func corrupted(_ detail: String) -> Self { Self(.corrupted, detail) }
    /// The file is another program's, or was sealed for another device or with another secret.
    public static func foreign(_ detail: String) -> Self { Self(.foreign, detail) }
    /// Rows were added, changed or taken out by something that is no license store.
    public static func altered(_ detail: String) -> Self { Self(.altered, detail) }
    /// The database is older than one that this device has already seen: a copy was put back.
    public static func rolledBack(_ detail: String) -> Self { Self(.rolledBack, detail) }
    /// One of the store's files is gone while the others are there.
    public static func missing(_ detail: String) -> Self { Self(.missing, detail) }
    /// A later version of this library wrote the database. It was left as it is.
    public static func newerSchema(_ detail: String) -> Self { Self(.newerSchema, detail) }
    /// No room is left. The transaction was undone, unless the text says otherwise.
    public static func diskFull(_ detail: String) -> Self { Self(.diskFull, detail) }
    /// The disk or the file system failed.
    public static func inputOutput(_ detail: String) -> Self { Self(.inputOutput, detail) }
    /// The file or its folder cannot be written.
    public static func readOnly(_ detail: String) -> Self { Self(.readOnly, detail) }
    /// The file cannot be opened or made.
    public static func cannotOpen(_ detail: String) -> Self { Self(.cannotOpen, detail) }
    /// One record cannot be opened or read. Others may be.
    public static func recordUnreadable(_ detail: String) -> Self { Self(.recordUnreadable, detail) }
    /// A record has more bytes or KIDs than the store takes.
    public static func recordTooLarge(_ detail: String) -> Self { Self(.recordTooLarge, detail) }
    /// There is a database, but not the device secret that it is sealed with.
    public static func secretMissing(_ detail: String) -> Self { Self(.secretMissing, detail) }
    /// The device secret cannot be read, made or used.
    public static func secretUnusable(_ detail: String) -> Self { Self(.secretUnusable, detail) }
    /// Others than the owner may read the file with the device secret, so it is no secret.
    public static func secretExposed(_ detail: String) -> Self { Self(.secretExposed, detail) }
    /// The kernel offers no keyring here; keep the device secret in a file.
    public static func keyringUnavailable(_ detail: String) -> Self { Self(.keyringUnavailable, detail) }
    /// OpenSSL refused.
    public static func cryptography(_ detail: String) -> Self { Self(.cryptography, detail) }
    /// The store was closed, or failed before in a way that it does not go on from.
    public static func closed(_ detail: String) -> Self { Self(.closed, detail) }
    /// The body of a transaction gave up. Nothing was changed.
    public static func aborted(_ detail: String) -> Self { Self(.aborted, detail) }

    /// The same failure with more to say about it.
    func adding(_ text: String) -> Self { Self(code, detail.isEmpty ? text : "\(detail); \(text)") }

    /// The kind of failure alone.
    public var shortDescription: String { code.rawValue }

    /// Whether `other` is of the same kind, whatever the details.
    public func isSameKind(as other: Self) -> Bool { code == other.code }
}

extension LicenseStoreError: CustomStringConvertible {
    /// The kind and the details, with the file and what to do.
    public var description: String { detail.isEmpty ? code.rawValue : "\(code.rawValue): \(detail)" }
}
