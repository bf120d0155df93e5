// SPDX-License-Identifier: MPL-2.0

public import LatchkeyContainers
public import LatchkeyProtection

/// Latchkey's own envelope, version 1: a whole segment in AES-128-CTR, with a PlayReady object in front.
///
/// ```
/// "LKEN", UInt8 version (1), UInt8 cipher (1: AES-128-CTR), UInt16 reserved (0)
/// UInt8[16] initial counter block
/// UInt32 size of the PlayReady object, then the object
/// ciphertext up to the end
/// ```
///
/// Integers are big-endian. The counter is the last 8 bytes of the block and starts at the value that stands there; it
/// goes up by one for each 16 bytes and wraps round within its 8 bytes. The format is Latchkey's and no other player
/// reads it: the layout of PlayReady's own envelope is not public.
public struct LatchkeyEnvelope: EnvelopeParser {
    /// The first four bytes of a file.
    public static let magic = Array("LKEN".utf8)
    /// The fifth byte; the only version that there is.
    public static let version: UInt8 = 1
    private static let counterMode: UInt8 = 1
    private static let fixedSize = 28

    /// A parser without settings; any number of threads may share it.
    public init() {}

    /// 4 bytes: the magic.
    public var probeSize: Int { Self.magic.count }

    /// Looks at the first four bytes alone. Fewer are no envelope.
    public func isEnvelope(_ bytes: [UInt8]) -> Bool { bytes.starts(with: Self.magic) }

    /// Throws `unsupported` for another version or cipher, `malformed` for other bytes and for reserved bits that are
    /// set, `tooLarge` where the PlayReady object is, and the errors of reading it.
    public func header(of bytes: [UInt8]) throws(FormatError) -> EnvelopeHeader? {
        guard bytes.prefix(Self.magic.count).elementsEqual(Self.magic.prefix(bytes.count)) else {
            throw .malformed("envelope: not one")
        }
        guard bytes.count >= Self.fixedSize else { return nil }
        var reader = ByteReader(bytes, structure: "envelope")
        try reader.skip(Self.magic.count)
        let (version, cipher) = (try reader.readUInt8(), try reader.readUInt8())
        guard version == Self.version, cipher == Self.counterMode else {
            throw .unsupported("envelope of version \(version), cipher \(cipher)")
        }
        guard try reader.readUInt16() == 0 else { throw .malformed("envelope: reserved bits are set") }
        let counter = Array(try reader.readBytes(16))
        let size = try reader.readUInt32()
        guard size <= PlayReadyObject.maximumSize else {
            throw .tooLarge("envelope with a PlayReady object of \(size) bytes")
        }
        guard reader.remaining >= Int(size) else { return nil }
        let object = try PlayReadyObject(reading: Array(try reader.readBytes(size)))
        return EnvelopeHeader(playReadyObject: object, initialCounter: counter, payloadOffset: reader.offset)
    }

    /// What stands in front of the ciphertext. Throws `malformed` where the counter has not 16 bytes, and the errors of
    /// writing the object.
    public static func serialized(
        playReadyObject: PlayReadyObject, initialCounter: [UInt8]
    ) throws(FormatError) -> [UInt8] {
        guard initialCounter.count == 16 else {
            throw .malformed("envelope: a counter of \(initialCounter.count) bytes")
        }
        let object = try playReadyObject.serialized()
        let head = magic + [version, counterMode, 0, 0] + initialCounter
        return head + bigEndian(UInt32(clamping: object.count)) + object
    }
}

/// What an envelope needs before it can be opened: the key, by way of the PlayReady object, and how the bytes are
/// encrypted.
public struct EnvelopeHeader: Hashable, Sendable {
    /// Names the keys, as a `pssh` box would.
    public var playReadyObject: PlayReadyObject
    /// The first counter block of AES-128-CTR, 16 bytes. The counter is the last 8 of them, big-endian.
    public var initialCounter: [UInt8]
    /// Where the ciphertext starts, in bytes from the start of the file. It goes to the end.
    public var payloadOffset: Int

    /// For parsers of other envelopes. `initialCounter` has 16 bytes; nothing is checked here.
    public init(playReadyObject: PlayReadyObject, initialCounter: [UInt8], payloadOffset: Int) {
        self.playReadyObject = playReadyObject
        self.initialCounter = initialCounter
        self.payloadOffset = payloadOffset
    }
}

/// Reads the front of a file that is encrypted as a whole.
///
/// How PlayReady's own envelope is laid out is not public. Latchkey comes with a container of its own
/// (`LatchkeyEnvelope`). An application with the specification of another one adds a parser for it. Called from any
/// thread.
public protocol EnvelopeParser: Sendable {
    /// How many bytes of a file `isEnvelope` wants to see.
    var probeSize: Int { get }

    /// Whether a file that starts with `bytes` is an envelope of this kind. With fewer than `probeSize` bytes the answer
    /// is no where it is open.
    func isEnvelope(_ bytes: [UInt8]) -> Bool

    /// Reads the header. Nil where it goes on behind `bytes`: ask again with more. Throws where it cannot be read.
    func header(of bytes: [UInt8]) throws(FormatError) -> EnvelopeHeader?
}

extension LatchkeyEnvelope {
    /// The envelope of a whole segment, for a packager. The counter block starts with 8 random bytes and a counter of 0.
    ///
    /// `object` names the key. Throws `internalError` where OpenSSL refuses, and `malformedRequest` where the object
    /// cannot be written.
    public static func seal(
        _ segment: [UInt8], object: PlayReadyObject, key: ContentKey, random: RandomSource = .system
    ) throws(PlayReadyError) -> [UInt8] {
        do {
            let counter = try random.bytes(8) + [UInt8](repeating: 0, count: 8)
            let front = try serialized(playReadyObject: object, initialCounter: counter)
            return front + (try AES.counter(key: key, initial: counter, segment))
        } catch let error as FormatError {
            throw .malformedRequest(error.description)
        } catch {
            throw .internalError("no envelope can be made")
        }
    }

    /// The segment in an envelope whose header was read with `header(of:)`. Nothing says whether the key was the right
    /// one: the envelope has no code for it.
    ///
    /// Throws `malformedResponse` where the header is that of a longer file, and `internalError` where OpenSSL refuses.
    public static func open(
        _ envelope: [UInt8], header: EnvelopeHeader, key: ContentKey
    ) throws(PlayReadyError) -> [UInt8] {
        guard (0...envelope.count).contains(header.payloadOffset) else {
            throw .malformedResponse("the envelope ends within its header")
        }
        do throws(CryptoError) {
            return try AES.counter(key: key, initial: header.initialCounter, Array(envelope[header.payloadOffset...]))
        } catch {
            throw .internalError("the envelope cannot be opened")
        }
    }
}
