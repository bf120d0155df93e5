// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// What output levels mean, as data: whoever has the compliance rules can correct a row.
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
