// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyContainers
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

/// However a file is cut or read, what comes out is the same; and what is broken ends in an error with a name.
@Suite("Box-level decryption: properties") struct ISOPropertyTests {
    private static func file(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: Corpus.folder.appending(path: name)))
    }

    private static func track(_ name: String) throws -> Corpus.Track {
        try #require(Corpus.tracks.first { $0.name == name })
    }

    /// Keys of all files that the tests here use.
    private static let keys = Corpus.tracks.reduce(into: [KeyID: String]()) { keys, track in
        guard !track.name.contains("keyrot") else { return }
        keys.merge(track.keys) { first, _ in first }
    }

    @Test(arguments: ["bento4-piff-cbc-audio-ac3/audio", "shaka-cbcs-1-9-h264-aac/audio"])
    func aCutAtAnyByteChangesNothing(name: String) throws {
        let track = try Self.track(name)
        // Two fragments.
        let file = try Array(track.bytes().prefix(22_000))
        let whole = try WholeFile.stream(file, keys: track.keys, cuts: [])
        #expect(whole.count > 18_000)
        for cut in Array(0..<3500) + Array(stride(from: 3500, to: file.count, by: 101)) {
            let parts = try WholeFile.stream(file, keys: track.keys, cuts: [cut])
            guard parts == whole else {
                Issue.record("cut at \(cut)")
                return
            }
        }
        #expect(try WholeFile.stream(file, keys: track.keys, cuts: 1..<file.count) == whole)
    }

    @Test(arguments: [
        "bento4-piff-ctr-ismv/video", "bento4-cbcs-muxed/video", "ffmpeg-cenc-progressive/video",
        "shaka-cenc-clearlead/video",
        "gpac-cens-progressive/audio",
    ])
    func anyRangeIsThatOfTheClearFile(name: String) throws {
        let track = try Self.track(name)
        let keys = Corpus.tracks.filter { $0.files == track.files }.reduce(into: track.keys) {
            $0.merge($1.keys) { a, _ in a }
        }
        let file = try track.bytes()
        let clear = try WholeFile.readAnywhere(file, keys: keys)
        #expect(try WholeFile.readAnywhere(file, keys: keys, step: 1021) == clear)
        var random = SeededGenerator(seed: 3)
        for round in 0..<40 {
            var access = ISORandomAccess()
            var table = KeyTable(keys)
            for _ in 0..<8 {
                let start = Int.random(in: 0..<file.count, using: &random)
                let end = min(file.count, start + Int.random(in: 1...(round % 2 == 0 ? 64 : 20_000), using: &random))
                let part = try WholeFile.read(UInt64(start)..<UInt64(end), of: file, &access, &table)
                guard part == Array(clear[start..<end]) else {
                    Issue.record("\(start)..<\(end)")
                    return
                }
            }
        }
    }

    /// The bytes inside a `moof` are no header of a box, and often a broken one.
    @Test func anyByteOfAFragmentsBoxIsRead() throws {
        let track = try Self.track("bento4-cbcs-muxed/video")
        let keys = Corpus.tracks.filter { $0.files == track.files }.reduce(into: track.keys) {
            $0.merge($1.keys) { a, _ in a }
        }
        let file = try track.bytes()
        let clear = try WholeFile.readAnywhere(file, keys: keys)
        var table = KeyTable(keys)
        for start in 98_996..<99_727 {
            var access = ISORandomAccess()
            let range = UInt64(start)..<UInt64(start + 20)
            #expect(try WholeFile.read(range, of: file, &access, &table) == Array(clear[start..<start + 20]))
        }
    }

    /// A player that seeks in a progressive file that comes as a stream.
    @Test func aStreamGoesOnWhereItIsSent() throws {
        let track = try Self.track("gpac-cbcs-progressive/video")
        let keys = Corpus.tracks.filter { $0.files == track.files }.reduce(into: track.keys) {
            $0.merge($1.keys) { a, _ in a }
        }
        let file = try track.bytes()
        let clear = try WholeFile.readAnywhere(file, keys: keys)
        var stream = ISOStream()
        var table = KeyTable(keys)
        file[..<20_000].withUnsafeBytes { stream.append($0) }
        while case .sample(let key) = try stream.next() {
            try stream.withSample { try table.decrypt($0, key.keyID, $1) }
        }
        let samples = try #require(try IsoFile(file).samples["vide"])
        let place = try #require(samples.dropFirst(40).first).range.lowerBound
        try stream.jump(to: UInt64(place))
        file[place...].withUnsafeBytes { stream.append($0) }
        while case .sample(let key) = try stream.next() {
            try stream.withSample { try table.decrypt($0, key.keyID, $1) }
        }
        var output = [UInt8](repeating: 0, count: stream.outputSize)
        output.withUnsafeMutableBytes { stream.takeOutput(into: $0) }
        #expect(output == Array(clear[place...]))
        #expect(throws: FormatError.self) { try stream.jump(to: UInt64(place + 5)) }
    }

    /// A demuxer that shows key frames alone leaves out what is between these, and may go backwards.
    @Test func samplesOfAFragmentInAnyOrder() throws {
        let track = try Self.track("bento4-cbcs-muxed/video")
        let file = try track.bytes()
        let clear = try WholeFile.readAnywhere(file, keys: Self.keys)
        let samples = try #require(try IsoFile(file).samples["vide"])
        // All of them are in the first fragment, whose media starts with a header of eight bytes.
        let places = samples.prefix(20).map(\.range)
        let start = try #require(places.first).lowerBound - 8
        var stream = ISOStream()
        var table = KeyTable(Self.keys)
        func output(_ bytes: ArraySlice<UInt8>) throws -> [UInt8] {
            bytes.withUnsafeBytes { stream.append($0) }
            while case .sample(let key) = try stream.next() {
                try stream.withSample { try table.decrypt($0, key.keyID, $1) }
            }
            var part = [UInt8](repeating: 0, count: stream.outputSize)
            part.withUnsafeMutableBytes { stream.takeOutput(into: $0) }
            return part
        }
        #expect(try !stream.skip(to: UInt64(places[3].lowerBound)))
        #expect(try output(file[..<start]) == Array(clear[..<start]))
        for index in [12, 3, 15, 16, 0] {
            let place = places[index]
            #expect(try stream.skip(to: UInt64(place.lowerBound)))
            #expect(stream.outputOffset == UInt64(place.lowerBound))
            #expect(try output(file[place]) == Array(clear[place]))
        }
        #expect(throws: FormatError.self) { try stream.skip(to: UInt64(places[3].lowerBound + 5)) }
        #expect(try !stream.skip(to: .max))
    }

    @Test func changedFilesComeBack() throws {
        let files = try ["broken-mp4-truncated/cut-in-mdat.mp4", "broken-piff/uuid-senc-override-same.ismv"].map(
            Self.file)
        var random = SeededGenerator(seed: 5)
        var ends = (clear: 0, errors: 0)
        for _ in 0..<600 {
            guard let file = files.randomElement(using: &random) else { return }
            let head = random.mutate(Array(file.prefix(3200)))
            do {
                _ = try WholeFile.stream(head + file.dropFirst(3200), keys: Self.keys, cuts: [head.count / 2])
                ends.clear += 1
            } catch {
                ends.errors += 1
            }
            _ = try? WholeFile.readAnywhere(head + file.dropFirst(3200), keys: Self.keys, step: 4096)
        }
        #expect(ends.clear > 0 && ends.errors > 0)
    }
}
