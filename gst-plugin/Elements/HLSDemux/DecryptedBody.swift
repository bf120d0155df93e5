// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyProtection

/// The body of a segment that is encrypted as a whole, decrypted on its way to the stock demuxer.
actor DecryptedBody {
    private let encrypted: LoopbackStream
    private var segment: OpenedSegment
    private let now: @Sendable () -> UInt64
    private let onDecrypted: @Sendable (_ bytes: UInt64, _ time: UInt64) -> Void
    private let onEnd: @Sendable (DecryptionError?) -> Void
    private var filter = ID3Filter()
    private var count: UInt64 = 0
    private var hasEnded = false
    /// What decryption took so far, in nanoseconds.
    private var time: UInt64 = 0

    /// `onEnd` hears that all was decrypted and the key is right, or why not. Before that, `onDecrypted` hears how many bytes
    /// were decrypted, and in how many nanoseconds of `now`, without the waits for them.
    init(
        _ encrypted: LoopbackStream, _ segment: consuming OpenedSegment,
        now: @escaping @Sendable () -> UInt64 = { MonotonicTime.now },
        onDecrypted: @escaping @Sendable (_ bytes: UInt64, _ time: UInt64) -> Void = { _, _ in },
        onEnd: @escaping @Sendable (DecryptionError?) -> Void
    ) {
        (self.now, self.onDecrypted) = (now, onDecrypted)
        self.encrypted = encrypted
        self.segment = segment
        self.onEnd = onEnd
    }

    /// The next piece; nil after the last one.
    func next() async throws(LoopbackStream.Broken) -> [UInt8]? {
        while !hasEnded {
            // The stream is not to be asked again when all of it came.
            let piece = count == encrypted.length ? nil : try await encrypted.next()
            let clear: [UInt8]
            do throws(DecryptionError) {
                clear = try decrypt(piece)
            } catch {
                onEnd(error)
                throw LoopbackStream.Broken()
            }
            if !clear.isEmpty { return clear }
        }
        return nil
    }

    /// What goes on, now that this piece has come, or the end.
    private func decrypt(_ piece: [UInt8]?) throws(DecryptionError) -> [UInt8] {
        let start = now()
        if let piece {
            count += UInt64(piece.count)
            defer { time &+= now() &- start }
            return filter.filter(try segment.decrypt(piece))
        }
        hasEnded = true
        let clear = filter.filter(try segment.finish()) + filter.end()
        onDecrypted(count, time &+ now() &- start)
        onEnd(nil)
        return clear
    }
}
