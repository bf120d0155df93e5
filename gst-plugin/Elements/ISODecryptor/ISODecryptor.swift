// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization

/// The decryptor of whole ISO media, in front of the demuxer, which then sees clear media of the same size.
final class ISODecryptor: WholeFile, @unchecked Sendable {
    // SAFETY: everything here belongs to the stream's thread, as `stream` does: in pull mode that is the demuxer's.
    @exclusivity(unchecked) var samples = ISOStream()
    @exclusivity(unchecked) var file = ISORandomAccess()
    @exclusivity(unchecked) private var marks = StreamMarks()
    /// How fragments without a `moov` are encrypted.
    @exclusivity(unchecked) private var defaults: ISOEncryption?
    /// Of the next byte from upstream.
    @exclusivity(unchecked) private var position: UInt64 = 0
    /// What the buffer with this byte would have as its offset, if buffers have offsets.
    @exclusivity(unchecked) private var offsetOfNext: UInt64?
    /// Offsets of buffers are those of a file.
    @exclusivity(unchecked) private var isByteStream = false
    @exclusivity(unchecked) private var hasFlushed = false
    @exclusivity(unchecked) private var hasAnnounced = false
    @exclusivity(unchecked) private var failure: DecryptorFailure?
    /// Upstream was sent to another place, to look for `moov` there: the flush and the segment that follow are not for
    /// downstream.
    private let isSeeking = Atomic(false)

    /// So many bytes are enough to tell what a stream is that is not ISO media.
    private static let bytesForType = 4096
    /// The largest range that is read for the demuxer, in bytes.
    private static let largestRange = 256 << 20

    override func resetStream() {
        super.resetStream()
        defaults = nil
        marks = StreamMarks()
        position = 0
        offsetOfNext = nil
        isByteStream = false
        hasFlushed = false
        hasAnnounced = false
        failure = nil
        isSeeking.store(false, ordering: .relaxed)
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
        samples.isOfSegments = !isByteStream
        let mapped: Bool? = buffer.withBytes { bytes in
            var isBehindGap = false
            if buffer.isDiscontinuous, !isByteStream, samples.heldSize > 0 || position > 0 {
                // After a gap in a stream without places, what comes is the start of a fragment or of another quality,
                // or a key frame of the fragment that began last.
                if ISOStream.startsBox(bytes) {
                    jump(to: position)
                } else if let place = place(of: buffer) {
                    skip(to: place)
                }
            } else if !isByteStream, samples.isCutShort(by: bytes) {
                // The demuxer behind would take what comes for the rest.
                jump(to: position)
                isBehindGap = true
            }
            marks.note(buffer, behind: samples.heldSize, of: nil, isBehindGap: isBehindGap)
            samples.append(bytes)
            return true
        }
        guard mapped != nil || buffer.size == 0 else { return .failed(.notMappable) }
        if let failure { return .failed(failure) }
        position &+= UInt64(buffer.size)
        offsetOfNext = buffer.offset.map { $0 &+ UInt64(buffer.size) }
        return proceed()
    }

    /// Where a buffer stands that does not follow the one before it; nil where it follows or does not say.
    private func place(of buffer: borrowing Buffer) -> UInt64? {
        guard let offset = buffer.offset, offset > 0, let offsetOfNext, offset != offsetOfNext else { return nil }
        return position &+ (offset &- offsetOfNext)
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
                case .needsMovie(let place):
                    // What is ready is in front of the place, and goes on first.
                    guard samples.outputSize == 0 else { return makeOutput(thenMore: true) }
                    if seek(to: place) { return .nothing }
                    try samples.holdMedia()
                case .goBack(let place):
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
        return .otherMedia(Self.type(of: samples.heldBytes(Self.bytesForType)))
    }

    /// What people know the type by.
    private static func type(of start: [UInt8]) -> String? {
        let type = TypeFinder.mediaType(of: start)
        return type == WebMRelay.pluggedType ? WebMRelay.producedType : type
    }

    /// With the KID to ask for.
    private func named(_ key: ISOKeyUse) -> ISOKeyUse {
        guard let keyID = key.keyID, let trackKeyID = key.trackKeyID, let session = stream.keys?.sources.session else {
            return key
        }
        var named = key
        named.keyID = session.keyID(ofGroup: keyID, inTrackOf: trackKeyID)
        return named
    }

    /// Nil when the sample is decrypted, or what comes instead.
    private func decryptSample(_ key: ISOKeyUse) -> Prepared? {
        let key = named(key)
        switch stream.keys?.cipher(for: key.keyID, of: key.media) ?? .missing {
        case .failed(let found):
            return failing(found)
        case .missing:
            demandKey(key.keyID, for: key.media)
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
        let place = isByteStream ? samples.sampleOffset : nil
        do throws(DecryptionError) {
            try samples.withSample { plan, bytes throws(DecryptionError) in
                size = bytes.count
                try cipher.decrypt(plan, in: bytes)
                isWrong = isWrongKey(bytes, at: place, plan, key)
            }
        } catch {
            return .cipher("\(error)", key.keyID)
        }
        countDecrypted(size, key.keyID, since: start)
        if isWrong { tellWrongKey(key.keyID) }
        return nil
    }

    /// Looks at a decrypted sample, if it may tell of a wrong key. `place`: in the file, which may be read several times.
    private func isWrongKey(
        _ sample: UnsafeMutableRawBufferPointer, at place: UInt64?, _ plan: SamplePlan, _ key: ISOKeyUse
    ) -> Bool {
        guard let codec = key.codec else { return false }
        return stream.doubt.isConfirmed(by: UnsafeRawBufferPointer(sample), at: place, plan, key.keyID, codec)
    }

    private func tellProtections(_ found: [ISOProtection]) {
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

    override func sinkEventUnlessRead(_ event: consuming Event) -> Bool {
        guard isSeeking.load(ordering: .acquiring) else { return super.sinkEventUnlessRead(event) }
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

    /// Has upstream go on at another place. Downstream does not notice.
    private func seek(to place: UInt64) -> Bool {
        guard isByteStream, sinkPad.canSeekBytes, sinkPad.serverTakesRanges ?? true else { return false }
        isSeeking.store(true, ordering: .releasing)
        guard sinkPad.seekBytes(to: place) else {
            isSeeking.store(false, ordering: .releasing)
            return false
        }
        return true
    }

    override func pass(_ event: consuming Event) -> Bool {
        guard event.kind == .segment else { return super.pass(event) }
        announceUnlessDone()
        let start = event.byteSegmentStart
        isByteStream = start != nil
        if hasFlushed || start.map({ $0 != position }) ?? false { jump(to: start ?? position) }
        return sourcePad.push(event)
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

    /// Goes on in the same fragment.
    private func skip(to place: UInt64) {
        do throws(FormatError) {
            guard try samples.skip(to: place) else { return }
            position = place
            marks = StreamMarks()
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
        answerForContainer(query, accepting: Self.acceptedCaps) ?? super.sinkQuery(query)
    }

    // MARK: Pull mode

    override func read(_ range: Range<UInt64>) -> PulledRange {
        if let failed = prepare(range) {
            if failed == .endOfStream { stream.doubt.end().forEach { tellWrongKey($0) } }
            return .failed(failed)
        }
        if let failed = waitForKeys() { return .failed(failed) }
        let extent = file.extent
        guard extent.count <= Self.largestRange else {
            return fail(.malformedStream("a range of \(extent.count) bytes is read at once"))
        }
        switch encryptedBytes(extent.lowerBound, extent.count) {
        case .failed(let flow): return .failed(flow)
        case .buffer(let buffer):
            guard file.changesExtent else { return .buffer(buffer) }
            return decrypted(buffer, asked: range.lowerBound, range.count)
        }
    }

    // MARK: Caps

    /// Whether the media may turn out to be clear.
    override class func maybeClear(_ caps: Caps) -> Bool { caps.string(Field.protection) != nil }

    override class func clearCaps(of caps: Caps) -> Caps {
        caps.map { structure in
            if structure.mediaType == pluggedType { structure.mediaType = producedType }
            for field in [Field.keyID, Field.scheme, Field.vectorSize, Field.protection] { structure.remove(field) }
            return true
        }
    }
}

extension ISODecryptor {
    /// What the typefinder says of protected files, and a player's caps are renamed to.
    static let pluggedType = "application/x-latchkey-iso"
    static let producedType = "video/quicktime"
    /// What the typefinder says of files whose media comes first, and with it whether they are protected comes last.
    static let mediaFirstType = "\(pluggedType), \(Field.protection)=(string)unknown"

    /// What the sink pad takes from the pad that is linked to it.
    static let acceptedCaps =
        Caps.permanent("\(pluggedType); \(producedType); audio/x-m4a; video/mj2; application/x-3gp") ?? .any

    /// Fields of `application/x-latchkey-iso` for fragments without a `moov`, as those of Smooth Streaming:
    /// `default-kid=(string)` 32 hexadecimal digits, `cipher-mode=(string)` `cenc` or `cbc1`, `iv-size=(string)` 8 or 16.
    private enum Field {
        static let keyID = "default-kid"
        static let scheme = "cipher-mode"
        static let vectorSize = "iv-size"
        static let protection = "protection"
    }

    private static let fragmentTypes: Set<String> = [
        producedType, "audio/x-m4a", "video/mp4", "audio/mp4", "application/mp4", "video/x-m4v",
    ]

    /// What typefinders call ISO media of other brands.
    private static let otherBrands: Set<String> = ["video/mj2", "application/x-3gp"]

    /// Whether the caps are those of ISO media.
    static func isISOMedia(_ caps: Caps) -> Bool {
        caps.mediaType().map { fragmentTypes.contains($0) || otherBrands.contains($0) } ?? false
    }

    /// The caps of ISO media with the type that makes players plug this element; nil for other media. `defaults` are
    /// for fragments without a `moov`.
    static func plugged(_ caps: Caps, defaults: ISOEncryption? = nil) -> Caps? {
        guard caps.count == 1, let type = caps.mediaType(), fragmentTypes.contains(type) else { return nil }
        return caps.map { structure in
            structure.mediaType = pluggedType
            guard let defaults else { return true }
            if let keyID = defaults.keyID { structure.set(Field.keyID, keyID.description) }
            structure.set(Field.scheme, defaults.scheme.rawValue)
            structure.set(Field.vectorSize, String(defaults.initializationVectorSize))
            return true
        }
    }

    /// How fragments without a `moov` are encrypted; nil where the caps say nothing of such fragments.
    static func defaults(in caps: Caps) -> ISOEncryption? {
        let keyID = caps.string(Field.keyID).flatMap { KeyID(hex: $0) }
        guard keyID != nil || caps.string("variant") == "mss-fragmented" else { return nil }
        let scheme = caps.string(Field.scheme).flatMap { ProtectionScheme(rawValue: $0) } ?? .cenc
        let size = caps.string(Field.vectorSize) == "16" ? 16 : 8
        let inside = caps.mediaType(inside: "media-caps")
        var encryption = ISOEncryption(
            scheme: scheme, initializationVectorSize: size, keyID: keyID,
            media: inside?.hasPrefix("audio/") == true ? .audio : .video)
        encryption.codec = inside.flatMap { SampleCodec(mediaType: $0) }
        return encryption
    }
}

/// Where encrypted ISO media is decrypted in a presentation.
enum ISOPath: String, Sendable {
    /// In front of the demuxer: all that boxes say of samples counts.
    case box
    /// Behind the demuxer: samples can go into secure memory.
    case sample

    /// `wanted`, or if that is nil, what suits the process.
    init(wanted: ISOPath?, hasSecureDecryptor: Bool) { self = wanted ?? (hasSecureDecryptor ? .sample : .box) }
}

/// Pull mode: the demuxer's own thread waits for keys here, and a flush or a stop ends the wait, as in push mode.
extension ISODecryptor {
    /// Nil, or why not.
    private func prepare(_ range: Range<UInt64>) -> FlowResult? {
        var failed: FlowResult?
        do throws(FormatError) {
            try file.prepare(range) { offset, count in
                switch encryptedBytes(offset, count) {
                case .buffer(let buffer): return buffer.copyBytes()
                case .failed(.endOfStream): return []
                case .failed(let flow):
                    failed = flow
                    return nil
                }
            }
        } catch {
            // What could not be read is upstream's to report.
            if let failed { return failed }
            guard error.isSameKind(as: .otherFormat("")) else {
                return report(.malformedStream(error.description))
            }
            var start: [UInt8] = []
            if case .buffer(let buffer) = encryptedBytes(0, Self.bytesForType) { start = buffer.copyBytes() }
            return report(.otherMedia(Self.type(of: start)))
        }
        tellProtections(file.takeProtections())
        if file.isProtected { fetchFromHere() }
        return failed
    }

    /// Nil when all keys of the extent are there, or why not.
    private func waitForKeys() -> FlowResult? {
        for key in file.keys {
            let keyID = named(key).keyID
            var wait: KeyWait?
            looking: while true {
                switch stream.keys?.cipher(for: keyID, of: key.media) ?? .missing {
                case .usable: break looking
                case .failed(let failure): return report(failure)
                case .missing: break
                }
                demandKey(keyID, for: key.media)
                if let flow = waitUntilPaused() { return flow }
                var current = wait ?? KeyWait(keyID: keyID, startedAt: MonotonicTime.now)
                switch waitForKeyEvent(&current) {
                case .flushing: return .flushing
                case .failed(let failure): return report(failure)
                case nil: wait = current
                }
            }
        }
        return nil
    }

    /// The demuxer may read before this element's state changes, when it still looks as if it were being stopped.
    private func waitUntilPaused() -> FlowResult? {
        monitor.lock()
        defer { monitor.unlock() }
        while !hasPaused {
            if flow.isFlushing { return .flushing }
            monitor.wait(microseconds: 50_000)
        }
        return flow.isFlushing ? .flushing : nil
    }

    private func decrypted(_ buffer: consuming Buffer, asked offset: UInt64, _ size: Int) -> PulledRange {
        let output: Buffer
        if buffer.isMemoryWritable {
            output = buffer
        } else {
            do {
                output = try stream.output.makeBuffer(size: buffer.size)
            } catch {
                return fail(error == .notMappable ? .secureMemory(nil) : .outOfMemory)
            }
            let copied: Void? = output.withMutableBytes(from: buffer) { $1.copyMemory(from: $0) }
            guard copied != nil else { return fail(.notMappable) }
            output.copyMetadata(from: buffer)
        }
        var outcome = Result<Int, DecryptorFailure>.failure(.notMappable)
        var wrongKeys: [KeyID?] = []
        _ = output.withMutableBytes { bytes in
            outcome = decrypt(bytes, &wrongKeys)
        }
        for keyID in wrongKeys { tellWrongKey(keyID) }
        switch outcome {
        case .failure(let failure): return fail(failure)
        case .success(let usable):
            let front = Int(offset - file.extent.lowerBound)
            let count = min(size, max(0, usable - front))
            guard count > 0 else { return .failed(.endOfStream) }
            output.keep(count, from: front)
            output.setOffset(offset)
            return .buffer(output)
        }
    }

    private func decrypt(
        _ bytes: UnsafeMutableRawBufferPointer, _ wrongKeys: inout [KeyID?]
    ) -> Result<Int, DecryptorFailure> {
        let begin = file.extent.lowerBound
        do throws(DecryptorFailure) {
            let result = try file.decrypt(bytes) { plan, key, sample throws(DecryptorFailure) in
                let key = named(key)
                let cipher: SampleCipher
                switch stream.keys?.cipher(for: key.keyID, of: key.media, hasBegun: true) ?? .missing {
                case .usable(let usable): cipher = usable
                case .failed(let failure): throw failure
                // Withdrawn since it was looked at.
                case .missing: throw .key(key.keyID, .cancelled("the key was withdrawn"))
                }
                let start = MonotonicTime.now
                do throws(DecryptionError) {
                    try cipher.decrypt(plan, in: sample)
                } catch {
                    throw .cipher("\(error)", key.keyID)
                }
                countDecrypted(sample.count, key.keyID, since: start)
                // The sample is a part of these bytes.
                let place = bytes.baseAddress.flatMap { base in
                    sample.baseAddress.map { begin &+ UInt64(clamping: base.distance(to: $0)) }
                }
                if isWrongKey(sample, at: place, plan, key) { wrongKeys.append(key.keyID) }
            }
            return result.mapError { .malformedStream($0.description) }
        } catch {
            return .failure(error)
        }
    }
}
