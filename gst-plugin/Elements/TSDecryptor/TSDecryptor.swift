// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import MediaFormats
import ProtectionModel
import SampleDecryption

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
    @exclusivity(unchecked) private var hasWarned = false
    /// A SEGMENT event that waits for the caps, which have to come first.
    @exclusivity(unchecked) private var waitingSegment: Event?

    override func resetStream() {
        super.resetStream()
        samples = SampleAESStream()
        note = nil
        output = nil
        hasWarned = false
        forgetBytes()
    }

    override func flushStream() {
        samples.flush()
        forgetBytes()
    }

    private func forgetBytes() {
        marks = StreamMarks()
        waitingSegment = nil
    }

    // MARK: Buffers

    override func prepare(_ buffer: consuming Buffer) -> Prepared {
        if buffer.isDiscontinuous, samples.heldSize > 0 {
            // What came before is complete; after that, this buffer once more.
            switch proceed(after: { () throws(FormatError) in try samples.end() }) {
            case .failed(let failure): return .failed(failure)
            case .missingKey(_, let keyID): return .missingKey(buffer, keyID)
            case .ready(let front): return .partly(front, rest: buffer)
            case .partly(let front, _): return .partly(front, rest: buffer)
            case .nothing: samples.flush()
            }
        }
        marks.note(buffer, behind: samples.heldSize, of: samples.output)
        var failure: DecryptorFailure?
        let mapped: Void? = buffer.withBytes { bytes in
            do throws(FormatError) {
                try samples.append(bytes)
            } catch {
                failure = .malformedStream(error.description)
            }
        }
        if let failure { return .failed(failure) }
        guard mapped != nil || buffer.size == 0 else { return .failed(.notMappable) }
        return proceed {}
    }

    override func complete(before event: borrowing Event) -> Prepared {
        switch event.kind {
        case .segment, .streamStart, .caps:
            return proceed { () throws(FormatError) in try samples.end() }
        case .endOfStream:
            let last = proceed { () throws(FormatError) in try samples.end() }
            if samples.heldSize > 0, samples.output == nil {
                return .failed(.malformedStream(SampleAESStream.notRecognised.description))
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
        do throws(FormatError) {
            try change()
            while true {
                switch try samples.next() {
                case .nothing:
                    if samples.contradictsNote, !hasWarned { warnOfContradiction() }
                    return makeOutput()
                case .key(let key):
                    note = key
                    prefetch(key.keyID)
                case .unit:
                    // What was appended stays in `samples`: an empty buffer is enough to come back here.
                    switch decryptUnit() {
                    case .done: continue
                    case .missingKey(let keyID): return .missingKey(Buffer(), keyID)
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
        switch stream.keys?.cipher(for: keyID) ?? .missing {
        case .failed(let failure):
            return .failed(failure)
        case .missing:
            demandKey(keyID)
            return .missingKey(keyID)
        case .usable(let cipher):
            guard let vector = note?.initializationVector ?? stream.keys?.initializationVector else {
                return .failed(
                    .malformedSample("neither the stream nor the key brings an initialization vector", keyID))
            }
            let start = MonotonicTime.now
            var size = 0
            do throws(DecryptionError) {
                try samples.withUnit { plan, bytes throws(DecryptionError) in
                    var plan = plan
                    if !samples.hasOwnVectors { plan.initializationVector = vector }
                    size = bytes.count
                    try cipher.decrypt(plan, in: bytes)
                }
            } catch {
                return .failed(.cipher("\(error)", keyID))
            }
            countDecrypted(size, since: start)
            return .done
        }
    }

    private func warnOfContradiction() {
        hasWarned = true
        reference.postWarning(
            GST_STREAM_ERROR_DECRYPT,
            "The playlist says that the segments are encrypted, the stream that they are not.",
            debug: "The program map names clear stream types alone. They go on as they are.")
    }

    /// Asks for the key of a segment before its samples need it.
    private func prefetch(_ keyID: KeyID?) {
        guard let keyID, case .missing = stream.keys?.cipher(for: keyID) ?? .missing else { return }
        demandKey(keyID)
    }

    private func makeOutput() -> Prepared {
        let ready = samples.outputSize
        guard ready > 0, let kind = samples.output else { return .nothing }
        if kind != output { announce(kind) }
        let size = marks.sizeOfNext(upTo: ready)
        let buffer: Buffer
        do {
            buffer = try stream.output.makeBuffer(size: size)
        } catch {
            return .failed(error == .notMappable ? .secureMemory : .outOfMemory)
        }
        let mapped: Void? = buffer.withMutableBytes { samples.takeOutput(into: $0) }
        guard mapped != nil else { return .failed(.notMappable) }
        marks.apply(to: buffer)
        return size < ready ? .partly(buffer, rest: Buffer()) : .ready(buffer)
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
            return sourcePad.push(event)
        }
    }

    override func keep(_ event: consuming Event) {
        if event.kind != .caps { sourcePad.store(event) }
    }

    private func announce(_ kind: SampleAESStream.Output) {
        output = kind
        guard let caps = Self.caps(of: kind) else { return }
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
