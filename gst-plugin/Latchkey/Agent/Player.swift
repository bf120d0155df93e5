// SPDX-License-Identifier: MPL-2.0

public import CGStreamer
public import ElementKit

/// A ready player for an agent's content: GStreamer's `playbin3`.
///
/// What happens to it comes as the agent's events and states, and on its bus as always; an application may use `element`
/// as any other pipeline. Playing stops when the last reference goes. Thread-safe.
public final class Player: Sendable {
    private let pipeline: Pipeline
    private let core: AgentCore
    private let attachment: UInt64

    init(_ pipeline: Pipeline, of core: AgentCore, attachment: UInt64) {
        self.pipeline = pipeline
        self.core = core
        self.attachment = attachment
    }

    deinit {
        pipeline.setState(.null)
        core.forget(attachment)
    }

    /// The `playbin3`, lent: valid as long as this object is.
    public var element: UnsafeMutablePointer<GstElement> { pipeline.pointer }

    /// Plays, from the start or from where it paused. False where GStreamer refuses at once, and after the agent's end;
    /// what fails later is an error on the bus. After an error, and to play once more after the end, `stop` first.
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
    /// main loop, on a thread of their own: a bus that nobody empties keeps everything. `.some(nil)` is a message that
    /// says nothing here.
    public func nextMessage(waiting: UInt64) -> BusEvent?? { pipeline.nextMessage(waiting: waiting) }
}
