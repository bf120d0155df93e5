// SPDX-License-Identifier: MPL-2.0

extension OutputPolicy {
    /// Everything may go anywhere: what a key without a rule has.
    public static let unrestricted: OutputPolicy = {
        var policy = OutputPolicy()
        policy.compressedVideo = .pass
        policy.unknownOutputs = .pass
        policy.allowsAirPlay = true
        return policy
    }()

    /// What one HDCP value means for all kinds of outputs: that of a FairPlay-style licence, a playlist's HDCP-LEVEL, or
    /// the application's own. Analog links and those that nobody knows have no HDCP. It is a rule for pictures alone.
    public init(requirement: OutputRequirement) {
        self = .unrestricted
        guard requirement != .unprotected else { return }
        digitalVideo = .require(requirement)
        (analogVideo, analogMonitor, unknownOutputs, compressedVideo) = (.block, .block, .block, .block)
        allowsAirPlay = false
    }

    /// Whether there are outputs that this medium may not reach, or not in full: then somebody has to watch them.
    public func hasRules(for media: Media) -> Bool {
        switch media {
        case .video:
            digitalVideo.isRestrictive || analogVideo.isRestrictive || analogMonitor.isRestrictive
                || maximumFrame != nil
        case .audio: digitalAudio.isRestrictive
        }
    }
}

extension OutputRule {
    fileprivate var isRestrictive: Bool {
        switch self {
        case .pass, .tryToProtect, .copyNever(isRequired: false), .require(.unprotected): false
        case .protectOrReduce, .require, .copyNever(isRequired: true), .block: true
        }
    }
}

extension OutputRequirement {
    /// The value of the attribute HDCP-LEVEL (RFC 8216bis, section 4.4.6.2): `NONE`, `TYPE-0` or `TYPE-1`. Another value
    /// asks for the most.
    public init(hdcpLevel: String) {
        switch hdcpLevel {
        case "NONE": self = .unprotected
        case "TYPE-0": self = .hdcpType0
        default: self = .hdcpType1
        }
    }
}
