// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// What may reach the outputs. A value.
///
/// A limit is for whoever chooses variants first: a lower one plays undisturbed. Frames above the limit are constricted,
/// and blocked where that cannot be done.
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

    /// What to do with a frame of this size, in pixels.
    public func treatment(width: Int, height: Int) -> Treatment {
        if isVideoBlocked || endsPlayback { return .block }
        var limit = maximumPixels
        if let frame = maximumFrame, !frame.holds(width: width, height: height) {
            limit = min(limit ?? .max, OutputDecision.pixels(frame.width, frame.height))
        }
        guard let limit, OutputDecision.pixels(width, height) > limit else { return .pass }
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

    /// Of a frame of any size, also one that a licence or media make up. `Int.max` where there are more.
    public static func pixels(_ width: Int, _ height: Int) -> Int {
        let (product, overflows) = max(width, 0).multipliedReportingOverflow(by: max(height, 0))
        return overflows ? .max : product
    }
}
