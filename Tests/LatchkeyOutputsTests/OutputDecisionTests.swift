// SPDX-License-Identifier: MPL-2.0

import LatchkeyOutputs
import LatchkeyProtection
import Testing

@Suite struct OutputDecisionTests {
    @Test func framesAboveALimitAreConstricted() {
        var decision = OutputDecision()
        #expect(decision.treatment(width: 7680, height: 4320) == .pass)
        decision.maximumPixels = 520_000
        #expect(decision.treatment(width: 960, height: 540) == .pass)
        #expect(decision.treatment(width: 1280, height: 720) == .constrict(pixels: 520_000))
        decision.maximumFrame = .init(width: 640, height: 360)
        #expect(decision.treatment(width: 360, height: 640) == .pass)
        #expect(decision.treatment(width: 720, height: 400) == .constrict(pixels: 640 * 360))
        #expect(decision.treatment(width: .max, height: .max) == .constrict(pixels: 640 * 360))
        decision.maximumPixels = 0
        #expect(decision.treatment(width: 16, height: 16) == .block)
        decision.maximumPixels = nil
        decision.isVideoBlocked = true
        #expect(decision.treatment(width: 16, height: 16) == .block)
    }

    /// Caps may have no size, and frames no caps: these may be of any size.
    @Test func framesWithoutASizeAreAboveEveryLimit() {
        var decision = OutputDecision()
        #expect(decision.treatment(width: 0, height: 0) == .pass)
        decision.maximumPixels = 520_000
        for (width, height) in [(0, 0), (0, 540), (960, 0), (-1, -1)] {
            #expect(decision.treatment(width: width, height: height) == .constrict(pixels: 520_000))
        }
        (decision.maximumPixels, decision.maximumFrame) = (nil, .init(width: 640, height: 360))
        #expect(decision.treatment(width: 0, height: 0) == .constrict(pixels: 640 * 360))
        decision.maximumPixels = 0
        #expect(decision.treatment(width: 0, height: 0) == .block)
    }

    @Test func theStricterOfTwoIsSoInEverything() {
        var first = OutputDecision()
        var second = OutputDecision()
        (first.maximumPixels, second.maximumPixels) = (500, 300)
        (first.maximumFrame, second.maximumFrame) = (.init(width: 30, height: 10), .init(width: 20, height: 20))
        (first.isVideoBlocked, second.isAudioBlocked, second.endsPlayback) = (true, true, true)
        (first.request, second.request) = (.hdcpType1, .hdcpType0)
        (first.reasons, second.reasons) = (["a"], ["b", "a"])
        let both = first.stricter(second)
        #expect(both.maximumPixels == 300)
        #expect(both.maximumFrame == .init(width: 20, height: 10))
        #expect(both.isVideoBlocked && both.isAudioBlocked && both.endsPlayback && !both.showsAlternative)
        #expect(both.request == .hdcpType1 && both.reasons == ["a", "b"])
        #expect(first.stricter(.allow) == first && OutputDecision.allow.stricter(first) == first)
    }

    @Test func aLicensesFrameSizeIsALimitEverywhere() {
        var policy = OutputPolicy.unrestricted
        policy.maximumFrame = .init(width: 1920, height: 1080)
        let panel = OutputFacts.outputs([Output(name: "eDP-1", kind: .internalPanel)])
        let decision = OutputEvaluator().decide([policy], facts: panel)
        #expect(decision.treatment(width: 1920, height: 1080) == .pass)
        #expect(decision.treatment(width: 3840, height: 2160) == .constrict(pixels: 1920 * 1080))
    }
}
