// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import Synchronization

/// Has what a decryptor decrypted before wait in front of the sinks while its viewing session is not there: queues behind it
/// have some seconds of media. For decryptors that are not inside an adaptive demuxer. Thread-safe.
///
/// A flush in front of a sink takes that media away, and ends the wait there: a seek during a pause may lead to clear media.
final class SinkHold: Sendable {
    /// A source pad in front of a sink.
    private struct Place: Sendable {
        let pad: PadReference
        let flushes: PadProbe
        /// Nil behind a flush.
        var hold: PadProbe?
    }

    private struct State: Sendable {
        var places: [Place] = []
        var isForgotten = false
    }

    /// More pads than any pipeline has.
    private static let limit = 10_000

    private let source: PadReference
    private let state = Mutex(State())

    /// `source`: where media leaves the decryptor.
    init(behind source: PadReference) { self.source = source }

    /// Whether media is to wait from now on.
    func set(_ isWithheld: Bool) {
        guard isWithheld else { return release() }
        let pads = Self.pads(behind: source)
        state.withLock { state in
            guard state.places.isEmpty, !state.isForgotten else { return }
            // A flush that comes now waits for the lock, and finds the place.
            state.places = pads.map { Place(pad: $0, flushes: watchFlushes(of: $0), hold: $0.holdBuffers()) }
        }
    }

    /// The element stops: nothing waits any more.
    func forget() {
        state.withLock { $0.isForgotten = true }
        release()
    }

    private func release() {
        let places = state.withLock { state in
            defer { state.places = [] }
            return state.places
        }
        for place in places {
            place.hold?.remove()
            place.flushes.remove()
        }
    }

    private func watchFlushes(of pad: PadReference) -> PadProbe {
        // The pad keeps this: it must not keep the pad.
        let place = Int(bitPattern: pad.pointer)
        return pad.probeEvents(.downstream) { [weak self] event in
            if event.kind == .flushStart { self?.didFlush(at: place) }
            return event
        }
    }

    private func didFlush(at pad: Int) {
        let hold = state.withLock { state -> PadProbe? in
            guard let index = state.places.firstIndex(where: { Int(bitPattern: $0.pad.pointer) == pad }) else {
                return nil
            }
            return state.places[index].hold.take()
        }
        hold?.remove()
    }

    /// The source pads in front of the sinks that media from this one comes to.
    private static func pads(behind source: PadReference) -> [PadReference] {
        var (found, followed): ([PadReference], [PadReference]) = ([], [])
        var open = [source]
        while let pad = open.popLast(), followed.count < limit {
            // Several ways may lead here.
            guard !followed.contains(where: { $0.isSame(as: pad) }) else { continue }
            followed.append(pad)
            guard let arrival = pad.peer else { continue }
            var exits = arrival.internalLinks
            // Such as a selector, which has no link between its output and a pad that is not the active one.
            if exits.isEmpty, let element = arrival.element, !element.isSink { exits = element.sourcePads }
            if exits.isEmpty { found.append(pad) } else { open += exits }
        }
        return found
    }
}
