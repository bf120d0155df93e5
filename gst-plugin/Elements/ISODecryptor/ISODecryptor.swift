// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyContainers
import LatchkeyProtection
import Synchronization

/// The decryptor of whole ISO media, in front of the demuxer, which then sees clear media of the same size.
///
/// Where the source can be read anywhere, the demuxer reads through this element (`ISODecryptor+Ranges`); else bytes
/// come in order, and go on in order.
final class ISODecryptor: Decryptor, @unchecked Sendable {
    // SAFETY: everything here belongs to the stream's thread, as `stream` does: in pull mode that is the demuxer's.
    @exclusivity(unchecked) var samples = ISOStream()
    @exclusivity(unchecked) var file = ISORandomAccess()
    @exclusivity(unchecked) private var marks = StreamMarks()
    /// How fragments without a `moov` are encrypted.
    @exclusivity(unchecked) private var defaults: ISOEncryption?
    /// Of the next byte from upstream.
    @exclusivity(unchecked) private var position: UInt64 = 0
    /// Offsets of buffers are those of a file.
    @exclusivity(unchecked) private var isByteStream = false
    @exclusivity(unchecked) private var hasFlushed = false
    @exclusivity(unchecked) private var hasAnnounced = false
    @exclusivity(unchecked) private var failure: DecryptorFailure?
    /// Upstream was sent to another place, to look for `moov` there: the flush and the segment that follow are not for
    /// downstream.
    private let isSeeking = Atomic(false)
    /// The element's own turn in the change to PAUSED has come. Guarded by `monitor`.
    var hasPaused = false
    // SAFETY: guarded by `monitor`.
    @exclusivity(unchecked) var intake = Intake()

    override var isStarved: Bool { monitor.withLock { intake.isAwaited } }

    /// So many bytes are enough to tell what a stream is that is not ISO media.
    static let bytesForType = 4096

    required init(_ reference: ElementReference, _ description: ElementDescription) {
        super.init(reference, description)
        sinkPad.onPullActivation { _ in true }
        sourcePad.onPullActivation { [unowned self] in self.activatePull($0) }
        sourcePad.onRange { [unowned self] in self.range($0, $1) }
        sourcePad.onEvent { [unowned self] in self.sourceEvent($0) }
        sinkPad.onEvent { [unowned self] in self.sinkEventUnlessOwn($0) }
        sinkPad.onChain { [unowned self] in self.chainIntoWindow($0) }
        sinkPad.onActivation { [unowned self] in
            self.sinkActivation($0)
            self.intakeActivation($0)
        }
    }

    override func changeState(_ change: StateChange, perform: () -> StateChangeResult) -> StateChangeResult {
        if change == .readyToPaused {
            guard startUnlessStarted() else { return .failure }
            monitor.withLock {
                hasPaused = true
                monitor.broadcast()
            }
        }
        let result = super.changeState(change, perform: perform)
        if change == .pausedToReady { monitor.withLock { hasPaused = false } }
        return result
    }

    override func resetStream() {
        super.resetStream()
        defaults = nil
        marks = StreamMarks()
        position = 0
        isByteStream = false
        hasFlushed = false
        hasAnnounced = false
        failure = nil
        isSeeking.store(false, ordering: .relaxed)
        monitor.withLock { intake = Intake(isStopped: intake.isStopped) }
        restart()
    }

    private func restart() {
        samples = ISOStream(defaults: defaults)
        file = ISORandomAccess(defaults: defaults)
    }

    override func flushStream() {
        marks = StreamMarks()
        failure = nil
        hasFlushed = true
    }

    // MARK: Buffers

    override func prepare(_ buffer: consuming Buffer) -> Prepared {
        if let failure { return .failed(failure) }
        if hasFlushed { jump(to: position) }
        let mapped: Bool? = buffer.withBytes { bytes in
            // After a gap in a stream without places, what comes is the start of a fragment or of another quality.
            if buffer.isDiscontinuous, !isByteStream, samples.heldSize > 0 || position > 0,
                ISOStream.startsBox(bytes)
            {
                jump(to: position)
            }
            marks.note(buffer, behind: samples.heldSize, of: nil)
            samples.append(bytes)
            return true
        }
        guard mapped != nil || buffer.size == 0 else { return .failed(.notMappable) }
        position &+= UInt64(buffer.size)
        return proceed()
    }

    override func complete(before event: borrowing Event) -> Prepared {
        guard event.kind == .endOfStream, failure == nil else { return .nothing }
        do throws(FormatError) {
            try samples.end()
        } catch {
            return failing(problem(error))
        }
        return proceed()
    }

    /// Decrypts what can be, and gives the output.
    private func proceed() -> Prepared {
        do throws(FormatError) {
            loop: while true {
                let step = try samples.next()
                tellProtections(samples.takeProtections())
                switch step {
                case .nothing: break loop
                case .needsMovie(let place), .goBack(let place):
                    // What is ready is in front of both places, and goes on first.
                    guard samples.outputSize == 0 else { return makeOutput(thenMore: true) }
                    guard seek(to: place) else { return failing(.malformedStream(ISOStream.mediaFirst.description)) }
                    return .nothing
                case .sample(let key):
                    if let stopped = decryptSample(key) { return stopped }
                }
            }
        } catch {
            return failing(problem(error))
        }
        return makeOutput()
    }

    /// What cannot be read, with the type of what is not ISO media at all.
    private func problem(_ error: FormatError) -> DecryptorFailure {
        guard error.isSameKind(as: .otherFormat("")) else { return .malformedStream(error.description) }
        return .otherMedia(TypeFinder.mediaType(of: samples.heldBytes(Self.bytesForType)))
    }

    /// Nil when the sample is decrypted, or what comes instead.
    private func decryptSample(_ key: ISOKeyUse) -> Prepared? {
        switch stream.keys?.cipher(for: key.keyID, of: key.media) ?? .missing {
        case .failed(let found):
            return failing(found)
        case .missing:
            demandKey(key.keyID)
            // What was appended stays in `samples`: an empty buffer is enough to come back here. What is in front of
            // the sample is not held up.
            return samples.outputSize > 0 ? makeOutput(thenMore: true) : .missingKey(Buffer(), key.keyID)
        case .usable(let cipher):
            guard let found = decrypt(with: cipher, key) else { return nil }
            return failing(found)
        }
    }

    /// What is ready goes on in front of the failure.
    private func failing(_ found: DecryptorFailure) -> Prepared {
        failure = found
        return samples.outputSize > 0 ? makeOutput(thenMore: true) : .failed(found)
    }

    private func decrypt(with cipher: SampleCipher, _ key: ISOKeyUse) -> DecryptorFailure? {
        let start = MonotonicTime.now
        var size = 0
        var isWrong = false
        do throws(DecryptionError) {
            try samples.withSample { plan, bytes throws(DecryptionError) in
                size = bytes.count
                try cipher.decrypt(plan, in: bytes)
                isWrong = stream.doubt.isConfirmed(by: bytes, plan, key)
            }
        } catch {
            return .cipher("\(error)", key.keyID)
        }
        countDecrypted(size, since: start)
        if isWrong { tellWrongKey(key.keyID) }
        return nil
    }

    func tellProtections(_ found: [ISOProtection]) {
        for protection in found {
            prefetchKeys(
                Event.Protection(
                    systemID: protection.system.uuid, data: protection.box, origin: protection.origin.rawValue),
                usedKeyIDs: protection.usedKeyIDs)
        }
    }

    private func makeOutput(thenMore: Bool = false) -> Prepared {
        let ready = samples.outputSize
        guard ready > 0 else { return .nothing }
        announceUnlessDone()
        let size = marks.sizeOfNext(upTo: ready)
        let buffer: Buffer
        do {
            buffer = try stream.output.makeBuffer(size: size)
        } catch {
            return .failed(error == .notMappable ? .secureMemory(nil) : .outOfMemory)
        }
        let offset = samples.outputOffset
        let mapped: Void? = buffer.withMutableBytes { samples.takeOutput(into: $0) }
        guard mapped != nil else { return .failed(.notMappable) }
        marks.apply(to: buffer)
        if isByteStream { buffer.setOffset(offset) }
        return size < ready || thenMore ? .partly(buffer, rest: Buffer()) : .ready(buffer)
    }

    // MARK: Events

    private func sinkEventUnlessOwn(_ event: consuming Event) -> Bool {
        if let isTaken = takeIntoWindow(event) { return isTaken }
        guard isSeeking.load(ordering: .acquiring) else { return sinkEventUnlessRead(event) }
        switch event.kind {
        case .flushStart, .flushStop:
            return true
        case .segment:
            guard let start = event.byteSegmentStart else { break }
            isSeeking.store(false, ordering: .releasing)
            jump(to: start)
            return true
        default: break
        }
        return sinkEvent(event)
    }

    /// No demuxer begins to read while an event is on its way in order.
    private func sinkEventUnlessRead(_ event: consuming Event) -> Bool {
        guard event.isSerialized else { return sinkEvent(event) }
        monitor.withLock {
            intake.isSendingEvent = true
            if event.kind == .segment { intake.hasSegment = true }
        }
        defer { monitor.withLock { intake.isSendingEvent = false } }
        return sinkEvent(event)
    }

    /// Has upstream go on at another place. Downstream does not notice.
    private func seek(to place: UInt64) -> Bool {
        guard isByteStream, sinkPad.canSeekBytes else { return false }
        isSeeking.store(true, ordering: .releasing)
        guard sinkPad.seekBytes(to: place) else {
            isSeeking.store(false, ordering: .releasing)
            return false
        }
        return true
    }

    override func pass(_ event: consuming Event) -> Bool {
        if let caps = event.caps { return pass(caps) }
        guard event.kind == .segment else { return super.pass(event) }
        announceUnlessDone()
        let start = event.byteSegmentStart
        isByteStream = start != nil
        if hasFlushed || start.map({ $0 != position }) ?? false { jump(to: start ?? position) }
        return sourcePad.push(event)
    }

    /// Players link the demuxer as soon as the caps are known, and that is the moment for it to begin to read.
    private func pass(_ caps: Caps) -> Bool {
        guard let clear = adopt(caps) else { return false }
        monitor.withLock {
            flow.hasCaps = true
            intake.isSendingEvent = false
        }
        let announcement = Event(caps: clear)
        sourcePad.store(announcement.share())
        let isWindowed = monitor.withLock {
            intake.isSendingEvent = true
            return intake.window != nil
        }
        if isWindowed { return true }
        return sourcePad.push(announcement)
    }

    private func jump(to place: UInt64) {
        hasFlushed = false
        position = place
        marks = StreamMarks()
        do throws(FormatError) {
            try samples.jump(to: place)
        } catch {
            failure = .malformedStream(error.description)
        }
    }

    /// For sources that send no caps.
    private func announceUnlessDone() {
        guard !hasAnnounced, let caps = Caps(Self.producedType) else { return }
        hasAnnounced = true
        sourcePad.push(Event(caps: caps))
    }

    override func adopt(_ caps: Caps) -> Caps? {
        hasAnnounced = true
        let found = Self.defaults(in: caps)
        if found != defaults {
            defaults = found
            restart()
        }
        return Self.clearCaps(of: caps)
    }

    // MARK: Queries

    override func sinkQuery(_ query: borrowing Query) -> Bool? {
        if let answer = answerForContainer(query, accepting: Self.acceptedCaps) { return answer }
        // The demuxer's thread has the lock that would have to be waited for.
        return query.isSerialized && isWindowed ? false : nil
    }

    override func sourceQuery(_ query: borrowing Query) -> Bool? {
        switch query.kind {
        case .caps:
            query.answer(caps: sourcePad.currentCaps ?? sourcePad.templateCaps)
            return true
        case .scheduling:
            // Places and sizes stay: what upstream can do, this can.
            let isAnswered = sinkPad.askPeer(query)
            if !query.offersPullAnywhere, windowSize != nil {
                query.offerPullAnywhere()
                return true
            }
            return isAnswered
        case .acceptCaps, .allocation, .uri, .other:
            return nil
        }
    }
}
