// SPDX-License-Identifier: MPL-2.0

/// What the parameter sets of H.264 say of the start of slices (ISO/IEC 14496-10, 7.3.2.1 and 7.3.2.2). A set that cannot
/// be read, or of a kind of which slices are not looked at, is left out. No bytes make it trap.
public struct H264ParameterSets: Hashable, Sendable {
    /// Of a sequence of pictures.
    struct SequenceSet: Hashable, Sendable {
        /// Not in gray pictures, and not where chroma is coded as luma.
        fileprivate(set) var hasChromaMode = true
        fileprivate(set) var frameNumberBits = 0
        /// Of the order count that a slice states; nil if it states differences, or nothing.
        fileprivate(set) var orderCountBits: Int?
        fileprivate(set) var hasOrderDeltas = false
        fileprivate(set) var hasOnlyFrames = true
        /// Each pair of macroblocks in a frame may be of fields.
        fileprivate(set) var hasAdaptiveFrames = false
        /// In 4:2:0 or in gray.
        fileprivate(set) var isWhollyKnown = true
        /// Gray pictures have none.
        fileprivate(set) var hasChroma = true
        /// A sample is a byte.
        fileprivate(set) var hasBytes = true
        /// In macroblocks, and how many a frame has.
        fileprivate(set) var (width, macroblocks) = (0, 0)
    }

    /// Of pictures.
    struct PictureSet: Hashable, Sendable {
        fileprivate var sequence = 0
        fileprivate(set) var isArithmetic = false
        fileprivate(set) var hasFieldOrder = false
        fileprivate(set) var quantizer = 0
        fileprivate(set) var hasDeblockingControl = false
        fileprivate(set) var hasRedundantPictures = false
        fileprivate(set) var hasLargeTransform = false
    }

    /// A set is no longer; scaling matrices are what takes room.
    private static let sizeLimit = 1024
    /// In macroblocks (A.3.1). They bound the work on a slice of few bits.
    private static let largestSide = 1056
    private static let largestFrame = 139_264

    private var sequences: [Int: SequenceSet] = [:]
    private var pictures: [Int: PictureSet] = [:]

    /// None: nothing is known of the slices.
    public init() {}

    /// Those of a box `avcC`, which GStreamer calls codec_data (ISO/IEC 14496-15, 5.3.3.1).
    public init(configuration: [UInt8]) {
        var reader = ByteReader(configuration, structure: "avcC")
        do throws(FormatError) {
            try reader.skip(5)
            for mask in [31, 255] as [UInt8] {
                for _ in 0..<(try reader.readUInt8() & mask) {
                    let unit = try reader.readBytes(try reader.readUInt16())
                    unit.withUnsafeBytes { add(unit: $0) }
                }
            }
        } catch {
            return
        }
    }

    /// Whether nothing is known of any slice.
    var isEmpty: Bool { pictures.isEmpty }

    /// The sets for a slice that names this set of its picture.
    func sets(of picture: Int) -> (SequenceSet, PictureSet)? {
        guard let found = pictures[picture], let sequence = sequences[found.sequence] else { return nil }
        return (sequence, found)
    }

    /// Takes a NAL unit, if it has a set.
    mutating func add(unit: UnsafeRawBufferPointer) {
        guard let header = unit.first, header & 31 == 7 || header & 31 == 8 else { return }
        let payload = H264Payload(unit.dropFirst(), limit: Self.sizeLimit)
        payload.bytes.withUnsafeBytes { bytes in
            var bits = SampleBits(bytes, from: 0)
            if header & 31 == 7 {
                bits.skip(24)
                guard let id = bits.exponential(), id < 32 else { return }
                sequences[id] = Self.sequence(&bits, profile: bytes.first ?? 0)
            } else {
                guard let id = bits.exponential(), id < 256 else { return }
                pictures[id] = Self.picture(&bits, endsAt: payload.bitsBeforeStop)
            }
        }
    }

    private static func sequence(_ bits: inout SampleBits, profile: UInt8) -> SequenceSet? {
        var set = SequenceSet()
        if [100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135].contains(profile) {
            guard let chroma = bits.exponential(), chroma <= 3 else { return nil }
            // The colors of such pictures have slices of their own.
            if chroma == 3, bits.flag() { return nil }
            set.hasChromaMode = chroma == 1 || chroma == 2
            (set.isWhollyKnown, set.hasChroma) = (chroma <= 1, chroma > 0)
            // Then, a flag.
            guard let lumaDepth = bits.exponential(), let chromaDepth = bits.exponential() else { return nil }
            set.hasBytes = lumaDepth == 0 && chromaDepth == 0
            bits.skip(1)
            if bits.flag() {
                for list in 0..<(chroma == 3 ? 12 : 8) where bits.flag() {
                    guard skipScaling(&bits, count: list < 6 ? 16 : 64) else { return nil }
                }
            }
        }
        guard let numberBits = bits.exponential(), numberBits <= 12, let kind = bits.exponential() else { return nil }
        set.frameNumberBits = numberBits + 4
        switch kind {
        case 0:
            guard let countBits = bits.exponential(), countBits <= 12 else { return nil }
            set.orderCountBits = countBits + 4
        case 1:
            set.hasOrderDeltas = !bits.flag()
            guard bits.exponential() != nil, bits.exponential() != nil, let count = bits.exponential(), count <= 255
            else {
                return nil
            }
            for _ in 0..<count where bits.exponential() == nil { return nil }
        case 2: break
        default: return nil
        }
        // References; a flag; the size.
        guard bits.exponential() != nil else { return nil }
        bits.skip(1)
        guard let width = bits.exponential(), let height = bits.exponential() else { return nil }
        set.hasOnlyFrames = bits.flag()
        set.width = width + 1
        set.macroblocks = set.width * (height + 1) * (set.hasOnlyFrames ? 1 : 2)
        if set.width > largestSide || set.macroblocks > largestFrame { set.isWhollyKnown = false }
        set.hasAdaptiveFrames = !set.hasOnlyFrames && bits.flag()
        return set
    }

    /// 7.3.2.1.1.1
    private static func skipScaling(_ bits: inout SampleBits, count: Int) -> Bool {
        var (last, next) = (8, 8)
        for _ in 0..<count where next != 0 {
            guard let delta = bits.signedExponential() else { return false }
            next = (last + delta) & 255
            if next != 0 { last = next }
        }
        return true
    }

    private static func picture(_ bits: inout SampleBits, endsAt end: Int) -> PictureSet? {
        var set = PictureSet()
        guard let sequence = bits.exponential() else { return nil }
        set.sequence = sequence
        set.isArithmetic = bits.flag()
        set.hasFieldOrder = bits.flag()
        // Groups of slices; the references of both lists; two kinds of weights.
        guard bits.exponential() == 0, bits.exponential() != nil, bits.exponential() != nil else { return nil }
        bits.skip(3)
        // For switching pictures too; then, for chroma.
        guard let quantizer = bits.signedExponential(), bits.exponential() != nil, bits.exponential() != nil else {
            return nil
        }
        set.quantizer = 26 + quantizer
        set.hasDeblockingControl = bits.flag()
        bits.skip(1)
        set.hasRedundantPictures = bits.flag()
        set.hasLargeTransform = bits.offset < end && bits.flag()
        return set
    }
}

/// The bytes of a NAL unit without what keeps start codes out of it (ISO/IEC 14496-10, 7.4.1).
struct H264Payload {
    private(set) var bytes: [UInt8] = []
    /// Before how many of the bytes one was left out.
    private var gaps: [Int] = []

    /// `unit` begins behind the header. No more than `limit` bytes are read.
    init(_ unit: some Sequence<UInt8>, limit: Int) {
        var zeros = 0
        for byte in unit.prefix(limit) {
            if zeros >= 2, byte == 3 {
                gaps.append(bytes.count)
                zeros = 0
            } else {
                bytes.append(byte)
                zeros = byte == 0 ? zeros + 1 : 0
            }
        }
    }

    /// The place in the unit of one of the bytes.
    func position(of index: Int) -> Int { index + gaps.count { $0 <= index } }

    /// The bits in front of the last one that is set.
    var bitsBeforeStop: Int {
        guard let last = bytes.lastIndex(where: { $0 != 0 }) else { return 0 }
        return last * 8 + 7 - bytes[last].trailingZeroBitCount
    }
}
