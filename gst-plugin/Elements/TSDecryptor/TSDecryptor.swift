// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyProtection

/// The decryptor of HLS SAMPLE-AES in transport streams and packed audio, in front of the demuxer.
///
/// Which of the two it is, the bytes tell, because `filesrc` has no caps and a player's caps are the same for both. So
/// the caps of the output come with the first bytes that go on. Which key, a note in the stream tells
/// (`SegmentKey`), else `key-uri`, else the key for media that names none.
final class TSDecryptor: Decryptor, @unchecked Sendable {
    // SAFETY: everything here belongs to the stream's thread, as `stream` does.
    @exclusivity(unchecked) private var samples = SampleAESStream()
    @exclusivity(unchecked) private var note: SegmentKey?
    @exclusivity(unchecked) private var marks = StreamMarks()
    @exclusivity(unchecked) private var output: SampleAESStream.Output?
    @exclusivity(unchecked) private var doubt = KeyDoubt()
    @exclusivity(unchecked) private var pictureDoubt = PictureDoubt()
    /// Of sound that is called clear: it is none if its frames look as with a wrong key.
    @exclusivity(unchecked) private var clearDoubt = KeyDoubt()
    /// A unit waits for its key in `samples`. Nothing is appended behind it.
    @exclusivity(unchecked) private var isWaiting = false
    /// In bytes. Players bring a whole segment at once: taken in pieces, what the first ones give is on its way before the
    /// others are decrypted, and stays in the processor's caches.
    @exclusivity(unchecked) var pieceSize = 64 << 10
    @exclusivity(unchecked) private var isJoining = false
    /// A SEGMENT event that waits for the caps, which have to come first.
    @exclusivity(unchecked) private var waitingSegment: Event?

    /// The element comes into a stream that is under way, and clear up to here. To be called before it starts.
    func joinsClearStream() { isJoining = true }

    override func resetStream() {
        super.resetStream()
        samples = SampleAESStream(isJoining: isJoining)
        note = nil
        output = nil
        doubt = KeyDoubt()
        pictureDoubt = PictureDoubt()
        clearDoubt = KeyDoubt()
        forgetBytes()
    }

    override func flushStream() {
        samples.flush()
        forgetBytes()
    }

    private func forgetBytes() {
        marks = StreamMarks()
        marks.isJoining = isJoining
        isWaiting = false
        waitingSegment = nil
    }

    // MARK: Buffers

    override func prepare(_ buffer: consuming Buffer) -> Prepared {
        if isWaiting {
            switch proceed(after: {}) {
            case .nothing: break
            case let first: return Self.keep(buffer, behind: first)
            }
        }
        if buffer.isDiscontinuous, samples.heldSize > 0 {
            // What came before is complete; after that, this buffer once more.
            switch proceed(after: { () throws(FormatError) in try samples.end() }) {
            case .nothing: samples.flush()
            case let first: return Self.keep(buffer, behind: first)
            }
        }
        marks.note(buffer, behind: samples.heldSize, of: samples.output)
        var rest = buffer
        while rest.size > pieceSize {
            var count = 0
            if let failure = append(rest, piece: &count) { return .failed(failure) }
            guard count > 0 else { break }
            guard let next = rest.part(from: count) else { return .failed(.outOfMemory) }
            rest = next
            switch proceed(after: {}) {
            case .nothing: continue
            case let first: return Self.keep(rest, behind: first)
            }
        }
        let mapped = rest.withBytes { append($0) }
        if let failure = mapped ?? (rest.size > 0 ? .notMappable : nil) { return .failed(failure) }
        return proceed {}
    }

    /// `rest`, which was not looked at yet, comes when `first` has gone on.
    private static func keep(_ rest: consuming Buffer, behind first: consuming Prepared) -> Prepared {
        switch consume first {
        case .nothing: .nothing
        case .ready(let front): .partly(front, rest: rest)
        case .partly(let front, _): .partly(front, rest: rest)
        case .missingKey(_, let keyID): .missingKey(rest, keyID)
        case .failed(let failure): .failed(failure)
        }
    }

    /// Takes the first bytes of a buffer in, and says how many.
    private func append(_ buffer: borrowing Buffer, piece count: inout Int) -> DecryptorFailure? {
        var taken = 0
        let size = pieceSize
        let mapped = buffer.withBytesOfFirstMemory { bytes in
            let piece = UnsafeRawBufferPointer(rebasing: bytes.prefix(size))
            taken = piece.count
            return append(piece)
        }
        count = taken
        return mapped ?? .notMappable
    }

    private func append(_ bytes: UnsafeRawBufferPointer) -> DecryptorFailure? {
        do throws(FormatError) {
            try samples.append(bytes)
            return nil
        } catch {
            return .malformedStream(error.description)
        }
    }

    override func complete(before event: borrowing Event) -> Prepared {
        switch event.kind {
        case .segment, .streamStart, .caps:
            return proceed { () throws(FormatError) in try samples.end() }
        case .endOfStream:
            let last = proceed { () throws(FormatError) in try samples.end() }
            if samples.heldSize > 0, samples.output == nil {
                return .failed(.malformedStream(SampleAESStream.notRecognized.description))
            }
            // tsdemux says nothing then, and never ends.
            if samples.lacksProgram {
                return .failed(.malformedStream("the transport stream has no program map that can be read"))
            }
            return last
        default: return .nothing
        }
    }

    /// Decrypts what can be, and gives the output.
    private func proceed(after change: () throws(FormatError) -> Void) -> Prepared {
        isWaiting = false
        do throws(FormatError) {
            try change()
            while true {
                switch try samples.next() {
                case .nothing: return makeOutput()
                case .key(let key):
                    note = key
                    prefetch(key.keyID)
                case .unit:
                    // The unit stays in `samples`, and what comes next waits until it has gone on.
                    switch decryptUnit() {
                    case .done: continue
                    case .missingKey(let keyID):
                        isWaiting = true
                        return .missingKey(Buffer(), keyID)
                    case .failed(let failure): return .failed(failure)
                    }
                }
            }
        } catch {
            return .failed(.malformedStream(error.description))
        }
    }

    private enum Outcome {
        case done
        case missingKey(KeyID?)
        case failed(DecryptorFailure)
    }

    private func decryptUnit() -> Outcome {
        let keyID = note?.keyID ?? stream.keys?.sources.namedKeyID
        if samples.isUnitCalledClear { return passClearUnit(of: keyID) }
        if samples.isUnitNotedWrongly { return .failed(.malformedStream(Self.wronglyNoted)) }
        let contents = samples.unitContents
        switch cipher(for: keyID, of: contents) {
        case .failed(let failure):
            return .failed(failure)
        case .missing:
            demandKey(keyID)
            return .missingKey(keyID)
        case .usable(let cipher):
            guard let vector = note?.initializationVector ?? stream.keys?.initializationVector else {
                return .failed(.noVector(keyID))
            }
            let start = MonotonicTime.now
            var size = 0
            var reason: String?
            let arePictures = contents == .pictures
            let isOpen =
                !samples.hasOwnVectors && (arePictures ? pictureDoubt.isOpen(for: keyID) : doubt.isOpen(for: keyID))
            do throws(DecryptionError) {
                try samples.withUnit { plan, bytes throws(DecryptionError) in
                    var plan = plan
                    if !samples.hasOwnVectors { plan.initializationVector = vector }
                    size = bytes.count
                    try cipher.decrypt(plan, in: bytes)
                    guard isOpen else { return }
                    let clear = UnsafeRawBufferPointer(bytes)
                    reason = arePictures ? pictureDoubt.reason(by: clear) : doubt.reason(by: clear)
                }
            } catch {
                return .failed(.cipher("\(error)", keyID))
            }
            if let found = samples.unitContents, found != contents,
                case .failed(let failure) = self.cipher(for: keyID, of: found)
            {
                // What was decrypted goes nowhere.
                samples = SampleAESStream(isJoining: isJoining)
                return .failed(failure)
            }
            countDecrypted(size, keyID, since: start)
            if reason != nil, samples.contradictsNote { return .failed(.malformedStream(Self.notEncrypted)) }
            if let reason { tell(reason, of: keyID) }
            return .done
        }
    }

    /// One of pictures and sound is enough.
    private func tell(_ reason: String, of keyID: KeyID?) {
        doubt.settle()
        pictureDoubt.settle()
        tellWrongKey(keyID, because: reason)
    }

    /// The stream has ended, and may have been too short to tell before.
    private func tellAtEnd() {
        guard let (keyID, reason) = pictureDoubt.end() else { return }
        guard samples.contradictsNote else { return tell(reason, of: keyID) }
        _ = report(.malformedStream(Self.notEncrypted))
    }

    /// `keyID` is that of the pictures beside it.
    private func passClearUnit(of keyID: KeyID?) -> Outcome {
        let isOpen = clearDoubt.isOpen(for: keyID)
        var reason: String?
        samples.withUnit { _, bytes in
            if isOpen { reason = clearDoubt.reason(by: UnsafeRawBufferPointer(bytes)) }
        }
        return reason.map { .failed(.malformedStream("\(Self.encrypted): \($0)")) } ?? .done
    }

    private static let encrypted = "the program map says that the sound is clear, and it is not"
    private static let contradiction =
        "the playlist says that the segments are encrypted, the program map that they are not"
    private static let notEncrypted = "\(contradiction), and what the key makes of them is no media"
    private static let wronglyNoted = "\(contradiction), and the pictures show that they are not"

    /// Of both media, both have to be allowed. Nil: it may be pictures or sound, and one of them has to be allowed.
    private func cipher(for keyID: KeyID?, of contents: UnitContents?) -> KeyRing.Lookup {
        guard let contents else {
            let asPictures = cipher(for: keyID, of: .video)
            guard case .failed = asPictures, case .usable(let usable) = cipher(for: keyID, of: .audio) else {
                return asPictures
            }
            return .usable(usable)
        }
        if contents.contains(.sound) {
            let asSound = cipher(for: keyID, of: .audio)
            guard case .usable = asSound, contents.contains(.pictures) else { return asSound }
        }
        return cipher(for: keyID, of: .video)
    }

    private func cipher(for keyID: KeyID?, of media: OutputPolicy.Media) -> KeyRing.Lookup {
        stream.keys?.cipher(for: keyID, of: media) ?? .missing
    }

    /// Asks for the key of a segment before its samples need it.
    private func prefetch(_ keyID: KeyID?) {
        guard let keyID, let sources = stream.keys?.sources else { return }
        switch sources.status(of: keyID) {
        case .absent, .pending: demandKey(keyID)
        case .usable, .failed: break
        }
    }

    private func makeOutput() -> Prepared {
        let count = samples.outputSize
        guard count > 0, let kind = samples.output else { return .nothing }
        if kind != output { announce(kind) }
        let size = marks.sizeOfNext(upTo: count)
        if stream.output.isAnyWelcome, let shared = samples.shareOutput(upTo: size) {
            guard let buffer = Buffer(of: shared.bytes, owner: shared) else { return .failed(.outOfMemory) }
            return ready(buffer, isLast: size == count)
        }
        let buffer: Buffer
        do {
            buffer = try stream.output.makeBuffer(size: size)
        } catch {
            return .failed(error == .notMappable ? .secureMemory(nil) : .outOfMemory)
        }
        let mapped: Void? = buffer.withMutableBytes { samples.takeOutput(into: $0) }
        guard mapped != nil else { return .failed(.notMappable) }
        return ready(buffer, isLast: size == count)
    }

    private func ready(_ buffer: consuming Buffer, isLast: Bool) -> Prepared {
        marks.apply(to: buffer)
        return isLast ? .ready(buffer) : .partly(buffer, rest: Buffer())
    }

    // MARK: Events

    override func pass(_ event: consuming Event) -> Bool {
        switch event.kind {
        case .caps:
            // They say how the media came; what goes on has its own.
            monitor.withLock { flow.hasCaps = true }
            return true
        case .segment where output == nil:
            waitingSegment = consume event
            return true
        default:
            if event.kind == .endOfStream { tellAtEnd() }
            return sourcePad.push(event)
        }
    }

    override func keep(_ event: consuming Event) {
        if event.kind != .caps { sourcePad.store(event) }
    }

    private func announce(_ kind: SampleAESStream.Output) {
        output = kind
        // Who got the stream before takes it as it was called then: `id3demux` no other caps than those of a tag.
        let called = isJoining ? PadReference(sharing: sourcePad.pointer).peer?.currentCaps : nil
        guard let caps = called ?? Self.caps(of: kind) else { return }
        sourcePad.push(Event(caps: caps))
        stream.output.negotiate(caps, on: sourcePad)
        if let segment = waitingSegment.take() { sourcePad.push(segment) }
    }

    // MARK: Queries

    override func sinkQuery(_ query: borrowing Query) -> Bool? {
        answerForContainer(query, accepting: Self.acceptedCaps)
    }

    override func sourceQuery(_ query: borrowing Query) -> Bool? {
        guard query.kind == .caps else { return nil }
        query.answer(caps: sourcePad.currentCaps ?? sourcePad.templateCaps)
        return true
    }
}

extension TSDecryptor {
    /// What a player's caps are renamed to where a segment is encrypted with SAMPLE-AES.
    static let pluggedType = "application/x-latchkey-ts"

    private static let transportStream = "video/mpegts, systemstream=(boolean)true"
    private static let id3 = "application/x-id3"
    private static let aac = "audio/mpeg, mpegversion=(int)4, stream-format=(string)adts"
    private static let ac3 = "audio/x-ac3"
    private static let eac3 = "audio/x-eac3"

    static let producedTypes = [transportStream, id3, aac, ac3, eac3].joined(separator: "; ")

    /// What the sink pad takes from the pad that is linked to it.
    static let acceptedCaps =
        Caps.permanent(
            [
                pluggedType, transportStream, id3, "audio/mpeg, mpegversion=(int){ 2, 4 }, stream-format=(string)adts",
                ac3, eac3,
            ].joined(separator: "; ")) ?? .any

    /// The caps of what goes on.
    static func caps(of output: SampleAESStream.Output) -> Caps? {
        switch output {
        case .transportStream: Caps(transportStream + ", packetsize=(int)188")
        case .id3: Caps(id3)
        case .audio(.ac3): Caps(ac3)
        case .audio(.eac3): Caps(eac3)
        case .audio: Caps(aac)
        }
    }
}

/// Whether the first frames behind a key look as if that were the right one. AC-3 and E-AC-3 tell by their checksums: with the
/// right key, a frame without damage has the right one; otherwise, one of 65,536 has. AAC tells by the ends of its frames: with
/// a wrong key, one encrypted end of four looks right. Frames are looked at no longer than that takes.
struct KeyDoubt {
    /// So many wrong frames and no right one are no accident of the transmission.
    static let frameLimit = 8
    /// So many wrong ends, if they are no fewer than the right ones; and so many right ones without a wrong one settle it.
    static let endLimit = 6
    /// So many clear ends, all of them right, show that the stream keeps the rule.
    static let clearLimit = 48

    private var keyID: KeyID?
    private var wrongFrames = 0
    private var ends = AudioFrameEnds()
    private var isSettled = false

    /// Whether frames that were decrypted with this key are still looked at.
    mutating func isOpen(for keyID: KeyID?) -> Bool {
        if keyID != self.keyID { self = KeyDoubt(keyID: keyID) }
        return !isSettled
    }

    init(keyID: KeyID? = nil) { self.keyID = keyID }

    mutating func settle() { isSettled = true }

    /// Looks at a unit that was decrypted. Why the key has to be a wrong one, once; nil otherwise.
    mutating func reason(by unit: UnsafeRawBufferPointer) -> String? {
        let (right, wrong) = AudioFrameChecksum.count(in: unit, limit: Self.frameLimit - wrongFrames)
        wrongFrames += wrong
        ends.add(unit)
        let areFramesWrong = right == 0 && wrongFrames >= Self.frameLimit
        let areEndsWrong =
            ends.wrong >= max(Self.endLimit, ends.right) && ends.clearRight >= Self.clearLimit && ends.clearWrong == 0
        isSettled =
            right > 0 || areFramesWrong || areEndsWrong || ends.clearWrong > 0
            || (ends.right >= Self.endLimit && ends.wrong == 0)
        guard right == 0 else { return nil }
        if areFramesWrong { return "none of the first \(Self.frameLimit) AC-3 frames has the right checksum" }
        guard areEndsWrong else { return nil }
        return "\(ends.wrong) of \(ends.wrong + ends.right) encrypted ends of AAC frames are no ends"
    }
}

/// The same of pictures, which are H.264: their intra slices tell. Of those, the first encrypted block needs the right IV too.
struct PictureDoubt {
    private static let reason = "the decrypted pictures are not valid H.264, or the segment has another IV"

    private var keyID: KeyID?
    private var pictures = PictureSlices()
    private var slices = SliceDoubt()
    private var isSettled = false

    /// Whether pictures that were decrypted with this key are still looked at.
    mutating func isOpen(for keyID: KeyID?) -> Bool {
        if keyID != self.keyID { (self.keyID, slices, isSettled) = (keyID, SliceDoubt(), false) }
        return !isSettled
    }

    mutating func settle() { isSettled = true }

    /// Looks at a unit that was decrypted. Why the key has to be a wrong one, once; nil otherwise.
    mutating func reason(by unit: UnsafeRawBufferPointer) -> String? {
        let (whole, broken) = pictures.count(in: unit)
        let isConfirmed = slices.isConfirmed(whole: whole, broken: broken)
        isSettled = isConfirmed || slices.isSettled
        return isConfirmed ? Self.reason : nil
    }

    /// No more units come. The same, with the key.
    mutating func end() -> (KeyID?, String)? {
        guard !isSettled, slices.isConfirmedByEnd else { return nil }
        isSettled = true
        return (keyID, Self.reason)
    }
}
