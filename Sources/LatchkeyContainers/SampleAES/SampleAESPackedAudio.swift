// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// Packed audio (RFC 8216, 3.4) with SAMPLE-AES on its way to clear audio: ID3 tags and frames of AAC, AC-3 or E-AC-3.
///
/// The first tag is passed on without its parts about the encryption. Tags of later segments are dropped: parsers take bytes
/// between two frames for a gap, and decoders restart behind a gap, which is audible. A `SegmentKey` says whether the frames
/// are encrypted; without one, the tag's audio description does. Without any tag, the frames count as encrypted, because the
/// pipeline has a decryptor here. Bytes that are neither tag nor frame are passed on as they are. Not thread-safe.
struct SampleAESPackedAudio: ~Copyable {
    /// What the first bytes that go on are.
    enum Start: Equatable {
        case tag
        case frame(SampleAESCodec)
    }

    private var input: [UInt8] = []
    /// What is in front of here has been dealt with.
    private var position = 0
    private var output: [UInt8] = []
    /// Frames in `input`, from `position` on, that wait to be decrypted.
    private var plannedSize = 0
    private var planner = SampleAESPlanner()
    private var hasEnded = false
    private var isLost = false
    private var key: SegmentKey?
    private var isDescribed: Bool?
    private(set) var start: Start?
    /// No tag goes on, not even the first.
    private let keepsTags: Bool

    init(keepsTags: Bool = false) { self.keepsTags = keepsTags }

    mutating func append(_ bytes: UnsafeRawBufferPointer) {
        hasEnded = false
        if plannedSize == 0, position > 0 {
            input.removeFirst(position)
            position = 0
        }
        input.append(contentsOf: bytes)
    }

    mutating func end() { hasEnded = true }

    mutating func flush() {
        input.removeAll(keepingCapacity: true)
        output.removeAll(keepingCapacity: true)
        position = 0
        plannedSize = 0
        isLost = false
    }

    private var isProtected: Bool {
        if let key { return key.keyID != nil }
        return isDescribed ?? true
    }

    // MARK: Steps

    mutating func next() throws(FormatError) -> SampleAESStep {
        while plannedSize == 0, position < input.count {
            switch try nextTag() {
            case .tag(let tag?):
                if let step = adopt(tag) { return step }
            case .tag(nil): break
            case .incomplete: return finishTail()
            case .noTag:
                planFrames()
                if plannedSize == 0 { return finishTail() }
                if !planner.isProtected { finishUnit() }
            }
        }
        return plannedSize == 0 ? .nothing : .unit
    }

    mutating func withUnit<Failure: Error>(
        _ body: (SamplePlan, UnsafeMutableRawBufferPointer) throws(Failure) -> Void
    ) throws(Failure) {
        guard plannedSize > 0 else { return }
        let range = position..<position + plannedSize
        // SAFETY: `planFrames` counts only bytes that are there, and `input` does not shrink while one is planned. The slice is
        // checked once more; `body` keeps no pointer.
        try input.withUnsafeMutableBufferPointer { bytes throws(Failure) in
            try body(
                planner.plan, UnsafeMutableRawBufferPointer(rebasing: UnsafeMutableRawBufferPointer(bytes)[range]))
        }
        finishUnit()
    }

    private mutating func finishUnit() {
        output.append(contentsOf: input[position..<position + plannedSize])
        position += plannedSize
        plannedSize = 0
    }

    /// Nothing follows what cannot be read for lack of bytes.
    private mutating func finishTail() -> SampleAESStep {
        if hasEnded {
            output.append(contentsOf: input[position...])
            position = input.count
        }
        return .nothing
    }

    // MARK: Out

    var outputSize: Int { output.count }

    var heldSize: Int { output.count + input.count - position }

    mutating func takeOutput(into target: UnsafeMutableRawBufferPointer) {
        let size = min(target.count, output.count)
        // SAFETY: `size` is at most what either side has.
        output.withUnsafeBytes { target.copyMemory(from: UnsafeRawBufferPointer(rebasing: $0.prefix(size))) }
        output.removeFirst(size)
    }

    // MARK: Tags

    private enum TagReading {
        /// Nil: one that cannot be read was dealt with as it is.
        case tag(ID3Tag?)
        case incomplete
        case noTag
    }

    private mutating func nextTag() throws(FormatError) -> TagReading {
        let left = input.count - position
        let magic = Array("ID3".utf8)
        guard input[position...].prefix(magic.count).elementsEqual(magic.prefix(left)) else { return .noTag }
        guard left >= ID3Tag.headerSize else { return .incomplete }
        let start = position
        guard
            let size = input.withUnsafeBytes({
                ID3Tag.size(ofTagAt: UnsafeRawBufferPointer(rebasing: $0[start...]))
            })
        else { return .noTag }
        guard size <= ID3Tag.maximumSize else { throw .tooLarge("ID3 tag: \(size) bytes") }
        guard left >= size else { return .incomplete }
        let bytes = Array(input[position..<position + size])
        position += size
        if let tag = try? ID3Tag(bytes) { return .tag(tag) }
        append(tag: bytes)
        return .tag(nil)
    }

    private mutating func adopt(_ tag: ID3Tag) -> SampleAESStep? {
        let note = tag.segmentKey
        var rest = tag
        rest.removeProtection()
        // A tag that held the note alone is not the stream's.
        if !rest.frames.isEmpty || note == nil { append(tag: rest.bytes) }
        if let note {
            key = note
            return .key(note)
        }
        isDescribed = tag.describesEncryptedAudio
        return nil
    }

    private mutating func append(tag: [UInt8]) {
        guard start == nil, !keepsTags else { return }
        start = .tag
        output.append(contentsOf: tag)
    }

    // MARK: Frames

    /// Plans all frames up to a tag or to the end of what is there.
    private mutating func planFrames() {
        planner.startAudio()
        var planned = 0
        let from = position
        let isEncrypted = isProtected
        var codec: SampleAESCodec?
        var isLost = isLost
        let size = input.withUnsafeBytes { all -> Int in
            // SAFETY: `position` never passes `input.count`; every offset below is compared with `bytes.count`.
            let bytes = UnsafeRawBufferPointer(rebasing: all[from...])
            var offset = 0
            while offset < bytes.count {
                // A tag, or the start of one.
                if offset > 0, bytes[offset] == UInt8(ascii: "I"),
                    bytes[offset...].prefix(3).elementsEqual("ID3".utf8.prefix(bytes.count - offset))
                {
                    break
                }
                let reading = AudioFrame.read(bytes, at: offset, isLost: isLost, isEnd: hasEnded)
                if case .frame(let frame) = reading {
                    guard frame.size <= bytes.count - offset || hasEnded else { break }
                    let end = min(bytes.count, offset + frame.size)
                    if isEncrypted { planner.planFrame(frame, at: offset, to: end, &planned) }
                    codec = codec ?? frame.codec
                    offset = end
                    isLost = false
                } else if reading == .noFrame {
                    offset += 1
                    isLost = true
                } else {
                    break
                }
            }
            return offset
        }
        self.isLost = isLost
        if start == nil, let codec { start = .frame(codec) }
        planner.finishAudio(planned: planned, size: size)
        plannedSize = size
    }
}
