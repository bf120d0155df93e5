// SPDX-License-Identifier: MPL-2.0

public import Foundation

/// The `pssh` boxes of corpus files, found by their type alone, without the code under test.
public enum CorpusBoxes {
    /// Files of every packager of the corpus, with boxes of both versions and of all systems.
    public static let files = [
        "bento4-cbcs-muxed/media.mp4", "gpac-cbcs-progressive/media.mp4", "hls-fmp4-cbcs-3drm/a_init.mp4",
        "shaka-cenc-3kids-2video-audio/audio.mp4", "shaka-cenc-explicit-pssh/audio.mp4",
        "shaka-cenc-iv8-h264-aac/audio.mp4", "dash-cenc-keyrot/a_1.m4s", "bento4-piff-ctr-ismv/media.ismv",
    ]

    /// The boxes of `files`.
    public static func all() throws -> [[UInt8]] { try files.flatMap { try boxes(of: $0) } }

    public static func boxes(of file: String) throws -> [[UInt8]] {
        let contents = try corpusFile(file)
        var boxes: [[UInt8]] = []
        var search = contents.startIndex..<contents.endIndex
        while let found = contents.range(of: Data("pssh".utf8), in: search) {
            search = found.upperBound..<contents.endIndex
            let start = found.lowerBound - 4
            let size = contents[start..<found.lowerBound].reduce(0) { $0 << 8 | Int($1) }
            boxes.append(Array(contents[start..<start + size]))
        }
        return boxes
    }

    public static func corpusFile(_ name: String) throws -> Data {
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        return try Data(contentsOf: tests.appendingPathComponent("Corpus/\(name)"))
    }
}
