// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// The names of explicit output protections and play enablers. See `PlayReadyOutputTable` for the source.
public enum PlayReadyOutputID: String, Sendable, CaseIterable {
    /// For digital video. Data: UInt32 height, UInt32 width, big-endian; larger frames are not to be decoded.
    case maximumEffectiveResolution = "9645E831-E01D-4FFF-8342-0A720E3E028F"
    /// For digital video whose level requires HDCP: type 1 is required where the data, a number of 32 bits, is not 0.
    case hdcpType = "ABB2C6F1-E663-4625-A945-972D17B231E7"
    /// For digital audio: SCMS with "copy never". Microsoft lists it among the analog ones, too.
    case serialCopyManagement = "6D5CFA59-C250-4426-930E-FAC72C8FCFA6"
    /// For analog video: CGMS-A with "copy never", or no output.
    case copyGenerationRequired = "2098DE8D-7DDD-4BAB-96C6-32EBB6FABEA3"
    /// For analog video: CGMS-A with "copy never" where the output can do it.
    case copyGenerationBestEffort = "225CD36F-F132-49EF-BA8C-C91EA28E4369"
    /// For analog video: AGC and color stripe, 0 to 3. Nothing here can switch it on, so that all but 0 blocks.
    case automaticGainControl = "C3FD11C6-F8B7-4D20-B008-1DB17D61F2DA"
    /// For analog monitors (VGA): frames of `PlayReadyOutputTable.reducedPixels` at most.
    case analogMonitor = "D783A191-E083-4BAF-B2DA-E69F910B3772"
    /// For component outputs: frames of `PlayReadyOutputTable.reducedPixels` at most.
    case analogComponent = "811C5110-46C8-4C6E-8163-C0482A15D47E"
    /// No analog output at all.
    case digitalOnly = "760AE755-682A-41E0-B1B3-DCDF836A7306"
    /// A play enabler: outputs of which nothing is known may be used.
    case unknownOutput = "786627D8-C2A6-44BE-8F88-08AE255B01A7"
    /// A play enabler: the same, with frames of `PlayReadyOutputTable.reducedPixels` at most.
    case unknownOutputReduced = "B621D91F-EDCC-4035-8D4B-DC71760D43E9"
    /// A play enabler: AirPlay may be used.
    case airPlay = "5ABF0F0D-DC29-4B82-9982-FD8E57525BFC"

    /// Takes the bytes in either order: which one licenses use is not documented.
    init?(_ id: GUID) {
        guard let match = Self(rawValue: id.description) ?? Self(rawValue: id.swapped.description) else { return nil }
        self = match
    }

    /// The raw value as 16 bytes. Never nil for the cases above.
    public var id: GUID? { GUID(rawValue) }
}

extension OutputPolicy {
    /// What the terms of a license ask of the outputs.
    ///
    /// An explicit protection that is not known blocks the outputs that it is for. Terms without output levels ask for
    /// nothing.
    public init(_ terms: XMRTerms, table: PlayReadyOutputTable = .standard) {
        self.init()
        let levels = terms.outputLevels ?? .init()
        digitalVideo = table.row(levels.uncompressedDigitalVideo).digitalVideo
        analogVideo = table.row(levels.analogVideo).analogVideo
        analogMonitor = analogVideo
        digitalAudio = table.row(levels.uncompressedDigitalAudio).digitalAudio
        compressedAudio = table.row(levels.compressedDigitalAudio).compressedAudio
        for protection in terms.digitalVideoProtections { applyVideo(protection, levels) }
        for protection in terms.analogProtections { applyAnalog(protection) }
        for protection in terms.digitalAudioProtections { applyAudio(protection) }
        for enabler in terms.playEnablers {
            switch PlayReadyOutputID(enabler) {
            case .unknownOutput: unknownOutputs = .pass
            case .unknownOutputReduced where unknownOutputs != .pass:
                unknownOutputs = .protectOrReduce(pixels: PlayReadyOutputTable.reducedPixels)
            case .airPlay: allowsAirPlay = true
            // Other enablers only allow more.
            default: break
            }
        }
    }

    private mutating func applyVideo(_ protection: XMRTerms.ExplicitProtection, _ levels: XMRTerms.OutputLevels) {
        switch PlayReadyOutputID(protection.id) {
        case .maximumEffectiveResolution:
            guard let frame = FrameSize(bigEndian: protection.data) else { return digitalVideo = .block }
            let (width, height) = (frame.width, frame.height)
            maximumFrame = FrameSize(
                width: min(maximumFrame?.width ?? width, width), height: min(maximumFrame?.height ?? height, height))
        case .hdcpType:
            // Below level 271 the restriction has no HDCP to restrict.
            guard protection.flag != 0 else { break }
            if case .require = digitalVideo { digitalVideo = .require(.hdcpType1) }
        default: digitalVideo = .block
        }
    }

    private mutating func applyAnalog(_ protection: XMRTerms.ExplicitProtection) {
        switch PlayReadyOutputID(protection.id) {
        case .copyGenerationRequired: if analogVideo != .block { analogVideo = .copyNever(isRequired: true) }
        case .copyGenerationBestEffort: if analogVideo == .pass { analogVideo = .copyNever(isRequired: false) }
        // Nothing here can switch it on, and 0 asks for nothing.
        case .automaticGainControl: if protection.flag != 0 { analogVideo = .block }
        case .analogMonitor:
            if analogMonitor != .block { analogMonitor = .protectOrReduce(pixels: PlayReadyOutputTable.reducedPixels) }
        case .analogComponent:
            if analogVideo != .block { analogVideo = .protectOrReduce(pixels: PlayReadyOutputTable.reducedPixels) }
        case .serialCopyManagement:
            // One of Microsoft's pages lists it among the analog ones.
            applyAudio(protection)
        case .digitalOnly: (analogVideo, analogMonitor) = (.block, .block)
        default: (analogVideo, analogMonitor) = (.block, .block)
        }
    }

    private mutating func applyAudio(_ protection: XMRTerms.ExplicitProtection) {
        switch PlayReadyOutputID(protection.id) {
        case .serialCopyManagement: if digitalAudio == .pass { digitalAudio = .copyNever(isRequired: true) }
        default: digitalAudio = .block
        }
    }
}

extension XMRTerms.ExplicitProtection {
    /// A small number in four bytes. Microsoft's pages have it in either byte order.
    fileprivate var flag: UInt32 {
        let number = data.prefix(4).reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        return min(number, number.byteSwapped)
    }
}

extension OutputPolicy.FrameSize {
    /// Height, then width, in four bytes each.
    fileprivate init?(bigEndian bytes: [UInt8]) {
        guard bytes.count == 8 else { return nil }
        func number(_ part: ArraySlice<UInt8>) -> Int { part.reduce(0) { $0 << 8 | Int($1) } }
        self.init(width: number(bytes[4...]), height: number(bytes[..<4]))
    }
}

/// What output levels mean, as data: a developer with the compliance rules can correct a row.
///
/// The rows are those of Microsoft's "Output Protection Levels"
/// (<https://learn.microsoft.com/playready/overview/output-protection-levels>). Microsoft's pages do not agree on
/// compressed digital audio; the stricter reading stands here.
public struct PlayReadyOutputTable: Hashable, Sendable {
    /// What the levels up to a number ask of outputs.
    public struct Row: Hashable, Sendable {
        /// The row holds for levels up to this one.
        public var upTo: UInt16
        /// For video that leaves uncompressed and digital, as by HDMI.
        public var digitalVideo: OutputRule
        /// For component and composite outputs.
        public var analogVideo: OutputRule
        /// For sound that leaves uncompressed and digital.
        public var digitalAudio: OutputRule
        /// For sound that leaves compressed.
        public var compressedAudio: OutputRule

        /// A row that follows another one starts behind that one's `upTo`.
        public init(
            upTo: UInt16, digitalVideo: OutputRule, analogVideo: OutputRule, digitalAudio: OutputRule,
            compressedAudio: OutputRule
        ) {
            self.upTo = upTo
            self.digitalVideo = digitalVideo
            self.analogVideo = analogVideo
            self.digitalAudio = digitalAudio
            self.compressedAudio = compressedAudio
        }
    }

    /// Pixels of a frame that may pass unprotected up to level 270.
    public static let reducedPixels = 520_000

    /// In ascending order. Levels above the last row block.
    public var rows: [Row]

    /// `rows` has to be in ascending order of `upTo`: the first one that fits counts.
    public init(rows: [Row]) { self.rows = rows }

    /// The rows of Microsoft's page, in the stricter reading.
    public static let standard = PlayReadyOutputTable(rows: [
        Row(upTo: 100, digitalVideo: .pass, analogVideo: .pass, digitalAudio: .pass, compressedAudio: .pass),
        Row(
            upTo: 150, digitalVideo: .pass, analogVideo: .copyNever(isRequired: false), digitalAudio: .pass,
            compressedAudio: .block),
        Row(
            upTo: 200, digitalVideo: .pass, analogVideo: .copyNever(isRequired: true), digitalAudio: .pass,
            compressedAudio: .block),
        Row(
            upTo: 250, digitalVideo: .tryToProtect, analogVideo: .block, digitalAudio: .copyNever(isRequired: true),
            compressedAudio: .block),
        Row(
            upTo: 270, digitalVideo: .protectOrReduce(pixels: reducedPixels), analogVideo: .block,
            digitalAudio: .require(.hdcpType0), compressedAudio: .block),
        Row(
            upTo: 300, digitalVideo: .require(.hdcpType0), analogVideo: .block, digitalAudio: .require(.hdcpType0),
            compressedAudio: .block),
    ])

    func row(_ level: UInt16) -> Row {
        rows.first { level <= $0.upTo }
            ?? Row(
                upTo: .max, digitalVideo: .block, analogVideo: .block, digitalAudio: .block, compressedAudio: .block)
    }
}
