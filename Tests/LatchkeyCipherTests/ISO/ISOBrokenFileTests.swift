// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyContainers
import LatchkeyProtection
import Testing

/// Every broken file of the corpus: the samples that are decrypted are right, or there is an error with a name.
@Suite("Box-level decryption of broken files") struct ISOBrokenFileTests {
    private struct Case: Decodable {
        struct Key: Decodable {
            var kid: String
            var key: String
        }
        struct Variant: Decodable { var file: String }
        var keys: [Key]
        var variants: [Variant]
    }

    struct Variant: Sendable, CustomTestStringConvertible {
        var folder: String
        var file: String
        var keys: [KeyID: String]
        var testDescription: String { "\(folder)/\(file)" }
    }

    static let variants: [Variant] = {
        let folders = (try? FileManager.default.contentsOfDirectory(atPath: Corpus.folder.path())) ?? []
        return folders.filter { $0.hasPrefix("broken-") }.sorted().flatMap { folder -> [Variant] in
            guard let data = try? Data(contentsOf: Corpus.folder.appending(path: "\(folder)/case.json")),
                let found = try? JSONDecoder().decode(Case.self, from: data)
            else { return [] }
            let keys = Dictionary(
                found.keys.compactMap { pair in KeyID(hex: pair.kid).map { ($0, pair.key) } },
                uniquingKeysWith: { a, _ in a })
            return found.variants.map(\.file).filter { $0.hasSuffix(".mp4") || $0.hasSuffix(".ismv") }.map {
                Variant(folder: folder, file: $0, keys: keys)
            }
        }
    }()

    /// Where not all samples are decrypted right: the start of the error, or why the bytes differ.
    private static let outcomes: [String: String] = [
        "broken-ffmpeg51-fragmented-noaux/media.mp4":
            "malformed: track 1 of the fragment at 1538: the encrypted sample",
        "broken-mp4-cbcs/constant-iv-size-0.mp4": "malformed: box “tenc”, offset 25: a constant IV of 0 bytes",
        "broken-mp4-cbcs/constant-iv-size-7.mp4": "malformed: box “tenc”, offset 25: a constant IV of 7 bytes",
        "broken-mp4-cbcs/pattern-0-0-video.mp4": "a valid pattern, not the one that was used",
        "broken-mp4-cbcs/pattern-15-15.mp4": "a valid pattern, not the one that was used",
        "broken-mp4-saiz-saio/saiz-default-255.mp4":
            "malformed: track 1 of the fragment at 1609: box “saiz”: 255 bytes",
        "broken-mp4-saiz-saio/saiz-entries-3.mp4": "malformed: track 1 of the fragment at 1609: box “saiz”: 3 bytes",
        "broken-mp4-saiz-saio/saio-offset-fffffff0.mp4": "truncated: track 1 of the fragment at 1609: box “saio”",
        "broken-mp4-saiz-saio/saio-offset-0.mp4": "malformed: track 1 of the fragment at 1609: box “saiz”: 28 bytes",
        "broken-mp4-seig/sbgp-index-out-of-range.mp4":
            "malformed: track 1 of the fragment at 1031: no sample group 65541",
        "broken-mp4-seig/sbgp-samplecount-ffffffff.mp4": "no key for ",
        "broken-mp4-seig/sgpd-length-3.mp4": "truncated: seig entry, offset 19",
        "broken-mp4-seig/seig-ivsize-0-no-constant.mp4": "truncated: seig entry, offset 36",
        "broken-mp4-senc/senc-truncated.mp4": "malformed: track 1 of the fragment at 1609: box “saiz”: 28 bytes",
        "broken-mp4-senc/senc-size-beyond-traf.mp4": "truncated: box “traf”, offset 422: box “senc” of 1048576 bytes",
        "broken-mp4-senc/protected-ffffffff.mp4": "subsample 0 ends behind the sample's 262 bytes",
        "broken-mp4-senc/sum-less-than-sample.mp4": "subsample 2 ends behind the sample's 494 bytes",
        "broken-mp4-senc/all-zero-subsamples.mp4": "the subsamples cover 0 of the sample's 494 bytes",
        "broken-mp4-senc/no-senc-no-saiz-no-saio.mp4":
            "malformed: track 1 of the fragment at 1609: the encrypted sample",
        "broken-mp4-tenc-sinf/tenc-ivsize-5.mp4": "malformed: track 1, sample entry “encv”: IVs of 5 bytes",
        "broken-mp4-tenc-sinf/tenc-ivsize-0-no-constant-iv.mp4": "truncated: box “tenc”, offset 24",
        "broken-mp4-tenc-sinf/tenc-ivsize-16-but-data-8.mp4": "malformed: track 1 of the fragment at 1609: box “saiz”",
        "broken-mp4-tenc-sinf/tenc-isprotected-0.mp4":
            "malformed: track 1 of the fragment at 1609: box “senc” says that samples are encrypted",
        "broken-mp4-tenc-sinf/tenc-kid-zero.mp4": "no key for 00000000000000000000000000000000",
        "broken-mp4-tenc-sinf/schm-abcd.mp4": "unsupported: track 1, sample entry “encv”: the protection scheme “abcd”",
        "broken-mp4-tenc-sinf/schm-missing.mp4": "malformed: track 1, sample entry “encv”: no box “schm”",
        "broken-mp4-tenc-sinf/frma-missing.mp4": "malformed: track 1, sample entry “encv”: no box “frma”",
        "broken-mp4-tenc-sinf/schi-missing.mp4": "malformed: track 1, sample entry “encv”: no box “schi”",
        "broken-mp4-truncated/cut-in-moof.mp4": "truncated: box “moof” at 1609",
        "broken-mp4-truncated/zero-length-sample.mp4": "malformed: track 1 of the fragment at 1609: the sample at 6837",
        "broken-piff/uuid-senc-truncated.ismv":
            "truncated: track 1 of the fragment at 875: PIFF's sample encryption box",
        "broken-piff/uuid-tenc-algorithm-9.ismv": "unsupported: box “uuid”, offset 20: AlgorithmID 9",
        "broken-piff/uuid-tenc-algorithm-0.ismv":
            "malformed: track 1 of the fragment at 875: PIFF's sample encryption box says that samples are encrypted",
    ]

    /// What right samples are: those of unbroken files of the same sources.
    private static let right: Set<String> = Set(
        Corpus.tracks.filter {
            $0.name.hasPrefix("bento4-cenc-muxed/") || $0.name.hasPrefix("shaka-cenc-iv8-h264-aac/")
                || $0.name.hasPrefix("shaka-cenc-keyrot/")
        }.flatMap { ((try? $0.expectedPackets()) ?? []).map(\.md5) })

    @Test func variantsAreFound() {
        #expect(Self.variants.count >= 50)
        let names = Set(Self.variants.map(\.testDescription))
        for name in Self.outcomes.keys { #expect(names.contains(name), "no such file: \(name)") }
    }

    @Test(arguments: variants)
    func samplesAreRightOrTheErrorHasAName(variant: Variant) throws {
        let file = Array(try Data(contentsOf: Corpus.folder.appending(path: variant.testDescription)))
        var access = ISORandomAccess()
        var table = KeyTable(variant.keys)
        var sums: [String] = []
        var outcome = ""
        do {
            try access.prepare(0..<UInt64(file.count)) { offset, count in
                offset < UInt64(file.count) ? Array(file[Int(offset)...].prefix(count)) : []
            }
            var bytes = Array(file[Int(access.extent.lowerBound)...].prefix(access.extent.count))
            try bytes.withUnsafeMutableBytes { bytes in
                _ = try access.decrypt(bytes) { plan, key, sample in
                    try table.decrypt(plan, key.keyID, sample)
                    sums.append(try Corpus.md5(UnsafeRawBufferPointer(sample)))
                }.get()
            }
        } catch {
            outcome = "\(error)"
        }
        let expected = Self.outcomes[variant.testDescription]
        let wrong = sums.count { !Self.right.contains($0) }
        if let expected, !expected.hasPrefix("a valid pattern") {
            #expect(outcome.hasPrefix(expected), "\(outcome)")
            #expect(wrong == 0, "\(sums.count) samples")
        } else {
            #expect(outcome.isEmpty, "\(outcome)")
            #expect(!sums.isEmpty && (wrong == 0) == (expected == nil), "\(wrong) of \(sums.count) samples differ")
        }
        // As a stream, the same: all of it, or the same kind of end.
        let streamed = try? WholeFile.stream(file, keys: variant.keys, cuts: [file.count / 3])
        #expect((streamed != nil) == outcome.isEmpty)
    }
}
