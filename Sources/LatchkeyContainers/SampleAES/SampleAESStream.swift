// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// A stream with SAMPLE-AES on its way to a clear one: a transport stream, or packed audio; or segments that are encrypted
/// as a whole (`CarriedSegment`). Which, its bytes tell.
///
/// The caller brings bytes of any size, then takes steps until there is nothing more to do, and takes the output:
///
/// ```
/// try stream.append(bytes)
/// while true {
///     switch try stream.next() {
///     case .key(let segmentKey): …        // which key the units behind it need
///     case .unit: try stream.withUnit { plan, bytes in … decrypt the bytes in place … }
///     case .nothing: return
///     }
/// }
/// ```
///
/// A unit whose key is missing may wait: more bytes can be appended meanwhile, and what is in front of it taken. Encrypted
/// samples never get out. Memory is bounded by what is appended at once plus 16 MiB; the bytes of a stream that cannot
/// be read throw, and never trap. Not thread-safe.
public final class SampleAESStream {
    /// What kind of clear stream comes out.
    public enum Output: Sendable, Hashable {
        /// Packets of 188 bytes.
        case transportStream
        /// ID3 tags, and packed audio behind them.
        case id3
        /// Packed audio without a tag in front.
        case audio(SampleAESCodec)
    }

    private enum Container {
        case unknown
        case transportStream
        case packedAudio
        case carried
    }

    // One owner at a time, and no access lasts while another begins: the run-time check would cost more than it finds.
    @exclusivity(unchecked) private var container = Container.unknown
    @exclusivity(unchecked) private var transport = SampleAESTransportStream()
    @exclusivity(unchecked) private var packed: SampleAESPackedAudio
    @exclusivity(unchecked) private var carried = CarriedStream()
    /// Of a transport stream whose packets have more than 188 bytes.
    @exclusivity(unchecked) private var trimmer: PacketTrimmer?
    /// Bytes that do not tell yet what they are.
    @exclusivity(unchecked) private var unread: [UInt8] = []

    /// Nothing is known of the stream yet: `output` is nil. `isJoining`: what came before went on without this, so that
    /// no tag is the one in front of all.
    public init(isJoining: Bool = false) { packed = SampleAESPackedAudio(keepsTags: isJoining) }

    /// Nil as long as nothing was found that can go on.
    public var output: Output? {
        switch container {
        case .unknown: nil
        case .transportStream: .transportStream
        case .packedAudio:
            switch packed.start {
            case .tag: .id3
            case .frame(let codec): .audio(codec)
            case nil: nil
            }
        case .carried: carried.kind
        }
    }

    /// Whether the plans of units have their own IV, and not that of the key.
    public var hasOwnVectors: Bool { container == .carried }

    /// Takes the next bytes. Throws `notRecognized` if 64 KiB do not show the kind of stream, `tooLarge` for a PES
    /// packet above the limit, `malformed` for a carried segment without a counter.
    public func append(_ bytes: UnsafeRawBufferPointer) throws(FormatError) {
        switch container {
        case .transportStream:
            guard let packets = trimmer?.packets(from: bytes) else { return try transport.append(bytes) }
            try appendTrimmed(packets)
        case .packedAudio: packed.append(bytes)
        case .carried: try carried.append(bytes)
        case .unknown:
            unread.append(contentsOf: bytes)
            try recognize(isEnd: false)
        }
    }

    /// Completes what is open, at the end of the stream or in front of a discontinuity. Steps follow. Throws as
    /// `append` does.
    public func end() throws(FormatError) {
        if container == .unknown { try recognize(isEnd: true) }
        switch container {
        case .transportStream:
            if let packets = trimmer?.end() { try appendTrimmed(packets) }
            try transport.end()
        case .packedAudio: packed.end()
        case .carried: try carried.end()
        case .unknown: return
        }
    }

    /// Forgets all bytes that were not taken. What the stream said of its programmes and its key stays known.
    public func flush() {
        unread.removeAll()
        trimmer?.reset()
        transport.flush()
        packed.flush()
        carried.flush()
    }

    /// No program map could be read in this transport stream up to now, so nothing in it can be found.
    public var lacksProgram: Bool { container == .transportStream && !transport.hasProgram }

    /// The last note names a key, but the transport stream calls its H.264 and audio clear. They are taken for encrypted.
    public var contradictsNote: Bool { transport.contradictsNote }

    /// The unit that waits is sound that the program map calls clear, beside encrypted pictures. It is to go on as it is.
    public var isUnitCalledClear: Bool { container == .transportStream && transport.isUnitCalledClear }

    /// The unit that waits is pictures that are not encrypted, though `contradictsNote` has them for that.
    public var isUnitNotedWrongly: Bool { container == .transportStream && transport.isUnitNotedWrongly }

    /// What to do next. Throws `tooLarge` for an ID3 tag above the limit, and as `append` does.
    public func next() throws(FormatError) -> SampleAESStep {
        switch container {
        case .unknown: .nothing
        case .transportStream: transport.next()
        case .packedAudio: try packed.next()
        case .carried: try nextCarried()
        }
    }

    /// What the unit that waits holds. A transport stream in an envelope is one unit with all that its program maps name.
    /// Nil: it shows when the unit is decrypted, and nothing goes on before.
    public var unitContents: UnitContents? {
        switch container {
        case .unknown: .pictures
        case .transportStream: transport.unitContents
        case .packedAudio: .sound
        case .carried: carried.contents
        }
    }

    /// Lends the unit that `next` announced last: the bytes, and how to decrypt them but for the IV. When `body` throws,
    /// the unit stays.
    public func withUnit<Failure: Error>(
        _ body: (SamplePlan, UnsafeMutableRawBufferPointer) throws(Failure) -> Void
    ) throws(Failure) {
        switch container {
        case .unknown: return
        case .transportStream: try transport.withUnit(body)
        case .packedAudio: try packed.withUnit(body)
        case .carried: try carried.withUnit(body)
        }
    }

    /// How many bytes can go on: of a transport stream, whole packets.
    public var outputSize: Int {
        switch container {
        case .unknown: 0
        case .transportStream: transport.outputSize
        case .packedAudio: packed.outputSize
        case .carried: carried.outputSize
        }
    }

    /// Everything that was appended and not taken yet, in bytes, ready or not.
    public var heldSize: Int {
        switch container {
        case .unknown: unread.count
        case .transportStream: transport.heldSize + (trimmer?.heldSize ?? 0)
        case .packedAudio: packed.heldSize
        case .carried: carried.heldSize
        }
    }

    /// Moves the first bytes of the output into `target`, which is not larger than `outputSize`; of a transport stream,
    /// whole packets.
    public func takeOutput(into target: UnsafeMutableRawBufferPointer) {
        switch container {
        case .unknown: return
        case .transportStream: transport.takeOutput(into: target)
        case .packedAudio: packed.takeOutput(into: target)
        case .carried: carried.takeOutput(into: target)
        }
    }

    /// Takes at most `size` bytes of the output where they lie, of a transport stream, in whole packets. Nil of other
    /// streams: take that with `takeOutput`.
    public func shareOutput(upTo size: Int) -> SharedBytes? {
        container == .transportStream ? transport.shareOutput(upTo: size) : nil
    }

    /// What is wrong with bytes that are none of the formats.
    public static let notRecognized = FormatError.unsupported(
        "neither a transport stream nor packed audio with ADTS, AC-3 or E-AC-3 frames")

    /// So many bytes are looked at before they count as none of the formats.
    private static let searchLimit = 64 << 10

    private func appendTrimmed(_ packets: [UInt8]) throws(FormatError) {
        try packets.withUnsafeBufferPointer { packets throws(FormatError) in
            try transport.append(UnsafeRawBufferPointer(packets))
        }
    }

    private func recognize(isEnd: Bool) throws(FormatError) {
        guard let found = Self.container(of: unread, isEnd: isEnd) else {
            guard unread.count <= Self.searchLimit else { throw Self.notRecognized }
            return
        }
        if found.distance != TransportPacket.size {
            trimmer = PacketTrimmer(distance: found.distance)
            unread.removeFirst(found.offset)
        }
        let isCarried = SegmentKey(transportStreamPackets: unread.prefix(TransportPacket.size))?.isCarried == true
        container = isCarried ? .carried : found.container
        var bytes: [UInt8] = []
        swap(&bytes, &unread)
        try bytes.withUnsafeBufferPointer { bytes throws(FormatError) in
            try append(UnsafeRawBufferPointer(bytes))
        }
    }

    private func nextCarried() throws(FormatError) -> SampleAESStep {
        let step = carried.next()
        if step == .nothing { try carried.recognize() }
        return step
    }

    /// Whether a program map in the first packets of a transport stream names a stream that is encrypted.
    public static func isAnnounced(in bytes: UnsafeRawBufferPointer) -> Bool {
        (0..<min(announcementLimit, bytes.count / TransportPacket.size)).contains { number in
            let packet = bytes.dropFirst(number * TransportPacket.size).prefix(TransportPacket.size)
            let start = packet.startIndex
            // The start of a section, behind what else there is.
            guard packet[start] == TransportPacket.syncByte, packet[start + 1] & 0x40 != 0,
                packet[start + 3] & 0x10 != 0
            else { return false }
            let payload = Array(packet.dropFirst(4 + (packet[start + 3] & 0x20 == 0 ? 0 : 1 + Int(packet[start + 4]))))
            return SampleAESTransportStream.sections(in: payload)?.contains {
                (try? ProgramMap(section: Array(payload[$0])))?.isCertainlyProtected == true
            } == true
        }
    }

    /// In packets. Tables stand in front.
    private static let announcementLimit = 16

    /// What clear bytes are, from their start; nil where they do not tell.
    static func output(of bytes: [UInt8], isEnd: Bool) -> Output? {
        if bytes.starts(with: "ID3".utf8) { return .id3 }
        if case .frame(let frame) = bytes.withUnsafeBytes({ AudioFrame.read($0, at: 0) }) { return .audio(frame.codec) }
        let distances = isEnd ? 1 : 2
        guard bytes.count > distances * TransportPacket.size else { return nil }
        let isStream = (0...distances).allSatisfy { bytes[$0 * TransportPacket.size] == TransportPacket.syncByte }
        return isStream ? .transportStream : nil
    }

    /// Of a transport stream, with the place of the first packet and the distance from one to the next.
    private static func container(
        of bytes: [UInt8], isEnd: Bool
    ) -> (container: Container, offset: Int, distance: Int)? {
        if bytes.starts(with: "ID3".utf8) { return (.packedAudio, 0, TransportPacket.size) }
        let frame = bytes.withUnsafeBytes { AudioFrame.read($0, at: 0) }
        if case .frame = frame { return (.packedAudio, 0, TransportPacket.size) }
        return PacketTrimmer.find(in: bytes, isEnd: isEnd).map { (.transportStream, $0.offset, $0.distance) }
    }
}

/// What comes next in a stream with SAMPLE-AES.
public enum SampleAESStep: Sendable, Equatable {
    /// Samples behind here are encrypted with another key, or clear.
    case key(SegmentKey)
    /// A unit waits to be decrypted: `withUnit` lends it.
    case unit
    /// More bytes are needed.
    case nothing
}

/// The kinds of elementary streams that SAMPLE-AES encrypts in transport streams and packed audio.
///
/// Public source: "MPEG-2 Stream Encryption Format for HTTP Live Streaming" (developer.apple.com/library/archive,
/// HLS_Sample_Encryption).
public enum SampleAESCodec: Sendable, Hashable, CaseIterable {
    /// H.264: NAL units of types 1 and 5 above 48 bytes. 32 bytes stay clear, then one block of ten is encrypted.
    case h264
    /// AAC in ADTS frames.
    case aac
    /// AC-3 sync frames; the first 16 bytes stay clear.
    case ac3
    /// E-AC-3. Its frames and those of AC-3 tell themselves apart.
    case eac3

    /// The stream type of the encrypted form in a program map.
    init?(streamType: UInt8) {
        switch streamType {
        case 0xDB: self = .h264
        case 0xCF: self = .aac
        case 0xC1: self = .ac3
        case 0xC2: self = .eac3
        default: return nil
        }
    }

    /// The stream type of the clear form: ISO/IEC 13818-1, table 2-34, and ATSC A/52, annex A and G.
    var clearStreamType: UInt8 {
        switch self {
        case .h264: 0x1B
        case .aac: 0x0F
        case .ac3: 0x81
        case .eac3: 0x87
        }
    }

    /// Of the clear form.
    init?(clearStreamType type: UInt8) {
        guard let codec = Self.allCases.first(where: { $0.clearStreamType == type }) else { return nil }
        self = codec
    }
}

/// What a unit of `SampleAESStream` may hold.
public struct UnitContents: OptionSet, Sendable, Hashable {
    /// One bit a medium.
    public let rawValue: UInt8

    /// Any bits; those that have no name count as nothing.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// What may be a picture.
    public static let pictures = UnitContents(rawValue: 1)
    /// What may be sound.
    public static let sound = UnitContents(rawValue: 2)
}
