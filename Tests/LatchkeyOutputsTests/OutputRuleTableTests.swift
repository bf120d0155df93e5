// SPDX-License-Identifier: MPL-2.0

import LatchkeyOutputs
import LatchkeyProtection
import Testing

/// The complete table: every rule, on every kind of output, with every protection, for video and audio.
@Suite struct OutputRuleTableTests {
    private enum Verdict: Equatable { case allow, limit(Int), block }

    private static let rules: [OutputRule] = [
        .pass, .tryToProtect, .protectOrReduce(pixels: 520_000), .require(.unprotected), .require(.hdcpType0),
        .require(.hdcpType1), .copyNever(isRequired: false), .copyNever(isRequired: true), .block,
    ]

    /// A column for no HDCP, type 0 and type 1.
    private static func row(_ rule: OutputRule) -> [Verdict] {
        switch rule {
        case .pass, .tryToProtect, .copyNever(isRequired: false), .require(.unprotected): [.allow, .allow, .allow]
        case .protectOrReduce: [.limit(520_000), .allow, .allow]
        case .require(.hdcpType0), .copyNever(isRequired: true): [.block, .allow, .allow]
        case .require(.hdcpType1): [.block, .block, .allow]
        case .block: [.block, .block, .block]
        }
    }

    private static func column(_ kind: Output.Kind, _ protection: Output.Protection) -> Int {
        guard kind == .digital else { return 0 }
        return switch protection {
        case .none, .requested: 0
        case .hdcpType0: 1
        case .hdcpType1: 2
        }
    }

    /// Which rule of the policy is for this kind of output; nil for none.
    private static func path(_ kind: Output.Kind, _ media: OutputPolicy.Media) -> WritableKeyPath<
        OutputPolicy, OutputRule
    >? {
        switch (kind, media) {
        case (.internalPanel, _): nil
        case (.digital, .video), (.insecure, .video): \.digitalVideo
        case (.digital, .audio), (.insecure, .audio), (.unknown, .audio): \.digitalAudio
        case (.analogVideo, .video): \.analogVideo
        case (.analogMonitor, .video): \.analogMonitor
        case (.unknown, .video): \.unknownOutputs
        case (.analogVideo, .audio), (.analogMonitor, .audio): nil
        }
    }

    @Test func everyRuleOnEveryOutput() {
        var cells = 0
        let paths: [WritableKeyPath<OutputPolicy, OutputRule>] = [
            \.digitalVideo, \.analogVideo, \.analogMonitor, \.unknownOutputs, \.digitalAudio,
        ]
        for path in paths {
            for rule in Self.rules {
                var policy = OutputPolicy.unrestricted
                policy[keyPath: path] = rule
                for kind in Output.Kind.allCases {
                    for protection in Output.Protection.allCases {
                        let output = Output(name: "X-1", kind: kind, protection: protection)
                        let decision = OutputEvaluator().decide([policy], facts: .outputs([output]))
                        for media in [OutputPolicy.Media.video, .audio] {
                            let expected =
                                Self.path(kind, media) == path
                                ? Self.row(rule)[Self.column(kind, protection)] : .allow
                            let note: Comment = "\(path) \(rule) on \(kind), \(protection), for \(media)"
                            switch media {
                            case .video:
                                #expect(decision.isVideoBlocked == (expected == .block), note)
                                #expect(decision.maximumPixels == (expected == .limit(520_000) ? 520_000 : nil), note)
                            // A frame can be made smaller, sound cannot.
                            case .audio: #expect(decision.isAudioBlocked == (expected != .allow), note)
                            }
                            cells += 1
                        }
                        #expect(decision.isUnrestricted == decision.reasons.isEmpty)
                    }
                }
            }
        }
        #expect(cells == 5 * 9 * 6 * 4 * 2)
    }

    /// The value of a FairPlay-style key, or of the application.
    @Test(arguments: OutputRequirement.allCases) func anHDCPValueIsARuleForPicturesAlone(_ value: OutputRequirement) {
        let policy = OutputPolicy(requirement: value)
        #expect(!policy.hasRules(for: .audio) && policy.hasRules(for: .video) == (value != .unprotected))
        for kind in Output.Kind.allCases {
            for protection in Output.Protection.allCases {
                let output = Output(name: "X-1", kind: kind, protection: protection)
                let decision = OutputEvaluator().decide([policy], facts: .outputs([output]))
                let isAllowed = kind == .internalPanel || output.level >= value
                #expect(decision.isVideoBlocked == !isAllowed, "\(value) on \(kind), \(protection)")
                #expect(!decision.isAudioBlocked, "\(value) on \(kind), \(protection)")
            }
        }
        #expect(!OutputEvaluator().decide([policy], facts: .unreadable("no device")).isAudioBlocked)
    }

    @Test func theStrictestOutputCounts() {
        let policy = OutputPolicy(requirement: .hdcpType0)
        let good = Output(name: "HDMI-A-1", kind: .digital, protection: .hdcpType1)
        let panel = Output(name: "eDP-1", kind: .internalPanel)
        let evaluator = OutputEvaluator()
        #expect(evaluator.decide([policy], facts: .outputs([good, panel])).isUnrestricted)
        for kind in Output.Kind.allCases where kind != .internalPanel {
            let bad = Output(name: "BAD-1", kind: kind)
            let decision = evaluator.decide([policy], facts: .outputs([good, bad, panel]))
            #expect(decision.isVideoBlocked && !decision.isAudioBlocked)
            #expect(decision.reasons.count == 1 && decision.reasons[0].contains("BAD-1"))
        }
    }

    @Test func theMinimumOverOutputsIsTheLevel() {
        func level(_ outputs: [(Output.Kind, Output.Protection)]) -> OutputRequirement? {
            OutputFacts.outputs(outputs.map { Output(name: "X-1", kind: $0.0, protection: $0.1) }).level
        }
        #expect(level([]) == nil)
        #expect(OutputFacts.unreadable("no").level == nil)
        #expect(level([(.internalPanel, .none)]) == .hdcpType1)
        #expect(level([(.internalPanel, .none), (.digital, .hdcpType0)]) == .hdcpType0)
        #expect(level([(.digital, .hdcpType1), (.digital, .requested)]) == .unprotected)
        for kind in [Output.Kind.insecure, .unknown, .analogVideo, .analogMonitor] {
            #expect(level([(kind, .hdcpType1)]) == .unprotected, "\(kind)")
        }
    }

    @Test func whatIsNotKnownIsEnoughForWhatHasNoRuleOnly() {
        let evaluator = OutputEvaluator()
        for facts in [OutputFacts.unreadable("no device"), .outputs([])] {
            #expect(evaluator.decide([], facts: facts).isUnrestricted)
            #expect(evaluator.decide([.unrestricted], facts: facts).isUnrestricted)
            #expect(
                evaluator.decide([OutputPolicy(requirement: OutputRequirement(hdcpLevel: "NONE"))], facts: facts)
                    .isUnrestricted)
            for policy in [
                OutputPolicy(requirement: .hdcpType0),
                OutputPolicy(requirement: OutputRequirement(hdcpLevel: "TYPE-1")),
            ] {
                let decision = evaluator.decide([.unrestricted, policy], facts: facts)
                #expect(decision.isVideoBlocked && decision.reasons.count == 1)
            }
            var analog = OutputPolicy.unrestricted
            analog.analogVideo = .block
            #expect(evaluator.decide([analog], facts: facts).isVideoBlocked)
            var audio = OutputPolicy.unrestricted
            audio.digitalAudio = .require(.hdcpType0)
            let decision = evaluator.decide([audio], facts: facts)
            #expect(decision.isAudioBlocked && !decision.isVideoBlocked)
        }
    }

    @Test func levelsOfPlaylistsAreRequirements() {
        let type0 = OutputFacts.outputs([Output(name: "HDMI-A-1", kind: .digital, protection: .hdcpType0)])
        let rows = [("NONE", false), ("TYPE-0", false), ("TYPE-1", true), ("TYPE-7", true)]
        for (level, isBlocked) in rows {
            let decision = OutputEvaluator().decide(
                [OutputPolicy(requirement: OutputRequirement(hdcpLevel: level))], facts: type0)
            #expect(decision.isVideoBlocked == isBlocked, "\(level)")
            #expect(decision.request == (level == "NONE" ? .unprotected : level == "TYPE-0" ? .hdcpType0 : .hdcpType1))
        }
    }

    @Test func theApplicationsMinimumIsForProtectedContentOnly() {
        let bare = OutputFacts.outputs([Output(name: "HDMI-A-1", kind: .digital)])
        let evaluator = OutputEvaluator(minimum: .hdcpType0)
        #expect(evaluator.decide([.unrestricted], facts: bare).isVideoBlocked)
        #expect(evaluator.decide([], facts: bare).isUnrestricted)
    }
}
