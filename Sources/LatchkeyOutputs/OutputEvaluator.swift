// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Judges outputs by what licenses, playlists and the application say. Pure: same facts, same decision.
///
/// All of them come as `OutputPolicy`: a PlayReady-style license has one, and the HDCP value of a FairPlay-style license
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
        default: "the license allows no \(media) on \(output.name) (\(output.kind.rawValue), protection: \(present))"
        }
    }
}

/// What may reach the outputs. A value.
///
/// A limit is for the code that chooses variants first: a lower one plays undisturbed. Frames above the limit are
/// constricted, and blocked if that cannot be done.
public struct OutputDecision: Hashable, Sendable {
    public var isVideoBlocked = false
    public var isAudioBlocked = false
    /// Frames of more pixels are to be constricted to so many. Nil: no limit.
    public var maximumPixels: Int?
    /// Larger frames are not to be shown. Nil: no limit.
    public var maximumFrame: OutputPolicy.FrameSize?
    /// The application's picture is shown in the place of the blocked video.
    public var showsAlternative = false
    /// The application does not want to play on in front of such outputs.
    public var endsPlayback = false
    /// What links are to be asked for. Larger than `.unprotected` also where playback goes on without.
    public var request = OutputRequirement.unprotected
    /// Why something is blocked or limited, in words that name the output; in order, without repetition.
    public var reasons: [String] = []

    public init() {}

    /// Everything passes.
    public static let allow = OutputDecision()

    /// Whether all of it passes.
    public var isUnrestricted: Bool {
        !isVideoBlocked && !isAudioBlocked && maximumPixels == nil && maximumFrame == nil && !endsPlayback
    }

    /// What to do with a frame.
    public enum Treatment: Hashable, Sendable {
        case pass
        /// Take detail out, so that so many pixels are left.
        case constrict(pixels: Int)
        case block
    }

    /// What to do with a frame of this size, in pixels. One without a size is above every limit.
    public func treatment(width: Int, height: Int) -> Treatment {
        if isVideoBlocked || endsPlayback { return .block }
        let hasSize = width > 0 && height > 0
        var limit = maximumPixels
        if let frame = maximumFrame, !hasSize || !frame.holds(width: width, height: height) {
            limit = min(limit ?? .max, OutputDecision.pixels(frame.width, frame.height))
        }
        guard let limit, !hasSize || OutputDecision.pixels(width, height) > limit else { return .pass }
        return limit > 0 ? .constrict(pixels: limit) : .block
    }

    /// The stricter of both, in everything.
    public func stricter(_ other: OutputDecision) -> OutputDecision {
        var result = self
        result.isVideoBlocked = isVideoBlocked || other.isVideoBlocked
        result.isAudioBlocked = isAudioBlocked || other.isAudioBlocked
        result.endsPlayback = endsPlayback || other.endsPlayback
        result.showsAlternative = showsAlternative || other.showsAlternative
        result.maximumPixels = [maximumPixels, other.maximumPixels].compactMap(\.self).min()
        if let mine = maximumFrame, let others = other.maximumFrame {
            result.maximumFrame = .init(
                width: min(mine.width, others.width), height: min(mine.height, others.height))
        } else {
            result.maximumFrame = maximumFrame ?? other.maximumFrame
        }
        result.request = max(request, other.request)
        for reason in other.reasons where !result.reasons.contains(reason) { result.reasons.append(reason) }
        return result
    }

    /// Of a frame of any size, also one that a license or media make up. `Int.max` where there are more.
    public static func pixels(_ width: Int, _ height: Int) -> Int {
        let (product, overflows) = max(width, 0).multipliedReportingOverflow(by: max(height, 0))
        return overflows ? .max : product
    }
}

/// What the application makes of external digital outputs, whatever the license says of them. Enforced for protected
/// content only.
///
/// After the five modes of the Downloadable Agent's manual, "Setting restrictions for the HDMI output".
public enum HDMIMode: String, CaseIterable, Sendable {
    /// The license decides.
    case standard = "default"
    /// None may be there: playback ends, also where the license would allow it.
    case disable
    /// They are allowed, also where the license does not allow them.
    case allow
    /// Sound only.
    case audioOnly = "audio-only"
    /// A picture of the application's instead of the video; white where it gave none.
    case alternative
}

extension OutputPolicy {
    /// The rule for one medium on one kind of output.
    func rule(for media: Media, on kind: Output.Kind) -> OutputRule {
        switch (kind, media) {
        case (.internalPanel, _): .pass
        case (.digital, _), (.insecure, _): digitalRule(for: media)
        case (.analogVideo, .video): analogVideo
        case (.analogMonitor, .video): analogMonitor
        // Licenses have no rule for analog sound.
        case (.analogVideo, .audio), (.analogMonitor, .audio): .pass
        case (.unknown, .video): unknownOutputs
        case (.unknown, .audio): digitalAudio
        }
    }

    /// What digital links are asked for.
    var request: OutputRequirement {
        [digitalVideo, digitalAudio].map { rule -> OutputRequirement in
            switch rule {
            case .require(let requirement): requirement
            case .tryToProtect, .protectOrReduce: .hdcpType0
            case .pass, .copyNever, .block: .unprotected
            }
        }.max() ?? .unprotected
    }
}
