// SPDX-License-Identifier: MPL-2.0

/// Why the trusted clock was not repaired.
public struct TrustedClockError: Error, Hashable, Sendable {
    private enum Code: String {
        case noService = "no time service"
        case serviceFailed = "time service failed"
        case notGenuine = "not genuine"
        case goesBack = "goes back"
        case tooSlow = "too slow"
        case notSaved = "not saved"
    }

    private let code: Code
    private let detail: String

    private init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    /// No time service is configured.
    public static func noService(_ detail: String) -> Self { Self(.noService, detail) }
    /// The time service cannot be reached, or answers with an error.
    public static func serviceFailed(_ detail: String) -> Self { Self(.serviceFailed, detail) }
    /// The answer is not signed by the configured time service, or answers another question.
    public static func notGenuine(_ detail: String) -> Self { Self(.notGenuine, detail) }
    /// The signed time is earlier than one that was taken before.
    public static func goesBack(_ detail: String) -> Self { Self(.goesBack, detail) }
    /// The answer took so long that its time says too little.
    public static func tooSlow(_ detail: String) -> Self { Self(.tooSlow, detail) }
    /// The clock is repaired, but could not be saved: after a start it may not know so.
    public static func notSaved(_ detail: String) -> Self { Self(.notSaved, detail) }

    /// The kind of failure alone.
    public var shortDescription: String { code.rawValue }

    /// Whether `other` is of the same kind, whatever the details.
    public func isSameKind(as other: Self) -> Bool { code == other.code }
}

extension TrustedClockError: CustomStringConvertible {
    /// The kind and the details, with the service's name and what to do.
    public var description: String { detail.isEmpty ? code.rawValue : "\(code.rawValue): \(detail)" }
}
