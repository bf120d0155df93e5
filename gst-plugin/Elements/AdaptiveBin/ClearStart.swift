// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyContainers

/// One stream inside the stock demuxer, until it is known to have a decryptor. Belongs to the thread that brings the stream.
///
/// The stock demuxer's parser chooses its elements by the first caps, where `AdaptiveBin.renamed` may have it choose a
/// decryptor. A stream that began clear, if nothing said that it would not stay so, has no decryptor when its
/// samples are encrypted later, as behind ads or in another variant. Then a decryptor is put in front of what the parser has
/// chosen.
///
/// The stock demuxers send a SEGMENT event in front of each init segment, and of each note. So the buffer behind such an event
/// is looked at, and no other: media that stays clear costs nothing. Behind an init segment that is clear, the first fragment
/// is looked at, too. Its boxes may say that it is encrypted, and then nothing can decrypt it, also where a manifest has brought
/// a decryptor: that needs what the init segment says, or PIFF's box in its place. The same holds if only one track is clear.
/// A decryptor behind the demuxer takes samples for clear of which nothing is said. So for that one, the first fragment is looked
/// at behind each init segment that says that they are encrypted, and all further ones if each sample needs an IV or subsamples.
final class ClearStart {
    /// What decrypts a stream in front of its demuxer or parser.
    private enum Late: String {
        case transportStreamOrPackedAudio = "latchkeytsdec"
        case isoMedia = "latchkeyisodec"
    }

    private enum State {
        /// No init segment came yet.
        case unknown
        case clear
        case hasDecryptor
        /// There is no decryptor, and there should be one.
        case isStopped
    }

    private let bin: WeakElement
    private let sink: WeakPad
    private var state = State.unknown
    /// The parser has found a decryptor that stands behind its demuxer.
    private var isBehindDemuxer = false
    private var isISOMedia = false
    private var hasCaps = false
    private var isRenamed = false
    private var isLooking = false
    /// An init segment with a clear track came, and no whole `moof` box behind it.
    private var awaitsFragment = false
    /// Of the last init segment.
    private var tracks: [InitSegment.Track] = []
    /// What came of the segment, if that is less than its `moof` box.
    private var held: [UInt8] = []
    /// Goes from fragment to fragment in front of a decryptor that stands behind its demuxer.
    private var walk: FragmentWalk?

    /// In bytes. More is not waited for.
    private static let heldLimit = 256 << 10

    private init(_ sink: PadReference, _ bin: AdaptiveBin) {
        self.bin = WeakElement(bin.reference)
        self.sink = WeakPad(sink)
    }

    /// Watches the stream that comes to the `parsebin` inside `bin` whose sink pad that is.
    static func watch(_ sink: PadReference, inside bin: AdaptiveBin) {
        let start = ClearStart(sink, bin)
        sink.probeEvents(.downstream) { event in start.pass(event) }
    }

    /// Nil where the bin is gone.
    private func ask<Result>(_ body: (AdaptiveBin) -> Result) -> Result? {
        bin.map { element -> Result? in (element as? AdaptiveBin).map(body) } ?? nil
    }

    /// What goes on in the place of an event.
    private func pass(_ event: consuming Event) -> Event? {
        if let caps = event.caps {
            guard let others = capsForParser(caps) else { return event }
            return Event(caps: others)
        }
        if event.kind == .segment { look() }
        return event
    }

    /// What the parser gets in the place of caps; nil: them.
    private func capsForParser(_ caps: Caps) -> Caps? {
        isISOMedia = ISODecryptor.isISOMedia(caps)
        // The parser chooses once.
        guard !hasCaps || isRenamed else { return nil }
        hasCaps = true
        guard let renamed = ask({ $0.renamed(caps) }).flatMap({ $0 }) else { return nil }
        isRenamed = true
        state = .hasDecryptor
        return renamed
    }

    // MARK: Looks

    private var readsInitSegments: Bool { isISOMedia && ask { $0.encryptedInitSegments != .leftToParser } == true }
    private var mayHaveNotes: Bool { !isISOMedia && ask { $0.hasNotes } == true }

    /// The first bytes of a transport stream may say that it is encrypted, where nothing else does.
    private var mayHaveProgramMap: Bool { !isISOMedia && state == .unknown }

    /// A decryptor is there, and init segments that come may say nothing of encryption.
    private var hasISODecryptor: Bool { state == .hasDecryptor && readsInitSegments }

    /// Looks at what comes behind a SEGMENT event.
    private func look() {
        held = []
        if walk != nil { walk = FragmentWalk() }
        guard !isLooking, hasISODecryptor || state == .unknown || state == .clear,
            readsInitSegments || mayHaveNotes || mayHaveProgramMap
        else { return }
        isLooking = true
        // The pad keeps this object until the looks end, and not the other way round.
        sink.pad?.lookAtBuffers { buffer in
            let next = self.look(at: buffer)
            if next == .enough {
                self.isLooking = false
                if self.state == .unknown { self.state = .clear }
            }
            return next
        }
    }

    /// Puts a decryptor in where the buffer says that what follows is encrypted. Where that is not possible, nothing passes any
    /// more.
    private func look(at buffer: borrowing Buffer) -> BufferLook {
        if state == .isStopped { return .drop }
        // Caps may come behind the SEGMENT event.
        if state == .hasDecryptor, !hasISODecryptor { return .enough }
        switch buffer.withBytesOfFirstMemory(Self.front(of:)) ?? .media {
        case .media where walk != nil, .note where walk != nil: return walkOn(buffer)
        case .media where awaitsFragment, .note where awaitsFragment: return lookForFragment(buffer)
        case .media:
            // Segments in envelopes have notes that no SEGMENT event tells of.
            if mayHaveNotes { return .more }
            guard mayHaveProgramMap, buffer.withBytesOfFirstMemory(SampleAESStream.isAnnounced) == true else {
                return .enough
            }
            return refuse(because: .lacksKeyLine(ask { $0.lastSegment }.flatMap { $0 }))
        case .note(let isEncrypted):
            return isEncrypted ? insert(.transportStreamOrPackedAudio) : .more
        case .initSegment:
            guard readsInitSegments else { return .enough }
            walk = nil
            // The stock demuxer may join the first segment to it, which is not to be copied for this.
            var verdict = buffer.withBytesOfFirstMemory(Self.isProtected).flatMap { $0 }
            tracks = buffer.withBytesOfFirstMemory(Self.readTracks) ?? []
            if verdict == nil {
                verdict = buffer.withBytes(Self.isProtected).flatMap { $0 }
                tracks = buffer.withBytes(Self.readTracks) ?? []
            }
            if verdict == nil, buffer.withBytes(Self.namesEncryption) == true { verdict = true }
            // It may come in pieces.
            guard let isProtected = verdict else { return .more }
            awaitsFragment = false
            guard !isProtected else {
                let next = hasISODecryptor ? BufferLook.enough : encryptedInitSegmentDidCome()
                guard next == .enough else { return next }
                guard !isBehindDemuxer else {
                    walk = FragmentWalk()
                    return walkOn(buffer)
                }
                guard tracks.contains(where: \.isClear) else { return next }
                held = []
                return lookForFragment(buffer)
            }
            // The parser chooses by this init segment. Another one may come before a fragment does.
            if state == .unknown { state = .clear }
            held = []
            // The parser finds a decryptor by the names of encrypted sample entries alone.
            guard buffer.withBytesOfFirstMemory(Self.namesEncryption) == false else { return .enough }
            return lookForFragment(buffer)
        }
    }

    /// Of the buffer, nothing is copied that does not belong to a box that goes on in the next one.
    private func lookForFragment(_ buffer: borrowing Buffer) -> BufferLook {
        awaitsFragment = false
        guard let part = buffer.part(from: 0) else { return .enough }
        part.keep(min(part.size, Self.heldLimit), from: 0)
        let found = part.withBytes { bytes -> FragmentSign in
            if !held.isEmpty { held += bytes }
            let sign = held.isEmpty ? fragmentSign(in: bytes) : held.withUnsafeBytes { fragmentSign(in: $0) }
            if case .unknown(let rest) = sign { held = held.isEmpty ? Array(bytes.suffix(rest)) : held.suffix(rest) }
            return sign
        }
        let sign = found ?? FragmentSign.none
        if case .unknown = sign, buffer.size <= Self.heldLimit, held.count <= Self.heldLimit {
            awaitsFragment = true
            return .more
        }
        held = []
        return refusal(for: sign) ?? .enough
    }

    /// Looks at what is there of the next fragments. Nothing else is copied.
    private func walkOn(_ buffer: borrowing Buffer) -> BufferLook {
        while let range = walk?.wanted(inPieceOf: buffer.size) {
            guard let part = buffer.part(from: range.lowerBound) else {
                walk = nil
                return .enough
            }
            part.keep(range.count, from: 0)
            guard let fragment = walk?.take(part.copyBytes()) else { continue }
            let sign = fragment.withUnsafeBytes { fragmentSign(in: $0) }
            if let stop = refusal(for: sign) { return stop }
            guard needsEachFragment else {
                walk = nil
                return .enough
            }
        }
        guard walk?.isLost == false else {
            walk = nil
            return .enough
        }
        return .more
    }

    private func refusal(for sign: FragmentSign) -> BufferLook? {
        let segment = ask { $0.lastSegment }.flatMap { $0 }
        switch sign {
        case .encrypted(let box, let track): return refuse(because: .undeclared(box, track, segment))
        case .silent(let track): return refuse(because: .silent(track, segment))
        case .unmapped(let track): return refuse(because: .unmapped(track, segment))
        case .unread(let box, let track): return refuse(because: .unread(box, track, segment))
        case .none, .unknown: return nil
        }
    }

    private static let needsMaps = SampleProtection.marksClearLeadAsEncrypted()

    private var needsEachFragment: Bool {
        tracks.contains { $0.needsVectors || $0.isOfPicturesWithConstantVector }
    }

    private func fragmentSign(in segment: UnsafeRawBufferPointer) -> FragmentSign {
        ISORecognition.sign(
            inSegment: segment, of: tracks, hasDecryptor: state == .hasDecryptor, findsSilence: isBehindDemuxer,
            needsMaps: isBehindDemuxer && Self.needsMaps)
    }

    private func encryptedInitSegmentDidCome() -> BufferLook {
        _ = ask { $0.encryptionDidAppear() }
        if state == .unknown, ask({ $0.encryptedInitSegments }) != .decryptedInFront {
            state = .hasDecryptor
            isBehindDemuxer = true
            return .enough
        }
        return insert(.isoMedia)
    }

    private func insert(_ late: Late) -> BufferLook {
        if let pad = sink.pad, let element = ElementReference.make(late.rawValue) {
            TSDecryptor.implementation(of: element.pointer)?.joinsClearStream()
            if pad.insertBehindTypefinder(element) {
                state = .hasDecryptor
                return .enough
            }
        }
        // The parser finds a decryptor for a first init segment itself.
        if late == .isoMedia, state == .unknown {
            state = .hasDecryptor
            return .enough
        }
        return refuse(because: .noDecryptor(late.rawValue))
    }

    private func refuse(because failure: PresentationFailure) -> BufferLook {
        state = .isStopped
        _ = ask { $0.streamIsRefused(failure) }
        return .drop
    }

    /// What stands in front of all else in a buffer.
    private enum Front {
        case note(isEncrypted: Bool)
        case initSegment
        case media
    }

    /// Media is told by its first bytes, of which nothing is copied.
    private static func front(of bytes: UnsafeRawBufferPointer) -> Front {
        guard bytes.count >= 8 else { return .media }
        if beginsInitSegment(bytes) { return .initSegment }
        let word = bytes.loadUnaligned(as: UInt32.self).bigEndian
        let note: SegmentKey? =
            if word >> 24 == 0x47, Int(word >> 8 & 0x1FFF) == SegmentKey.pid {
                SegmentKey(transportStreamPackets: bytes.prefix(SegmentKey.packetSize))
            } else if word >> 8 == id3 {
                SegmentKey(id3Tag: bytes.prefix(1024))
            } else {
                nil
            }
        return note.map { .note(isEncrypted: $0.keyID != nil) } ?? .media
    }

    /// A few boxes that say nothing of the media may stand in front of an init segment.
    static func beginsInitSegment(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var place = 0
        for _ in 0..<8 {
            guard bytes.count - place >= 8 else { return false }
            let size = Int(bytes.loadUnaligned(fromByteOffset: place, as: UInt32.self).bigEndian)
            let type = bytes.loadUnaligned(fromByteOffset: place + 4, as: UInt32.self).bigEndian
            if type == ftyp || type == moov { return true }
            guard passed.contains(type), size >= 8, size <= bytes.count - place else { return false }
            place += size
        }
        return false
    }

    /// `free`, `skip`, `styp`, `uuid`
    private static let passed: Set<UInt32> = [0x6672_6565, 0x736B_6970, 0x7374_7970, 0x7575_6964]
    private static let ftyp: UInt32 = 0x6674_7970
    private static let moov: UInt32 = 0x6D6F_6F76
    private static let id3: UInt32 = 0x49_4433

    /// Whether a sample entry speaks of encryption. Nil where the bytes do not begin with a whole init segment. What stands
    /// behind it is not looked at: somewhere in media, the name of a sample entry comes by chance.
    static func isProtected(_ bytes: UnsafeRawBufferPointer) -> Bool? {
        guard let start = initSegment(bytes) else { return nil }
        guard let segment = try? InitSegment(Array(start)) else { return namesEncryption(start) }
        return segment.tracks.contains { !$0.encryptions.isEmpty }
    }

    /// None where the bytes do not begin with a whole init segment that can be read.
    private static func readTracks(_ bytes: UnsafeRawBufferPointer) -> [InitSegment.Track] {
        initSegment(bytes).flatMap { try? InitSegment(Array($0)) }?.tracks ?? []
    }

    private static func initSegment(_ bytes: UnsafeRawBufferPointer) -> UnsafeRawBufferPointer? {
        var end = 0
        while end <= bytes.count - 8 {
            let size = Int(bytes.loadUnaligned(fromByteOffset: end, as: UInt32.self).bigEndian)
            let type = bytes.loadUnaligned(fromByteOffset: end + 4, as: UInt32.self).bigEndian
            guard size >= 8, size <= bytes.count - end else { return nil }
            end += size
            guard type == moov else { continue }
            return UnsafeRawBufferPointer(rebasing: bytes[..<end])
        }
        return nil
    }

    /// Whether the name of an encrypted sample entry is in what cannot be read: the decryptor says then what is wrong with it.
    /// Others are left to the stock elements, which may read more than this.
    static func namesEncryption(_ bytes: UnsafeRawBufferPointer) -> Bool {
        let count = min(bytes.count, InitSegment.maximumSize)
        guard count >= 4 else { return false }
        return (0...count - 4).contains { place in
            let name = bytes.loadUnaligned(fromByteOffset: place, as: UInt32.self).bigEndian
            return name == encv || name == enca
        }
    }

    private static let encv: UInt32 = 0x656E_6376
    private static let enca: UInt32 = 0x656E_6361
}
