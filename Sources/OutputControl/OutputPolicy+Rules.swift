// SPDX-License-Identifier: MPL-2.0

public import ProtectionModel

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
    /// the application's own. Analog links and those that nobody knows have no HDCP.
    public init(requirement: OutputRequirement) {
        self = .unrestricted
        guard requirement != .unprotected else { return }
        digitalVideo = .require(requirement)
        (analogVideo, analogMonitor, unknownOutputs, compressedVideo) = (.block, .block, .block, .block)
        allowsAirPlay = false
    }

    /// The value of the attribute HDCP-LEVEL (RFC 8216bis, section 4.4.6.2): `NONE`, `TYPE-0` or `TYPE-1`. Another value
    /// asks for the most.
    public init(hdcpLevel: String) {
        switch hdcpLevel {
        case "NONE": self.init(requirement: .unprotected)
        case "TYPE-0": self.init(requirement: .hdcpType0)
        default: self.init(requirement: .hdcpType1)
        }
    }

    /// The rule for one medium on one kind of output.
    func rule(for media: Media, on kind: Output.Kind) -> OutputRule {
        switch (kind, media) {
        case (.internalPanel, _): .pass
        case (.digital, _), (.insecure, _): digitalRule(for: media)
        case (.analogVideo, .video): analogVideo
        case (.analogMonitor, .video): analogMonitor
        // Licences have no rule for analog sound.
        case (.analogVideo, .audio), (.analogMonitor, .audio): .pass
        case (.unknown, .video): unknownOutputs
        case (.unknown, .audio): digitalAudio
        }
    }

    /// What digital links are asked for.
    var request: OutputRequirement {
        switch (digitalVideo, digitalAudio) {
        case (.require(let video), .require(let audio)): max(video, audio)
        case (.require(let requirement), _), (_, .require(let requirement)): requirement
        case (.tryToProtect, _), (.protectOrReduce, _), (_, .tryToProtect), (_, .protectOrReduce): .hdcpType0
        default: .unprotected
        }
    }

    /// Whether there are outputs that this medium may not reach, or not in full: then somebody has to watch them.
    public func hasRules(for media: Media) -> Bool {
        switch media {
        case .video: digitalVideo.isRestrictive || analogVideo.isRestrictive || analogMonitor.isRestrictive
        case .audio: digitalAudio.isRestrictive
        }
    }
}

extension OutputRule {
    fileprivate var isRestrictive: Bool {
        switch self {
        case .pass, .tryToProtect, .copyNever(isRequired: false): false
        case .protectOrReduce, .require, .copyNever(isRequired: true), .block: true
        }
    }
}
