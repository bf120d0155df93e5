// SPDX-License-Identifier: MPL-2.0

/// One thing that was found, in words for people.
public struct Finding: Encodable, Sendable, Hashable {
    public enum Level: String, Encodable, Sendable {
        /// As it should be, or neither good nor bad.
        case fact
        /// Works, and could be better.
        case hint
        /// Something does not work.
        case problem
    }

    public var level: Level
    public var text: String
    /// What to do.
    public var advice: String?

    public init(_ level: Level, _ text: String, advice: String? = nil) {
        self.level = level
        self.text = text
        self.advice = advice
    }
}

/// What belongs together in a report. Modules that know more of the machine add sections of their own.
public struct DiagnosisSection: Encodable, Sendable, Hashable {
    public var title: String
    public var findings: [Finding]

    public init(_ title: String, _ findings: [Finding]) {
        self.title = title
        self.findings = findings
    }
}

/// All of what `latchkey doctor` says.
public struct DiagnosisReport: Encodable, Sendable {
    public var sections: [DiagnosisSection]
    public var streams: [StreamDiagnosis]

    public init(sections: [DiagnosisSection], streams: [StreamDiagnosis]) {
        self.sections = sections
        self.streams = streams
    }

    /// The sections with those of the streams behind.
    public var allSections: [DiagnosisSection] { sections + streams.map(\.section) }

    public var hasProblem: Bool { allSections.flatMap(\.findings).contains { $0.level == .problem } }

    /// For a terminal.
    public var text: String {
        allSections.map { section in
            let lines = section.findings.flatMap { finding in
                let sign =
                    switch finding.level {
                    case .fact: "  "
                    case .hint: "  hint: "
                    case .problem: "  PROBLEM: "
                    }
                return [sign + finding.text] + (finding.advice.map { ["      → \($0)"] } ?? [])
            }
            return ([section.title] + lines).joined(separator: "\n")
        }.joined(separator: "\n\n")
    }
}
