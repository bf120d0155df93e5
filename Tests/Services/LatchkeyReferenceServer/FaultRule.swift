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
