// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyContainers
import Synchronization

/// One stream inside the stock demuxer, until it is known to have a decryptor. Thread-safe.
///
/// The stock demuxer's parser chooses its elements by a stream's first bytes. One that began clear, where nothing said that
/// it would not stay so, has nobody to decrypt it when its samples are encrypted later, as behind ads or in another variant.
/// Then a decryptor is put in front of what the parser has chosen. Streams that stay clear cost a look at a few bytes of each
/// buffer.
final class ClearStart: Sendable {
    /// What decrypts a stream in front of its demuxer or parser.
    private enum Late: String {
        case transportStreamOrPackedAudio = "latchkeytsdec"
        case isoMedia = "latchkeyisodec"
    }

    private enum State: Int, AtomicRepresentable {
        /// Nothing came yet.
        case unknown
        case clear
        case hasDecryptor
        /// There is no decryptor, and there should be one.
        case isStopped
    }

    private let state = Atomic(State.unknown)

    /// The parser was told to choose a decryptor.
    func willHaveDecryptor() { state.store(.hasDecryptor, ordering: .relaxed) }

    /// Whether the buffer, which comes to the `parsebin` whose sink pad that is, goes on. Puts a decryptor in where the
    /// buffer says that what follows is encrypted. Where that is not possible, nothing passes any more, and `tell` is called
    /// once with the name of the decryptor.
    func passes(_ buffer: borrowing Buffer, to pad: PadReference, tell: (String) -> Void) -> Bool {
        let now = state.load(ordering: .relaxed)
        guard now == .unknown || now == .clear else { return now == .hasDecryptor }
        switch buffer.withBytesOfFirstMemory(Self.front(of:)) ?? .media {
        case .media:
            return true
        case .note(let isEncrypted):
            guard isEncrypted else { return true }
            return insert(.transportStreamOrPackedAudio, pad, tell)
        case .initSegment:
            // The stock demuxer may join the first segment to it, which is not to be copied for this.
            let isProtected =
                (buffer.withBytesOfFirstMemory(Self.isProtected) ?? nil)
                ?? buffer.withBytes { Self.isProtected($0) ?? Self.namesEncryption($0) } ?? false
            guard isProtected else {
                state.store(.clear, ordering: .relaxed)
                return true
            }
            guard now == .clear else {
                willHaveDecryptor()
                return true
            }
            return insert(.isoMedia, pad, tell)
        }
    }

    private func insert(_ late: Late, _ pad: PadReference, _ tell: (String) -> Void) -> Bool {
        if let element = ElementReference.make(late.rawValue) {
            TSDecryptor.implementation(of: element.pointer)?.joinsClearStream()
            if pad.insertBehindTypefinder(element) {
                willHaveDecryptor()
                return true
            }
        }
        state.store(.isStopped, ordering: .relaxed)
        tell(late.rawValue)
        return false
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
        let word = bytes.loadUnaligned(as: UInt32.self).bigEndian
        let type = bytes.loadUnaligned(fromByteOffset: 4, as: UInt32.self).bigEndian
        if type == ftyp || type == moov { return .initSegment }
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

    private static let ftyp: UInt32 = 0x6674_7970
    private static let moov: UInt32 = 0x6D6F_6F76
    private static let id3: UInt32 = 0x49_4433

    /// Whether a sample entry speaks of encryption. Nil where the bytes do not begin with a whole init segment. What stands
    /// behind it is not looked at: somewhere in media, the name of a sample entry comes by chance.
    static func isProtected(_ bytes: UnsafeRawBufferPointer) -> Bool? {
        var end = 0
        while end <= bytes.count - 8 {
            let size = Int(bytes.loadUnaligned(fromByteOffset: end, as: UInt32.self).bigEndian)
            let type = bytes.loadUnaligned(fromByteOffset: end + 4, as: UInt32.self).bigEndian
            guard size >= 8, size <= bytes.count - end else { return nil }
            end += size
            guard type == moov else { continue }
            let start = UnsafeRawBufferPointer(rebasing: bytes[..<end])
            guard let segment = try? InitSegment(Array(start)) else { return namesEncryption(start) }
            return segment.tracks.contains { !$0.encryptions.isEmpty }
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
