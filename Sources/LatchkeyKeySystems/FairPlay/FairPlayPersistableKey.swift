// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// A content key that may be kept for later, and until when it may be used.
///
/// Key servers set up to three limits: the rental, after which the key ends whatever happens; the storage duration,
/// within which playback has to begin; and the playback duration, which counts from the first playback and then takes
/// the place of the storage duration (dual expiry). Times are in seconds since 1970-01-01 00:00 UTC, and come from the
/// caller. A value without side effects; prints without the key.
public struct FairPlayPersistableKey: Sendable {
    /// Clocks are corrected now and then: a key may be this many seconds younger than its own record says.
    public static let clockTolerance: UInt64 = 300

    /// What the key was asked for with.
    public let contentIdentifier: [UInt8]
    /// With the IV of the content.
    public let contentKey: ContentKey
    /// What the output needs; nil where the key server said nothing.
    public let outputRequirement: OutputRequirement?
    /// When the key server gave the key.
    public let created: UInt64
    /// When the key ends whatever happens; nil for never.
    public let rentalEnd: UInt64?
    /// Playback has to begin until then; nil for no limit.
    public let storageEnd: UInt64?
    /// In seconds from the first playback on; nil for no limit.
    public let playbackDuration: UInt32?
    /// Nil while it was never played.
    public private(set) var firstPlayback: UInt64?
    /// Grows with each change, from 1 on. Kept elsewhere, it shows that an older record was put back.
    public private(set) var revision: UInt64

    /// Takes the key of a license that allows it.
    ///
    /// Throws `invalidResponse` where the key server does not allow it to be stored, or sent none.
    public init(license: FairPlayLicense, contentIdentifier: [UInt8], now: UInt64) throws(FairPlayError) {
        guard license.persistence != .notAllowed else {
            throw .invalidResponse("the key server does not allow the key to be stored")
        }
        guard let key = license.contentKey else {
            throw .invalidResponse("there is no content key to be stored")
        }
        func end(after seconds: Int64?) -> UInt64? { seconds.map { now.addingClamped(UInt64(clamping: $0)) } }
        let offline = license.offlineKey
        self.init(
            contentIdentifier: contentIdentifier, contentKey: key, outputRequirement: license.outputRequirement,
            created: now,
            rentalEnd: end(after: license.rentalDuration?.components.seconds),
            storageEnd: offline.flatMap { $0.storage == 0 ? nil : end(after: Int64($0.storage)) },
            playbackDuration: offline.flatMap { $0.playback == 0 ? nil : $0.playback }, firstPlayback: nil,
            revision: 1)
    }

    init(
        contentIdentifier: [UInt8], contentKey: ContentKey, outputRequirement: OutputRequirement?, created: UInt64,
        rentalEnd: UInt64?, storageEnd: UInt64?,
        playbackDuration: UInt32?, firstPlayback: UInt64?, revision: UInt64
    ) {
        self.contentIdentifier = contentIdentifier
        self.contentKey = contentKey
        self.outputRequirement = outputRequirement
        self.created = created
        self.rentalEnd = rentalEnd
        self.storageEnd = storageEnd
        self.playbackDuration = playbackDuration
        self.firstPlayback = firstPlayback
        self.revision = revision
    }

    /// When the key ends, as things stand; nil for never.
    public var expiry: UInt64? {
        var end = storageEnd
        if let firstPlayback, let playbackDuration { end = firstPlayback.addingClamped(UInt64(playbackDuration)) }
        guard let end, let rentalEnd else { return end ?? rentalEnd }
        return min(end, rentalEnd)
    }

    /// Notes that playback begins. Returns whether the record changed, so that its sealed form is to be stored again:
    /// only at the first playback, and only where the playback duration is limited.
    ///
    /// Throws what `check` throws.
    public mutating func beginPlayback(now: UInt64) throws(FairPlayError) -> Bool {
        try check(now: now)
        guard playbackDuration != nil, firstPlayback == nil else { return false }
        firstPlayback = now
        revision = revision.addingClamped(1)
        return true
    }

    /// Throws `persistableKeyExpired` at the key's end and later, and `invalidPersistableKey` where the clock stands
    /// before the last time that the record knows.
    public func check(now: UInt64) throws(FairPlayError) {
        guard now.addingClamped(Self.clockTolerance) >= max(created, firstPlayback ?? 0) else {
            throw .invalidPersistableKey("the clock was set back; set it right")
        }
        guard let expiry, now >= expiry else { return }
        throw .persistableKeyExpired("get a new one from the key server")
    }
}

extension FairPlayPersistableKey: Redacted {
    /// Revision and end, never the key.
    public var description: String {
        "persistable key, revision \(revision)\(expiry.map { ", ends at \($0)" } ?? "")"
    }
}

extension UInt64 {
    fileprivate func addingClamped(_ other: UInt64) -> UInt64 {
        let (sum, isTooLarge) = addingReportingOverflow(other)
        return isTooLarge ? .max : sum
    }
}

/// The form in which a key is stored. Only this project uses it.
///
/// ```
/// "LKPK", UInt16 format = 1, UInt16 0, UInt8[12] nonce, sealed, UInt8[16] tag
/// sealed: UInt8[16] content key, UInt8[16] IV, UInt64 revision, UInt64 created, UInt64 rental end,
///         UInt64 storage end, UInt64 first playback, UInt32 playback duration, UInt8 output requirement,
///         UInt8 length of the content identifier, content identifier
/// ```
///
/// Integers are big-endian; a time or duration that is not there is all ones, and so is an output requirement. Sealed
/// is AES-256-GCM with the 20 bytes in front of it authenticated. Its key is HMAC-SHA-256(device secret, "latchkey
/// persistable key, format 1").
extension FairPlayPersistableKey {
    /// In bytes, of the device secret.
    public static let secretSize = 32
    private static let magic = Array("LKPK".utf8)
    private static let format: UInt16 = 1
    private static let headerSize = 20
    /// Everything with the longest content identifier.
    private static let maximumSize = headerSize + 32 + 5 * 8 + 4 + 1 + 1 + 255 + AESGCM.tagSize

    /// The form to be stored. It is as safe as the secret, whose copy is the caller's to wipe.
    ///
    /// Throws `invalidPersistableKey` where the secret has not 32 bytes, the content identifier has more than 255, the key has
    /// no IV, or OpenSSL refuses.
    public func sealed(secret: [UInt8], random: RandomSource = .system) throws(FairPlayError) -> [UInt8] {
        guard let iv = contentKey.initializationVector else {
            throw .invalidPersistableKey("the key has no IV")
        }
        guard let length = UInt8(exactly: contentIdentifier.count) else {
            throw .invalidPersistableKey("a content identifier of \(contentIdentifier.count) bytes; at most 255 fit")
        }
        var clear: [UInt8] = []
        defer { wipe(&clear) }
        // Before the key is in it: as it grows, no copy is left behind.
        clear.reserveCapacity(Self.maximumSize)
        contentKey.withBytes { clear += $0 }
        clear += iv.bytes
        for number in [revision, created, rentalEnd ?? .max, storageEnd ?? .max, firstPlayback ?? .max] {
            clear += bigEndian(number)
        }
        clear += bigEndian(playbackDuration ?? .max)
        clear += [outputRequirement?.rawValue ?? .max, length] + contentIdentifier
        do throws(CryptoError) {
            let nonce = try random.bytes(AESGCM.nonceSize)
            let header = Self.magic + bigEndian(Self.format) + [0, 0] + nonce
            return header + (try Self.cipher(secret).seal(clear, nonce: nonce, authenticating: header))
        } catch {
            throw .invalidPersistableKey("it cannot be sealed: \(error)")
        }
    }

    /// Opens the stored form, and checks that the key may still be used.
    ///
    /// With `contentIdentifier`, the key has to be for that content; with `minimumRevision`, the record must not be an
    /// older one. Throws `persistableKeyFormat` for a format that is not known, `invalidPersistableKey` where the bytes
    /// were changed or put back, are of another device or for other content, or the clock was set back, and
    /// `persistableKeyExpired`.
    public init(
        opening stored: [UInt8], secret: [UInt8], contentIdentifier: [UInt8]? = nil, now: UInt64,
        minimumRevision: UInt64 = 0
    ) throws(FairPlayError) {
        let key: FairPlayPersistableKey
        do {
            var clear = try Self.open(stored, secret: secret)
            defer { wipe(&clear) }
            key = try Self.read(clear)
        } catch let error as FairPlayError {
            throw error
        } catch {
            throw .invalidPersistableKey("it cannot be read")
        }
        guard contentIdentifier == nil || contentIdentifier == key.contentIdentifier else {
            throw .invalidPersistableKey("it is for other content")
        }
        guard key.revision >= minimumRevision else {
            throw .invalidPersistableKey("an older record was put back")
        }
        try key.check(now: now)
        self = key
    }

    private static func open(_ stored: [UInt8], secret: [UInt8]) throws -> [UInt8] {
        var reader = ByteReader(stored, structure: "persistable key")
        guard stored.count <= maximumSize, Array(try reader.readBytes(4)) == magic else {
            throw FairPlayError.invalidPersistableKey("the bytes are none of Latchkey's persistable keys")
        }
        let number = try reader.readUInt16()
        guard number == format else {
            throw FairPlayError.persistableKeyFormat("format \(number); get a new key from the key server")
        }
        try reader.skip(2)
        let nonce = Array(try reader.readBytes(AESGCM.nonceSize))
        let clear = try cipher(secret).open(
            Array(reader.rest), nonce: nonce, authenticating: Array(stored.prefix(headerSize)))
        guard let clear else {
            throw FairPlayError.invalidPersistableKey("the bytes were changed, or belong to another device")
        }
        return clear
    }

    private static func read(_ clear: [UInt8]) throws -> FairPlayPersistableKey {
        var reader = ByteReader(clear, structure: "persistable key")
        func time() throws -> UInt64? {
            let number = try reader.readUInt64()
            return number == .max ? nil : number
        }
        let (keyBytes, ivBytes) = (try reader.readBytes(16), try reader.readBytes(16))
        guard let iv = InitializationVector(ivBytes), let key = ContentKey(keyBytes, initializationVector: iv) else {
            throw FairPlayError.invalidPersistableKey("no memory for a key is left")
        }
        let (revision, created) = (try reader.readUInt64(), try reader.readUInt64())
        let (rentalEnd, storageEnd, firstPlayback) = (try time(), try time(), try time())
        let duration = try reader.readUInt32()
        let requirement = try reader.readUInt8()
        let identifier = Array(try reader.readBytes(try reader.readUInt8()))
        guard reader.isAtEnd, requirement == .max || OutputRequirement(rawValue: requirement) != nil else {
            throw FairPlayError.invalidPersistableKey("it cannot be read")
        }
        return FairPlayPersistableKey(
            contentIdentifier: identifier, contentKey: key, outputRequirement: OutputRequirement(rawValue: requirement),
            created: created, rentalEnd: rentalEnd,
            storageEnd: storageEnd, playbackDuration: duration == .max ? nil : duration,
            firstPlayback: firstPlayback, revision: revision)
    }

    private static func cipher(_ secret: [UInt8]) throws(CryptoError) -> AESGCM {
        guard secret.count == secretSize else { throw CryptoError(reason: 0) }
        var bytes = try Digest.hmac(key: secret, Array("latchkey persistable key, format 1".utf8))
        defer { wipe(&bytes) }
        guard let key = SealingKey(bytes) else { throw CryptoError(reason: 0) }
        return try AESGCM(key)
    }
}
