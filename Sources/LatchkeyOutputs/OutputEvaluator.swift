// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Judges outputs by what licences, playlists and the application say. Pure: same facts, same decision.
///
/// All of them come as `OutputPolicy`: a PlayReady-style licence has one, and the HDCP value of a FairPlay-style licence
/// or of a playlist (HDCP-LEVEL) makes one. Each output takes the rule for its kind, and the strictest result counts.
public struct OutputEvaluator: Hashable, Sendable {
    public var hdmiMode: HDMIMode
    /// What the application itself wants of all outputs of protected content.
    public var minimum: OutputRequirement

    public init(hdmiMode: HDMIMode = .standard, minimum: OutputRequirement = .unprotected) {
        self.hdmiMode = hdmiMode
        self.minimum = minimum
    }

    /// What may reach these outputs. `policies`: one for each key in use, `OutputPolicy.unrestricted` for a key without
    /// a rule. None: the content is clear, and everything passes.
    public func decide(_ policies: [OutputPolicy], facts: OutputFacts) -> OutputDecision {
        guard !policies.isEmpty else { return .allow }
        let all = minimum == .unprotected ? policies : policies + [OutputPolicy(requirement: minimum)]
        let (outputs, ignorance) = facts.judged
        var decision = OutputDecision()
        for output in outputs {
            for policy in all {
                // Where nothing is known, what has no rule is not held against it.
                if ignorance != nil, !policy.hasRules(for: .video), !policy.hasRules(for: .audio) { continue }
                decision = decision.stricter(judge(output, by: policy))
            }
            if output.kind == .digital {
                decision = decision.stricter(judgeMode(of: output, isKnown: ignorance == nil))
            }
        }
        for policy in all {
            guard let frame = policy.maximumFrame else { continue }
            var limit = OutputDecision()
            limit.maximumFrame = frame
            decision = decision.stricter(limit)
        }
        if let ignorance, !decision.isUnrestricted { decision.reasons = [ignorance] }
        return decision
    }

    private func judge(_ output: Output, by policy: OutputPolicy) -> OutputDecision {
        var decision = OutputDecision()
        guard output.kind != .internalPanel, output.kind != .digital || hdmiMode != .allow else { return decision }
        if output.kind == .digital { decision.request = policy.request }
        let video = policy.rule(for: .video, on: output.kind)
        switch video.verdict(on: output) {
        case .allow: break
        case .limit(let pixels):
            decision.maximumPixels = pixels
            decision.reasons.append("\(output.name) has no HDCP: at most \(pixels) pixels a frame")
        case .block:
            decision.isVideoBlocked = true
            decision.reasons.append(video.reason(output, "video"))
        }
        let audio = policy.rule(for: .audio, on: output.kind)
        if audio.verdict(on: output) != .allow {
            decision.isAudioBlocked = true
            decision.reasons.append(audio.reason(output, "audio"))
        }
        return decision
    }

    private func judgeMode(of output: Output, isKnown: Bool) -> OutputDecision {
        var decision = OutputDecision()
        switch hdmiMode {
        case .standard, .allow: return decision
        case .disable:
            decision.isAudioBlocked = true
            // Outputs that could not be read may have none that is meant.
            decision.endsPlayback = isKnown
        case .audioOnly: break
        case .alternative: decision.showsAlternative = true
        }
        decision.isVideoBlocked = true
        decision.reasons.append("the application allows no video on \(output.name) (hdmi-mode \(hdmiMode.rawValue))")
        return decision
    }
}

enum OutputVerdict: Hashable {
    case allow
    /// At most so many pixels a frame.
    case limit(Int)
    case block
}

extension OutputRule {
    /// The table of rules against links.
    func verdict(on output: Output) -> OutputVerdict {
        switch self {
        case .pass, .tryToProtect, .copyNever(isRequired: false): .allow
        // Nothing here can set the bits; what has HDCP is past copying.
        case .copyNever(isRequired: true): output.level >= .hdcpType0 ? .allow : .block
        case .protectOrReduce(let pixels): output.level >= .hdcpType0 ? .allow : .limit(pixels)
        case .require(let requirement): output.level >= requirement ? .allow : .block
        case .block: .block
        }
    }

    func reason(_ output: Output, _ media: String) -> String {
        let present =
            switch output.protection {
            case .none: "none"
            case .requested: "HDCP requested, not there yet"
            case .hdcpType0: "HDCP type 0"
            case .hdcpType1: "HDCP type 1"
            }
        return switch self {
        case .require(.hdcpType1): "\(media) needs HDCP type 1 on \(output.name), which has: \(present)"
        case .require: "\(media) needs HDCP on \(output.name), which has: \(present)"
        default: "the licence allows no \(media) on \(output.name) (\(output.kind.rawValue), protection: \(present))"
        }
    }
}
