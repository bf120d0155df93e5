// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// What happens while protected content plays, for the application. A value.
///
/// Each case says how often it comes. Those that are not on the bus anyway are posted there too, as element messages of
/// the pipeline; docs/agent.md has their names and fields.
public enum AgentEvent: Sendable {
    /// Nothing more can be decrypted until a license is installed; what was decrypted plays on, and then playback waits.
    /// Acquire one. Once, and not again before a license was acquired.
    case rightsNotAvailable(RightsStatus, [KeyID])
    /// The system clock was set back, or cannot be trusted, so that licenses with dates are of no use. Once, and not
    /// again before something was decrypted.
    case untrustedSystemTime(reason: String)
    /// What came is not what was asked for, as where a captive portal answers with a web page. Playback goes on trying.
    /// Once, and not again before a piece of content could be read.
    case invalidContent(url: String, reason: String)
    /// The content's server answered with an error status. Each time. The demuxer decides what follows.
    case serverError(url: String, status: Int)
    /// Something failed from which playback may not recover, as media that its key does not fit: stop. Each time.
    case playbackShouldBeAborted(reason: String)
    /// Playback is being ended: the right to it is gone, or the outputs may not show it. Each time.
    case playbackWillBeAborted(reason: String)
    /// Playback has come to the end of what is cached, and the rest cannot be had without the network: it stops. Once a
    /// playback, or again where the network was back in between.
    case cacheEdgeReached(cachedDuration: Duration?, reason: String)
    /// The session server refused a session. Playback ends. Each time.
    case sessionSetupError(SessionErrorDetails)
    /// A heartbeat failed; where `isFinal`, playback ends. Each time.
    case sessionHeartbeatError(SessionErrorDetails, isFinal: Bool)
    /// The session could not be ended; the next start tries again. Each time.
    case sessionTeardownError(SessionErrorDetails)
    /// What the outputs may show has changed. Each time.
    case outputStatus(OutputStatus)
    /// The agent's own state has changed. Each time.
    case stateChanged(AgentState)
    /// A line of the log that is not below the agent's threshold. Each time.
    case logMessage(AgentLogMessage)
}

/// What a session server said. A value.
public struct SessionErrorDetails: Hashable, Sendable {
    /// 0 where there was no answer.
    public var httpStatus: Int
    /// The server's own number or word; empty for none.
    public var code: String
    /// In the server's words.
    public var message: String
    /// What follows from it, such as `session limit reached`.
    public var reason: String
    /// The sessions that are in the way.
    public var conflicts: [String]
}

/// What the outputs may show, and why not more. A value.
public struct OutputStatus: Hashable, Sendable {
    /// `allowed`, `limited` or `blocked`.
    public var status: String
    /// Whether pictures are shown.
    public var showsVideo: Bool
    /// Whether sound is heard.
    public var playsAudio: Bool
    /// The most pixels of a picture; nil for no limit.
    public var maximumPixels: UInt64?
    /// In words.
    public var reasons: [String]
}

/// One line of the agent's log. No secret is in it. A value.
public struct AgentLogMessage: Hashable, Sendable {
    /// How much a line matters; `debug` least.
    public enum Level: Int, Sendable, Comparable, CaseIterable {
        case debug, info, warning, error

        /// By how much they matter.
        public static func < (left: Level, right: Level) -> Bool { left.rawValue < right.rawValue }
    }

    /// How much it matters.
    public var level: Level
    /// In words, without a line break.
    public var text: String

    /// Nothing is checked.
    public init(_ level: Level, _ text: String) {
        self.level = level
        self.text = text
    }
}

extension AgentLogMessage: CustomStringConvertible {
    /// `warning: text`
    public var description: String { "\(level): \(text)" }
}

/// How often the application is notified of a condition: the frequencies of the Downloadable Agent manual, 5.4. A
/// value.
struct EventFrequency: Hashable, Sendable {
    private var isRightsTold = false
    private var isTimeTold = false
    private var isContentTold = false

    /// There are no rights. Returns whether the application has to be notified.
    mutating func rightsAreMissing() -> Bool { Self.isNews(&isRightsTold) }
    /// A license was installed.
    mutating func licenseWasInstalled() { isRightsTold = false }

    /// The clock cannot be trusted. Returns whether the application has to be notified.
    mutating func timeIsUntrusted() -> Bool { Self.isNews(&isTimeTold) }
    /// Something was decrypted, so the clock is no obstacle.
    mutating func contentWasDecrypted() { isTimeTold = false }

    /// Something came that is no content. Returns whether the application has to be notified.
    mutating func contentIsInvalid() -> Bool { Self.isNews(&isContentTold) }
    /// A piece of content could be read.
    mutating func contentWasRead() { isContentTold = false }

    private static func isNews(_ told: inout Bool) -> Bool {
        defer { told = true }
        return !told
    }
}
