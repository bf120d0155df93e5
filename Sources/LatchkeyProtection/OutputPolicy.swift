// SPDX-License-Identifier: MPL-2.0

/// What a license allows on one kind of output.
public enum OutputRule: Hashable, Sendable {
    /// No protection is asked for.
    case pass
    /// Switch the protection of the link on; pass even if that fails.
    case tryToProtect
    /// Protect the link; a frame of at most so many pixels passes without.
    case protectOrReduce(pixels: Int)
    /// The link has to have HDCP.
    case require(OutputRequirement)
    /// The copy bits of the link (CGMS-A, SCMS) have to say “never”. Where they cannot be set, `isRequired` decides.
    case copyNever(isRequired: Bool)
    /// Nothing may leave by such an output.
    case block
}

/// What a license wants of the outputs, whatever the system that it comes from. A value; thread-safe.
public struct OutputPolicy: Hashable, Sendable {
    /// The size of a decoded frame.
    public struct FrameSize: Hashable, Sendable {
        /// In pixels, before any scaling for the screen.
        public var width: Int
        /// In pixels, before any scaling for the screen.
        public var height: Int

        /// Takes any numbers; 0 holds no frame.
        public init(width: Int, height: Int) {
            self.width = width
            self.height = height
        }

        /// Whether a frame is no larger, as it is or turned by a quarter.
        public func holds(width: Int, height: Int) -> Bool {
            width <= self.width && height <= self.height || width <= self.height && height <= self.width
        }
    }

    /// For HDMI, DVI and DisplayPort.
    public var digitalVideo = OutputRule.pass
    /// A link that carries the stream still compressed.
    public var compressedVideo = OutputRule.block
    /// Composite and component video.
    public var analogVideo = OutputRule.pass
    /// VGA and other analog links to a computer's screen.
    public var analogMonitor = OutputRule.pass
    /// For uncompressed digital audio.
    public var digitalAudio = OutputRule.pass
    /// For compressed digital audio.
    public var compressedAudio = OutputRule.pass
    /// An output of unknown kind.
    public var unknownOutputs = OutputRule.block
    /// Whether the license allows AirPlay.
    public var allowsAirPlay = false
    /// Larger frames are not to be decoded. Nil for no limit.
    public var maximumFrame: FrameSize?

    /// No rules, but for what no license allows without saying so: compressed video, unknown outputs and AirPlay.
    public init() {}

    /// What a digital video link needs so that the picture comes in full.
    public var requirement: OutputRequirement {
        switch digitalVideo {
        case .pass, .tryToProtect, .copyNever: .unprotected
        case .protectOrReduce: .hdcpType0
        case .require(let requirement): requirement
        case .block: .hdcpType1
        }
    }
}

extension OutputPolicy {
    /// What an output is given: each kind has rules of its own.
    public enum Media: Hashable, Sendable {
        /// Pictures; the rules of video outputs count.
        case video
        /// Sound; the rules of audio outputs count.
        case audio
    }

    /// The rule for a digital link that carries this medium uncompressed, as players' sinks have it.
    public func digitalRule(for media: Media) -> OutputRule {
        switch media {
        case .video: digitalVideo
        case .audio: digitalAudio
        }
    }

    /// The rule for a link that carries the stream still compressed.
    public func compressedRule(for media: Media) -> OutputRule {
        switch media {
        case .video: compressedVideo
        case .audio: compressedAudio
        }
    }

    /// Why no digital output may have this medium, in words; nil if one may. What is compressed has links of its own, and
    /// what is analog too: the watcher of the outputs asks for those.
    public func refusal(of media: Media) -> String? {
        guard digitalRule(for: media) == .block else { return nil }
        return switch media {
        case .video: "the license allows no output for digital video"
        case .audio: "the license allows no output for digital audio"
        }
    }
}

extension OutputPolicy {
    /// Everything may go anywhere: what a key without a rule has.
    public static let unrestricted: OutputPolicy = {
        var policy = OutputPolicy()
        policy.compressedVideo = .pass
        policy.unknownOutputs = .pass
        policy.allowsAirPlay = true
        return policy
    }()

    /// What one HDCP value means for all kinds of outputs: that of a FairPlay-style license, a playlist's HDCP-LEVEL, or the
    /// application's own. Analog links and unknown links have no HDCP.
    ///
    /// It is a rule for pictures alone. RFC 8216bis has these values for variants (EXT-X-STREAM-INF, section 4.4.6.2): “the
    /// Variant Stream could fail to play unless the output is protected by High-bandwidth Digital Content Protection (HDCP)”.
    /// Renditions of sound (EXT-X-MEDIA, section 4.4.6.1) have no such attribute. No public document says more of the block in
    /// FairPlay-style licenses, which has the same three values.
    public init(requirement: OutputRequirement) {
        self = .unrestricted
        guard requirement != .unprotected else { return }
        digitalVideo = .require(requirement)
        (analogVideo, analogMonitor, unknownOutputs, compressedVideo) = (.block, .block, .block, .block)
        allowsAirPlay = false
    }

    /// Whether there are outputs that this medium may not reach, or not in full: then the outputs have to be watched.
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

/// What a license wants of an output before it may show the picture. Ordered: the larger one is stricter.
public enum OutputRequirement: UInt8, Sendable, CaseIterable {
    /// No protection is needed.
    case unprotected = 0
    /// HDCP of any version.
    case hdcpType0 = 1
    /// HDCP 2.2 or later, on all links up to the screen.
    case hdcpType1 = 2
}

extension OutputRequirement: Comparable {
    /// By strictness: `unprotected` is the least.
    public static func < (left: OutputRequirement, right: OutputRequirement) -> Bool {
        left.rawValue < right.rawValue
    }
}
