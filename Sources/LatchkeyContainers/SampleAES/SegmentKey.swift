// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// A note inside a stream: which key the samples behind it are encrypted with, until the next note.
///
/// A transport stream or packed audio does not name its key; the playlist does. The code that rewrites the playlist
/// puts this in front of each segment, for the element that decrypts. The format is Latchkey's own, in two forms around
/// the same bytes:
///
/// ```
/// "LKSEGKEY", UInt8 version = 1, UInt8 flags (1: encrypted, 2: IV follows, 4: carried), UInt8[16] KID, UInt8[16] IV,
/// UInt32 CRC (as of MPEG sections) of all of this
/// ```
///
/// It holds no secret. A note that a stream's author forges can only make the wrong key be asked for.
public struct SegmentKey: Sendable, Hashable {
    /// Nil: the samples are clear.
    public var keyID: KeyID?
    /// Nil: the key's own.
    public var initializationVector: InitializationVector?
    /// Behind the note is no stream with encrypted samples but a segment that is encrypted as a whole (`CarriedSegment`);
    /// the IV is its first counter block.
    public var isCarried = false

    /// A note in front of encrypted samples, or of clear ones where `keyID` is nil.
    public init(keyID: KeyID?, initializationVector: InitializationVector? = nil) {
        self.keyID = keyID
        self.initializationVector = initializationVector
    }

    private static let magic = Array("LKSEGKEY".utf8)
    private static let version: UInt8 = 1
    private static let encryptedFlag: UInt8 = 1
    private static let vectorFlag: UInt8 = 2
    private static let carriedFlag: UInt8 = 4

    /// In bytes.
    static let size = 46

    var bytes: [UInt8] {
        var flags = (keyID == nil ? 0 : Self.encryptedFlag) | (initializationVector == nil ? 0 : Self.vectorFlag)
        if isCarried { flags |= Self.carriedFlag }
        let zeros = [UInt8](repeating: 0, count: 16)
        let content =
            Self.magic + [Self.version, flags] + (keyID?.bytes ?? zeros) + (initializationVector?.bytes ?? zeros)
        return content + CRC32.checksum(content).bigEndianBytes
    }

    /// Nil for anything else than such a note.
    init?(_ bytes: some Collection<UInt8>) {
        let bytes = Array(bytes.prefix(Self.size))
        guard bytes.count == Self.size, bytes.starts(with: Self.magic), bytes[8] == Self.version,
            CRC32.checksum(bytes) == 0
        else { return nil }
        keyID = bytes[9] & Self.encryptedFlag != 0 ? KeyID(bytes[10..<26]) : nil
        initializationVector = bytes[9] & Self.vectorFlag != 0 ? InitializationVector(bytes[26..<42]) : nil
        isCarried = bytes[9] & Self.carriedFlag != 0
    }
}

// MARK: Transport streams

extension SegmentKey {
    /// The PID of the note's packets: in the range for private use, where no tool puts elementary streams by itself.
    public static let pid = 0x1FF8

    /// In bytes, of a packet of a transport stream.
    public static let packetSize = TransportPacket.size

    /// Whole packets of a transport stream: the note, and null packets behind it, so that these bytes alone look like a
    /// transport stream to a typefinder. Demultiplexers ignore them all.
    public func transportStreamPackets() -> [UInt8] {
        var packets = transportStreamPacket
        for _ in 0..<4 { packets += packet(TransportPacket.nullPID, flags: 0, []) }
        return packets
    }

    /// The packet of the note alone.
    var transportStreamPacket: [UInt8] { packet(Self.pid, flags: 0x40, bytes) }

    private func packet(_ pid: Int, flags: UInt8, _ payload: [UInt8]) -> [UInt8] {
        let header = [
            TransportPacket.syncByte, flags | UInt8(truncatingIfNeeded: pid >> 8), UInt8(truncatingIfNeeded: pid), 0x10,
        ]
        let content = header + payload
        return content + [UInt8](repeating: 0xFF, count: TransportPacket.size - content.count)
    }

    /// The first note among whole packets of a transport stream, which start at the first byte.
    public init?(transportStreamPackets packets: some Collection<UInt8>) {
        var rest = packets[...]
        while rest.count >= TransportPacket.size {
            let packet = Array(rest.prefix(TransportPacket.size))
            if let key = Self(transportStreamPacket: packet) {
                self = key
                return
            }
            rest = rest.dropFirst(TransportPacket.size)
        }
        return nil
    }

    private init?(transportStreamPacket packet: [UInt8]) {
        guard packet[0] == TransportPacket.syncByte, Int(packet[1] & 0x1F) << 8 | Int(packet[2]) == Self.pid,
            packet[3] & 0x30 == 0x10
        else { return nil }
        self.init(packet.dropFirst(4))
    }

    /// Reads a packet of the note's PID.
    init?(_ packet: TransportPacket) {
        guard packet.payloadSize >= Self.size else { return nil }
        // SAFETY: the payload is inside the packet.
        self.init(UnsafeBufferPointer(start: packet.bytes + packet.payloadOffset, count: packet.payloadSize))
    }
}

// MARK: Packed audio

extension SegmentKey {
    /// The owner of the PRIV frame.
    public static let owner = "org.latchkey.segment-key"

    /// An ID3v2.4 tag with a PRIV frame, for the front of a segment of packed audio.
    public func id3Tag() -> [UInt8] { ID3Tag(frames: [.privateFrame(owner: Self.owner, data: bytes)]).bytes }

    /// The note in the ID3 tag that starts at the first byte.
    public init?(id3Tag bytes: some Collection<UInt8>) {
        guard let tag = try? ID3Tag(Array(bytes)), let key = tag.segmentKey else { return nil }
        self = key
    }
}
