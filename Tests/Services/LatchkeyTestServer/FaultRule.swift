// SPDX-License-Identifier: MPL-2.0

/// A fault for all requests whose path starts with a prefix.
public struct FaultRule: Hashable, Sendable {
    /// Compared with the path as it comes in, without the query: `/media/` or `/clearkey`.
    public var prefix: String
    /// What goes wrong with such a request.
    public var fault: Fault
    /// How many requests it is for; nil: all.
    public var times: Int?

    /// Checks nothing: a prefix that does not start with a slash fits no path.
    public init(prefix: String, fault: Fault, times: Int? = nil) {
        self.prefix = prefix
        self.fault = fault
        self.times = times
    }

    /// Reads `PREFIX=FAULT` or `PREFIX=FAULT*N`, as the command line has it. Throws `FaultError` with what is possible.
    public init(_ text: some StringProtocol) throws(FaultError) {
        guard let equals = text.firstIndex(of: "="), text.hasPrefix("/") else {
            throw FaultError("“\(text)” is no rule: PREFIX=FAULT or PREFIX=FAULT*N, where PREFIX starts with “/”")
        }
        let parts = String(text[text.index(after: equals)...]).split(
            separator: "*", maxSplits: 1, omittingEmptySubsequences: false)
        if parts.count == 2 {
            guard let times = Int(parts[1]), times > 0 else {
                throw FaultError("“\(text)”: behind “*” stands how often, a number from 1")
            }
            self.times = times
        }
        prefix = String(text[..<equals])
        fault = try Fault(parts[0])
    }
}

extension FaultRule: CustomStringConvertible {
    /// What `init(_:)` reads.
    public var description: String { "\(prefix)=\(fault)\(times.map { "*\($0)" } ?? "")" }
}

/// In JSON: `{"prefix":"/clearkey","fault":"status:503","times":2}`, where `times` may be absent.
extension FaultRule: Codable {
    private enum CodingKeys: String, CodingKey {
        case prefix, fault, times
    }

    /// Throws `FaultError` where `prefix` does not start with a slash, the fault is not known, or `times` is below 1.
    public init(from decoder: any Decoder) throws {
        let members = try decoder.container(keyedBy: CodingKeys.self)
        prefix = try members.decode(String.self, forKey: .prefix)
        fault = try Fault(members.decode(String.self, forKey: .fault))
        times = try members.decodeIfPresent(Int.self, forKey: .times)
        if !prefix.hasPrefix("/") { throw FaultError("“prefix” has to start with “/”: \(prefix)") }
        if let times, times < 1 { throw FaultError("“times” has to be 1 or more: \(times)") }
    }

    /// Writes the fault in the form of its description.
    public func encode(to encoder: any Encoder) throws {
        var members = encoder.container(keyedBy: CodingKeys.self)
        try members.encode(prefix, forKey: .prefix)
        try members.encode(fault.description, forKey: .fault)
        try members.encodeIfPresent(times, forKey: .times)
    }
}

/// The rules in force. The first that fits a path is used.
struct FaultPlan: Sendable {
    private(set) var rules: [FaultRule]

    /// The fault for a request to `path`. A rule that has been used often enough goes.
    mutating func take(forPath path: String) -> Fault? {
        guard let index = rules.firstIndex(where: { path.hasPrefix($0.prefix) }) else { return nil }
        let rule = rules[index]
        if let times = rule.times {
            rules[index].times = times - 1
            if times <= 1 { rules.remove(at: index) }
        }
        return rule.fault
    }
}

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
