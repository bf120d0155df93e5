// SPDX-License-Identifier: MPL-2.0

public import Latchkey
public import Logging

extension AgentLog {
    /// Gives each line from now on that is not below `threshold` to a logger of swift-log, which applies its own level
    /// too. Ends with the last reference to what this returns. Thread-safe; handlers of `logger` must not block.
    ///
    /// ```swift
    /// let log = AgentLog.forward(to: Logger(label: "player"))
    /// ```
    public static func forward(
        to logger: Logger, threshold: AgentLogMessage.Level = .debug
    ) -> AgentLogWatch {
        watch(threshold: threshold) { message in
            logger.log(level: Logger.Level(message.level), "\(message.text)", source: "Latchkey")
        }
    }
}

extension Logger.Level {
    /// The level of swift-log with the same name.
    public init(_ level: AgentLogMessage.Level) {
        switch level {
        case .debug: self = .debug
        case .info: self = .info
        case .warning: self = .warning
        case .error: self = .error
        }
    }
}
