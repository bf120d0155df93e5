// SPDX-License-Identifier: MPL-2.0

import ElementKit
import MediaFormats
import Synchronization

/// Whether somebody reads the notes of one stream inside the stock demuxer. Thread-safe.
///
/// What parses a stream is chosen by its first bytes. One that began without notes has nobody to decrypt it, should its
/// samples be encrypted later: a parser would take the changed samples for pictures.
final class NoteReader: Sendable {
    private let isThere = Atomic<Bool>(false)
    private let isStopped = Atomic<Bool>(false)

    /// The stream was given to an element that reads notes.
    func begin() { isThere.store(true, ordering: .relaxed) }

    /// Whether the buffer goes on: not from the first note on that names a key which nobody reads. `tell` is called once.
    func passes(_ buffer: borrowing Buffer, tell: () -> Void) -> Bool {
        if isThere.load(ordering: .relaxed) { return true }
        if isStopped.load(ordering: .relaxed) { return false }
        guard buffer.withBytesOfFirstMemory(Self.namesKey) == true else { return true }
        isStopped.store(true, ordering: .relaxed)
        tell()
        return false
    }

    private static func namesKey(_ bytes: UnsafeRawBufferPointer) -> Bool {
        // A note stands in front of all else.
        let start = bytes.prefix(1024)
        let note = SegmentKey(transportStreamPackets: start.prefix(188)) ?? SegmentKey(id3Tag: start)
        return note?.keyID != nil
    }
}
