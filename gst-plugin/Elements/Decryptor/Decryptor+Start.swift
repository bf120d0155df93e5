// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyProtection

/// Ends playback that cannot begin, or go on after a pause, because of a wrong key. If a decoder makes nothing of one track,
/// the player waits for it, and the queues of the others hold up the demuxer.
extension Decryptor {
    /// To be called if a wrong key was told. Inside an adaptive demuxer, the bin around that one looks.
    func watchStart(of keyID: KeyID?) {
        guard !reference.isInsideAdaptiveDemuxer else { return }
        let weak = WeakElement(reference)
        let watch = Task {
            var looks = IdleLooks()
            while (try? await Task.sleep(for: .seconds(1))) != nil {
                guard weak.map({ ($0 as? Decryptor)?.isStartAwaited(of: keyID, &looks) ?? false }) ?? false else {
                    return
                }
            }
        }
        facts.withLock {
            startWatch?.cancel()
            startWatch = watch
        }
    }

    func endStartWatch() {
        facts.withLock { startWatch.take() }?.cancel()
    }

    /// One look. False if no more are needed.
    private func isStartAwaited(of keyID: KeyID?, _ looks: inout IdleLooks) -> Bool {
        guard currentSources != nil else { return false }
        let isWaiting = monitor.withLock { flow.isFlushing || flow.isFailureReported || flow.isAwaitingKey }
        let isExcused = isWaiting || isBehind || isStarved || !reference.isChangingState
        guard looks.look(decrypted: statistics.bytesDecrypted, isExcused: isExcused) else { return true }
        monitor.withLock { flow.isFailureReported = true }
        reference.postError(
            GST_STREAM_ERROR_DECRYPT,
            "Playback cannot \(reference.hasPrerolled ? "go on" : "begin"): the decoders make nothing of what the key for "
                + "\(name(of: keyID)) decrypts.",
            debug: "Either the key is a wrong one, or the media is encrypted in another way than it says.")
        return false
    }
}

/// Counts looks, once a second, at an element that decrypts nothing more. A value.
struct IdleLooks {
    private var count = 0
    private var decrypted: UInt64 = 0

    /// True if that lasts too long. `decrypted`: the bytes so far. `isExcused`: there is a reason for it.
    mutating func look(decrypted: UInt64, isExcused: Bool) -> Bool {
        defer { self.decrypted = decrypted }
        guard !isExcused, decrypted > 0, decrypted == self.decrypted else {
            count = 0
            return false
        }
        count += 1
        return count >= MuteLooks.limit
    }
}
