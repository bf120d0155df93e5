// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyGStreamer
public import LatchkeyElementKit
import Synchronization

/// A ready player for an agent's content: GStreamer's `playbin3`.
///
/// What happens to it comes as the agent's events and states, and on its bus as always; an application may use `element`
/// as any other pipeline. Playing stops when the last reference goes. Thread-safe.
public final class Player: Sendable {
    private let pipeline: Pipeline
    private let core: AgentCore
    private let attachment: UInt64
    private let isGivenAway = Atomic(false)

    init(_ pipeline: Pipeline, of core: AgentCore, attachment: UInt64) {
        self.pipeline = pipeline
        self.core = core
        self.attachment = attachment
    }

    deinit {
        guard !isGivenAway.load(ordering: .acquiring) else { return }
        pipeline.setState(.null)
        core.forget(attachment)
    }

    /// Makes the `playbin3` the caller's, with a reference, for callers that count references themselves: the holder of
    /// the last one stops it first, as GStreamer demands. Give this object up then. The agent forgets the element when
    /// it goes.
    public func giveAway() -> UnsafeMutablePointer<GstElement> {
        if !isGivenAway.exchange(true, ordering: .acquiringAndReleasing) {
            PlayerWatch.attach(to: element, core, attachment)
        }
        gst_object_ref(UnsafeMutableRawPointer(element))
        return element
    }

    /// The `playbin3`, lent: valid as long as this object is.
    public var element: UnsafeMutablePointer<GstElement> { pipeline.pointer }

    /// Plays, from the start or from where it paused. False where GStreamer refuses at once, and after the agent's end;
    /// what fails later is an error on the bus. After an error, and to play once more after the end, `stop` first. A player
    /// that ended before its first picture is not to play again: `playbin3` before GStreamer 1.26 may abort the process then.
    @discardableResult
    public func play() -> Bool { start(.playing) }

    /// Stands still, or shows the first picture. As `play`.
    @discardableResult
    public func pause() -> Bool { start(.paused) }

    private func start(_ state: PipelineState) -> Bool {
        do throws(AgentError) {
            try core.willStart(attachment, element)
        } catch {
            core.log(.error, "\(error)")
            return false
        }
        return pipeline.setState(state)
    }

    /// Ends playback and gives everything up that it took; `play` starts again.
    public func stop() { pipeline.setState(.null) }

    /// What is shown now, in nanoseconds; nil where that is not known.
    public var position: UInt64? { pipeline.position }

    /// In nanoseconds; nil where that is not known, as of live media.
    public var duration: UInt64? { pipeline.duration }

    /// Goes to a position, in nanoseconds. False where it cannot.
    @discardableResult
    public func seek(to position: UInt64) -> Bool { pipeline.seek(to: position) }

    /// Takes the next message off the bus, or waits for one, in nanoseconds; nil after that. For applications without a
    /// main loop, on a thread of their own: a bus that is never read keeps everything. `.some(nil)` is a message that
    /// says nothing here.
    public func nextMessage(waiting: UInt64) -> BusEvent?? { pipeline.nextMessage(waiting: waiting) }
}

/// Does for a player that was given away what `Player` does: it lives as long as the element.
private final class PlayerWatch: @unchecked Sendable {
    // SAFETY: written in `attach` alone, before any other code has the element.
    private let core: AgentCore
    private let attachment: UInt64
    private var bus: BusObservation?

    private init(_ core: AgentCore, _ attachment: UInt64) {
        (self.core, self.attachment) = (core, attachment)
    }

    deinit { core.forget(attachment) }

    static func attach(to element: UnsafeMutablePointer<GstElement>, _ core: AgentCore, _ attachment: UInt64) {
        let watch = PlayerWatch(core, attachment)
        let pipeline = WeakPipeline(element)
        watch.bus = BusObservation(element) { event in
            guard case .stateChanged(from: .null, to: .ready) = event else { return }
            pipeline.with { reference in
                do throws(AgentError) {
                    try core.willStart(attachment, reference.pointer)
                } catch {
                    core.log(.error, "\(error)")
                }
            }
        }
        // SAFETY: GLib calls this once, when the element goes, and the box is given back there.
        g_object_weak_ref(
            UnsafeMutableRawPointer(element).assumingMemoryBound(to: GObject.self),
            { box, _ in if let box { Unmanaged<PlayerWatch>.fromOpaque(box).release() } },
            Unmanaged.passRetained(watch).toOpaque())
    }
}
