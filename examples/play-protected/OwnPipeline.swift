// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import Latchkey

/// What plays: the agent's player, or a pipeline of this program's own.
protocol Playing: Sendable {
    @discardableResult func play() -> Bool
    @discardableResult func pause() -> Bool
    func stop()
    /// In nanoseconds.
    var position: UInt64? { get }
    /// Goes to a position, in nanoseconds.
    @discardableResult func seek(to position: UInt64) -> Bool
    /// Empties the bus. What ended playback, where something did.
    func takeMessages() -> (text: String, isError: Bool)?
}

extension Player: Playing {
    func takeMessages() -> (text: String, isError: Bool)? {
        var end: (String, Bool)?
        while let message = nextMessage(waiting: 0) {
            if case .endOfStream = message { end = end ?? ("end of stream", false) }
            if case .error(_, _, let text, let debug, _) = message { end = end ?? ("\(text) \(debug)", true) }
        }
        return end.map { (text: $0.0.filter { !$0.isNewline }, isError: $0.1) }
    }
}

/// An application's own pipeline: the agent brings keys and rights to it, and the rest is the application's.
final class OwnPipeline: Playing {
    private let player: Player

    /// `uridecodebin3` and two sinks, with guards in front of them, as an application might write it.
    init(_ agent: Agent, _ content: Options.Content, _ options: Options) throws(AgentError) {
        let description =
            options.pipeline
            ?? "uridecodebin3 name=source uri=\(content.url) "
            + "source. ! video/x-raw ! latchkeyguard outputs=\(options.agent.outputs) ! \(options.agent.videoSink) "
            + "source. ! audio/x-raw ! latchkeyguard outputs=\(options.agent.outputs) ! \(options.agent.audioSink)"
        Latchkey.registerElements()
        player = try agent.attach(pipeline: description)
    }

    func play() -> Bool { player.play() }
    func pause() -> Bool { player.pause() }
    func stop() { player.stop() }
    var position: UInt64? { player.position }
    func seek(to position: UInt64) -> Bool { player.seek(to: position) }
    func takeMessages() -> (text: String, isError: Bool)? { player.takeMessages() }
}
