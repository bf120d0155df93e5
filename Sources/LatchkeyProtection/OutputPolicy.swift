// SPDX-License-Identifier: MPL-2.0

/// What a licence allows on one kind of output.
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

/// What a licence wants of the outputs, whatever the system that it comes from. A value; thread-safe.
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
    /// An output of which nobody knows what it is.
    public var unknownOutputs = OutputRule.block
    /// Whether the licence allows AirPlay.
    public var allowsAirPlay = false
    /// Larger frames are not to be decoded. Nil for no limit.
    public var maximumFrame: FrameSize?

    /// No rules, but for what no licence allows without saying so: compressed video, unknown outputs and AirPlay.
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
