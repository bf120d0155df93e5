// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import MediaFormats
import Synchronization

/// One stream inside the stock demuxer, until it is known to have a decryptor. Thread-safe.
///
/// The stock demuxer's parser chooses its elements by a stream's first bytes. One that began clear, where nothing said that
/// it would not stay so, has nobody to decrypt it when its samples are encrypted later, as behind ads or in another variant.
/// Then a decryptor is put in front of what the parser has chosen. So streams that stay clear cost nothing.
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
    func hasDecryptor() { state.store(.hasDecryptor, ordering: .relaxed) }

    /// Whether the buffer, which comes to the `parsebin` whose sink pad that is, goes on. Puts a decryptor in where the
    /// buffer says that what follows is encrypted. Where that is not possible, nothing passes any more, and `tell` is called
    /// once.
    func passes(_ buffer: borrowing Buffer, to pad: PadReference, tell: () -> Void) -> Bool {
        let now = state.load(ordering: .relaxed)
        guard now == .unknown || now == .clear else { return now == .hasDecryptor }
        switch buffer.withBytesOfFirstMemory(Self.front(of:)) ?? .media {
        case .media:
            return true
        case .note(let isEncrypted):
            guard isEncrypted else { return true }
            return insert(.transportStreamOrPackedAudio, pad, tell)
        case .initSegment:
            let isProtected = buffer.withBytes(Self.isProtected) ?? false
            guard isProtected else {
                state.store(.clear, ordering: .relaxed)
                return true
            }
            guard now == .clear else {
                hasDecryptor()
                return true
            }
            return insert(.isoMedia, pad, tell)
        }
    }

    private func insert(_ late: Late, _ pad: PadReference, _ tell: () -> Void) -> Bool {
        if let element = ElementReference.make(late.rawValue) {
            TSDecryptor.implementation(of: element.pointer)?.joinsClearStream()
            if pad.insertBehindTypefinder(element) {
                hasDecryptor()
                return true
            }
        }
        state.store(.isStopped, ordering: .relaxed)
        tell()
        return false
    }

    /// What stands in front of all else in a buffer.
    private enum Front {
        case note(isEncrypted: Bool)
        case initSegment
        case media
    }

    private static func front(of bytes: UnsafeRawBufferPointer) -> Front {
        let start = bytes.prefix(1024)
        if let note = SegmentKey(transportStreamPackets: start.prefix(188)) ?? SegmentKey(id3Tag: start) {
            return .note(isEncrypted: note.keyID != nil)
        }
        let type = start.dropFirst(4).prefix(4)
        return type.elementsEqual("ftyp".utf8) || type.elementsEqual("moov".utf8) ? .initSegment : .media
    }

    /// Whether a sample entry speaks of encryption. The stock demuxer gives init segments whole.
    private static func isProtected(_ bytes: UnsafeRawBufferPointer) -> Bool {
        (try? InitSegment(Array(bytes)))?.tracks.contains { !$0.encryptions.isEmpty } ?? false
    }
}
