// SPDX-License-Identifier: MPL-2.0

/// What goes wrong with an answer on purpose. Written as the description has it: `delay:250`, `never`.
public enum Fault: Hashable, Sendable {
    /// `delay:MS`: the answer comes that many milliseconds late.
    case delay(milliseconds: Int)
    /// `status:CODE`: that HTTP status instead of the answer; 200 to 599.
    case status(Int)
    /// `truncate:BYTES`: the connection closes behind that many bytes of the body, although its length was promised.
    case truncate(bytes: Int)
    /// `garbage`: status and length of the answer, but other bytes.
    case garbage
    /// `never`: no answer, until the client or the server gives up.
    case never
    /// `drip:BYTES_PER_SECOND`: the body comes slowly.
    case drip(bytesPerSecond: Int)

    /// Reads what `description` writes. Throws an error that says what is wrong.
    public init(_ text: some StringProtocol) throws(FaultError) {
        let parts = String(text).split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        let name = parts[0]
        func number(_ range: ClosedRange<Int>) throws(FaultError) -> Int {
            guard parts.count == 2, let number = Int(parts[1]), range.contains(number) else {
                throw FaultError("“\(name)” takes a number from \(range.lowerBound) to \(range.upperBound): \(text)")
            }
            return number
        }
        switch name {
        case "delay": self = .delay(milliseconds: try number(0...3_600_000))
        case "status": self = .status(try number(200...599))
        case "truncate": self = .truncate(bytes: try number(0...Int.max))
        case "drip": self = .drip(bytesPerSecond: try number(1...1_000_000_000))
        case "garbage" where parts.count == 1: self = .garbage
        case "never" where parts.count == 1: self = .never
        default:
            throw FaultError(
                "“\(text)” is no fault: delay:MS, status:CODE, truncate:BYTES, garbage, never, drip:BYTES_PER_SECOND")
        }
    }
}

extension Fault: CustomStringConvertible {
    /// What `init(_:)` reads.
    public var description: String {
        switch self {
        case .delay(let milliseconds): "delay:\(milliseconds)"
        case .status(let code): "status:\(code)"
        case .truncate(let bytes): "truncate:\(bytes)"
        case .garbage: "garbage"
        case .never: "never"
        case .drip(let bytesPerSecond): "drip:\(bytesPerSecond)"
        }
    }
}

/// A fault, or a rule for one, that cannot be read.
public struct FaultError: Error, Hashable, Sendable, CustomStringConvertible {
    /// What cannot be read, and what would be.
    public let description: String

    init(_ description: String) { self.description = description }
}
