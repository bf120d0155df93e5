// SPDX-License-Identifier: MPL-2.0

import Foundation
@testable import LatchkeyProtection
import Testing

/// Every packet of real files, against what independent tools made of it.
@Suite struct CorpusTests {
    /// Tracks that do not come out as expected, and why. One that starts to pass must leave the list.
    private static let exceptions = [
        "gpac-cens-progressive/audio": """
        GPAC encrypts the trailing partial block of cens samples without subsamples. ISO/IEC 23001-7, 9.7 leaves it \
        clear, as shaka-cens-1-9-h264-aac/audio does, and nothing in the two files tells them apart.
        """
    ]

    @Test func tracksAreFound() {
        #expect(Corpus.tracks.count >= 40, "found \(Corpus.tracks.count) in \(Corpus.folder)")
        let names = Set(Corpus.tracks.map(\.name))
        for name in Self.exceptions.keys { #expect(names.contains(name), "no such track: \(name)") }
    }

    @Test(arguments: Corpus.tracks)
    func packetsEqualThoseOfTheCorpus(track: Corpus.Track) throws {
        let expected = try track.expectedPackets()
        try #require(!expected.isEmpty)
        if Self.exceptions[track.name] != nil {
            let packets = try? decrypt(track, isApart: false)
            #expect(packets != expected, "passes now")
            return
        }
        for isApart in [false, true] {
            let packets = try decrypt(track, isApart: isApart)
            #expect(packets.count == expected.count)
            let wrong = zip(packets, expected).enumerated().filter { $1.0 != $1.1 }.map(\.offset)
            #expect(wrong.isEmpty, "\(wrong.count) of \(expected.count) packets differ")
        }
        if let encrypted = track.encrypted {
            let packets = try decrypt(track, isApart: false, withKeys: false)
            // The corpus counts packets whose hash is new, so that a pair of equal ones counts less.
            #expect(zip(packets, expected).count { $0 != $1 } >= encrypted)
        }
    }

    /// What `SampleCipher` documents for producers that encrypt the partial block.
    @Test func partialBlocksOfCensAreDecryptedOnDemand() throws {
        let track = try #require(Corpus.tracks.first { $0.name == "gpac-cens-progressive/audio" })
        let packets = try decrypt(track, isApart: false) { plan, size in
            plan.subsamples = [Subsample(clear: 0, protected: UInt32(size))]
        }
        #expect(try packets == track.expectedPackets())
    }

    /// Files with broken subsample maps: the cipher refuses the samples that do not add up, by name.
    @Test(arguments: ["protected-ffffffff", "sum-less-than-sample"])
    func brokenMapsAreRefused(file name: String) throws {
        let bytes = Array(try Data(contentsOf: Corpus.folder.appending(path: "broken-mp4-senc/\(name).mp4")))
        let samples = try #require(try IsoFile(bytes).samples["vide"])
        let cipher = try SampleCipher([UInt8](repeating: 1, count: 16))
        var refused = 0
        for sample in samples {
            guard let plan = sample.protection?.plan else { continue }
            var before = Array(bytes[sample.range])
            let sum = plan.subsamples.reduce(0) { $0 + Int($1.clear) + Int($1.protected) }
            guard !plan.subsamples.isEmpty, sum != before.count else { continue }
            refused += 1
            let untouched = before
            #expect(throws: DecryptionError.self) {
                try before.withUnsafeMutableBytes { try cipher.decrypt(plan, in: $0) }
            }
            #expect(before == untouched)
        }
        #expect(refused > 0)
    }

    private func decrypt(
        _ track: Corpus.Track, isApart: Bool, withKeys: Bool = true,
        adjust: (inout SamplePlan, Int) -> Void = { _, _ in }
    ) throws -> [Corpus.Packet] {
        let file = try IsoFile(track.bytes())
        let samples = try #require(file.samples[track.handler])
        var ciphers: [KeyID: SampleCipher] = [:]
        return try samples.map { sample in
            var bytes = Array(file.bytes[sample.range])
            if withKeys, let (kid, original) = sample.protection {
                var plan = original
                adjust(&plan, bytes.count)
                if ciphers[kid] == nil {
                    let digits = try #require(track.keys[kid], "no key for \(kid)")
                    ciphers[kid] = try SampleCipher(key: try #require(ContentKey(hex: digits)))
                }
                let cipher = try #require(ciphers[kid])
                bytes = isApart ? try cipher.decryptApart(plan, bytes) : try cipher.decryptInPlace(plan, bytes)
            }
            return Corpus.Packet(size: bytes.count, md5: try bytes.withUnsafeBytes { try Corpus.md5($0) })
        }
    }
}
