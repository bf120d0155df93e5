// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit

/// Tells a decryptor whose upstream thread waits that the adaptive demuxer around it is asked to seek. The demuxer
/// flushes only when that thread has come back to it.
final class SeekWatch {
    private let decryptor: WeakElement
    private var probes: [(pad: PadReference, probe: PadProbe)] = []

    init(_ decryptor: Decryptor) { self.decryptor = WeakElement(decryptor.reference) }

    deinit { for (_, probe) in probes { probe.remove() } }

    /// Looks for pads that are new.
    func update() {
        var pads: [PadReference] = []
        decryptor.withElement { pads = $0.reference.adaptiveDemuxersPads }
        for pad in pads where !probes.contains(where: { $0.pad.isSame(as: pad) }) {
            let decryptor = decryptor
            let probe = pad.probeEvents(.upstream) { event in
                if event.isFlushingSeek { decryptor.withElement { ($0 as? Decryptor)?.expectSeek() } }
                return event
            }
            probes.append((pad, probe))
        }
    }
}

extension Decryptor {
    /// Lets the thread in that waits at the queue. What it brings is flushed by the seek; where that is refused, it waits
    /// for the key like the rest.
    fileprivate func expectSeek() {
        monitor.withLock {
            flow.isSeekExpected = true
            monitor.broadcast()
        }
    }
}
