// SPDX-License-Identifier: MPL-2.0

import LatchkeyOutputs
import LatchkeyProtection
import Testing

@Suite struct HDMIModeTests {
    private struct Row {
        let mode: HDMIMode
        /// For a license that allows the output, and for one that does not.
        let isVideoBlocked: (Bool, Bool)
        let isAudioBlocked: (Bool, Bool)
        let showsAlternative: Bool
        let endsPlayback: Bool
    }

    private static let rows = [
        Row(
            mode: .standard, isVideoBlocked: (false, true), isAudioBlocked: (false, true), showsAlternative: false,
            endsPlayback: false),
        Row(
            mode: .disable, isVideoBlocked: (true, true), isAudioBlocked: (true, true), showsAlternative: false,
            endsPlayback: true),
        Row(
            mode: .allow, isVideoBlocked: (false, false), isAudioBlocked: (false, false), showsAlternative: false,
            endsPlayback: false),
        Row(
            mode: .audioOnly, isVideoBlocked: (true, true), isAudioBlocked: (false, true), showsAlternative: false,
            endsPlayback: false),
        Row(
            mode: .alternative, isVideoBlocked: (true, true), isAudioBlocked: (false, true), showsAlternative: true,
            endsPlayback: false),
    ]

    private let strict: OutputPolicy = {
        var policy = OutputPolicy(requirement: .hdcpType0)
        policy.digitalAudio = .require(.hdcpType0)
        return policy
    }()
    private let hdmi = OutputFacts.outputs([Output(name: "HDMI-A-1", kind: .digital)])

    @Test func eachModeDecidesForHDMI() {
        #expect(Self.rows.map(\.mode) == HDMIMode.allCases)
        for row in Self.rows {
            let evaluator = OutputEvaluator(hdmiMode: row.mode)
            let allowed = evaluator.decide([.unrestricted], facts: hdmi)
            let refused = evaluator.decide([strict], facts: hdmi)
            #expect((allowed.isVideoBlocked, refused.isVideoBlocked) == row.isVideoBlocked, "\(row.mode)")
            #expect((allowed.isAudioBlocked, refused.isAudioBlocked) == row.isAudioBlocked, "\(row.mode)")
            for decision in [allowed, refused] {
                #expect(decision.showsAlternative == row.showsAlternative, "\(row.mode)")
                #expect(decision.endsPlayback == row.endsPlayback, "\(row.mode)")
            }
        }
    }

    @Test func noModeEndsPlaybackBeforeTheOutputsAreKnown() {
        for mode in HDMIMode.allCases {
            let decision = OutputEvaluator(hdmiMode: mode).decide([.unrestricted], facts: .unreadable("no device"))
            #expect(!decision.endsPlayback, "\(mode)")
            #expect(decision.isVideoBlocked == (mode != .standard && mode != .allow), "\(mode)")
        }
    }

    @Test func clearContentIsNobodysBusiness() {
        for mode in HDMIMode.allCases {
            #expect(OutputEvaluator(hdmiMode: mode).decide([], facts: hdmi) == .allow)
        }
    }

    @Test func otherOutputsAreTheLicenses() {
        let panel = OutputFacts.outputs([Output(name: "eDP-1", kind: .internalPanel)])
        let analog = OutputFacts.outputs([Output(name: "VGA-1", kind: .analogMonitor)])
        for mode in HDMIMode.allCases {
            let evaluator = OutputEvaluator(hdmiMode: mode)
            #expect(evaluator.decide([strict], facts: panel).isUnrestricted, "\(mode)")
            #expect(evaluator.decide([strict], facts: analog).isVideoBlocked, "\(mode)")
            #expect(evaluator.decide([.unrestricted], facts: analog).isUnrestricted, "\(mode)")
        }
    }

    @Test func allowingAsksForNothing() {
        #expect(OutputEvaluator(hdmiMode: .allow).decide([strict], facts: hdmi).request == .unprotected)
        #expect(OutputEvaluator().decide([strict], facts: hdmi).request == .hdcpType0)
    }
}
