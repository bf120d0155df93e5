// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection
import Testing

/// Layouts that no file of the corpus has, and claims that no file can keep.
@Suite("Box-level decryption: layouts") struct ISOLayoutTests {
    struct Found: Equatable {
        var offset: Int
        var vector: UInt64
        var subsamples: [Subsample]
    }

    /// What the samples of a file are decrypted with: the file read anywhere, and as a stream, which agree.
    func samples(_ file: [UInt8]) throws -> [Found] {
        var anywhere: [Found] = []
        var access = ISORandomAccess()
        try access.prepare(0..<UInt64(file.count)) { offset, count in
            offset < UInt64(file.count) ? Array(file[Int(offset)...].prefix(count)) : []
        }
        var bytes = file
        try bytes.withUnsafeMutableBytes { bytes in
            let start = UnsafeRawPointer(bytes.baseAddress.unsafelyUnwrapped)
            _ = try access.decrypt(bytes) { plan, key, sample in
                #expect(key.keyID?.bytes == BoxBuilder.keyID)
                let offset = UnsafeRawPointer(sample.baseAddress.unsafelyUnwrapped) - start
                anywhere.append(
                    Found(offset: offset, vector: plan.initializationVector.high, subsamples: plan.subsamples))
                sample.copyBytes(from: sample.map { ~$0 })
            }.get()
        }
        #expect(bytes.count == file.count)
        for step in [1, 7, file.count] {
            var output: [UInt8] = []
            var stream = ISOStream()
            for start in stride(from: 0, to: file.count, by: step) {
                file[start..<min(file.count, start + step)].withUnsafeBytes { stream.append($0) }
                while case .sample = try stream.next() {
                    stream.withSample { _, sample in sample.copyBytes(from: sample.map { ~$0 }) }
                }
            }
            try stream.end()
            output = [UInt8](repeating: 0, count: stream.outputSize)
            output.withUnsafeMutableBytes { stream.takeOutput(into: $0) }
            #expect(output == bytes)
        }
        return anywhere
    }

    private func failure(_ file: [UInt8]) throws -> FormatError {
        try #require(throws: FormatError.self) { try samples(file) }
    }

    private static let vectors: [[UInt8]] = [BoxBuilder.number(0xA1, 8), BoxBuilder.number(0xA2, 8)]
    private static let media = BoxBuilder.box("mdat", [UInt8](repeating: 0x55, count: 50))

    /// Two samples of 20 and 30 bytes behind `extra` bytes of other media.
    private func fragmented(_ auxiliary: (_ end: Int) -> [[UInt8]], base: Int? = nil, extra: Int = 0) -> [UInt8] {
        let movie = BoxBuilder.movie()
        let fragment = BoxBuilder.fragment { size in
            let data = size + 8 + extra
            return [
                BoxBuilder.tfhd(base: base),
                BoxBuilder.trun(offset: data - (base.map { $0 - movie.count } ?? 0), sizes: [20, 30]),
            ] + auxiliary(size)
        }
        return movie + fragment
    }

    @Test func offsetsMayCountFromTheBaseDataOffset() throws {
        let start = BoxBuilder.movie().count
        let sized = BoxBuilder.full("saiz", [8] + BoxBuilder.number(2, 4))
        // The IVs stand behind `saio`, whose offset counts from a base of 16 bytes into the fragment.
        func make(_ offset: Int) -> [UInt8] {
            fragmented(
                { _ in
                    [
                        sized, BoxBuilder.full("saio", BoxBuilder.number(1, 4) + BoxBuilder.number(offset, 4)),
                        BoxBuilder.box("free", Self.vectors.flatMap(\.self)),
                    ]
                }, base: start + 16)
        }
        let end = make(0).count - start
        let file = make(end - 16 - 16) + Self.media
        let first = start + end + 8
        #expect(
            try samples(file) == [
                Found(offset: first, vector: 0xA1, subsamples: []),
                Found(offset: first + 20, vector: 0xA2, subsamples: []),
            ])
    }

    /// In a segment of a stream, which is a file of its own or a part of one. `saio` counts from the same place.
    @Test(arguments: [0, 24, 1 << 20]) func theBaseDataOffsetMayBeThatOfAnotherFile(base: Int) throws {
        let movie = BoxBuilder.movie()
        let entries = Self.vectors.flatMap(\.self)
        let fragment = BoxBuilder.fragment { size in
            [
                BoxBuilder.tfhd(base: base), BoxBuilder.trun(offset: size + 8, sizes: [20, 30]),
                BoxBuilder.full("saiz", [8] + BoxBuilder.number(2, 4)),
                BoxBuilder.full("saio", BoxBuilder.number(1, 4) + BoxBuilder.number(size - entries.count, 4)),
                BoxBuilder.box("free", entries),
            ]
        }
        let first = movie.count + fragment.count + 8
        #expect(
            try samples(movie + fragment + Self.media) == [
                Found(offset: first, vector: 0xA1, subsamples: []),
                Found(offset: first + 20, vector: 0xA2, subsamples: []),
            ])
    }

    /// A fragment with a sample of each track, and its media behind it. `distance`: what is added to the size of the fragment.
    private func fragment(_ tracks: [(base: Int, distance: Int, size: Int)]) -> [UInt8] {
        func make(_ size: Int) -> [UInt8] {
            var boxes = BoxBuilder.full("mfhd", BoxBuilder.number(1, 4))
            for (index, track) in tracks.enumerated() {
                boxes += BoxBuilder.box(
                    "traf", BoxBuilder.tfhd(index + 1, base: track.base),
                    BoxBuilder.trun(offset: size + track.distance, sizes: [track.size]),
                    BoxBuilder.full("senc", BoxBuilder.number(1, 4) + Self.vectors[index]))
            }
            return BoxBuilder.box("moof", boxes)
        }
        return make(make(0).count) + Self.media
    }

    /// The track whose samples are the first ones of the media tells of all.
    @Test(arguments: [0, 24, 1 << 20]) func theBasesOfAllTracksMayBeThoseOfAnotherFile(base: Int) throws {
        let movie = BoxBuilder.movie(BoxBuilder.track() + BoxBuilder.track(2))
        let file = movie + fragment([(base, 28, 30), (base, 8, 20)])
        #expect(
            try samples(file) == [
                Found(offset: file.count - 50, vector: 0xA2, subsamples: []),
                Found(offset: file.count - 30, vector: 0xA1, subsamples: []),
            ])
    }

    /// The samples of both tracks have the same distance from their bases.
    @Test func basesThatAreRightCountAsTheyAre() throws {
        let movie = BoxBuilder.movie(BoxBuilder.track() + BoxBuilder.track(2))
        let file = movie + fragment([(movie.count, 8, 20), (movie.count + 20, 8, 30)])
        #expect(
            try samples(file) == [
                Found(offset: file.count - 50, vector: 0xA1, subsamples: []),
                Found(offset: file.count - 30, vector: 0xA2, subsamples: []),
            ])
    }

    /// As Microsoft's encoders write them: the media begins in the `mdat` box behind, and each track follows the one before it.
    @Test func fragmentsMayHaveNoOffsetAtAll() throws {
        func traf(_ track: Int, _ runs: [[Int]], _ vectors: [[UInt8]]) -> [UInt8] {
            let truns: [UInt8] = runs.flatMap { sizes in
                BoxBuilder.full(
                    "trun", flags: 0x200,
                    BoxBuilder.number(sizes.count, 4) + sizes.flatMap { BoxBuilder.number($0, 4) })
            }
            return BoxBuilder.box(
                "traf", BoxBuilder.full("tfhd", BoxBuilder.number(track, 4)), truns,
                BoxBuilder.full("senc", BoxBuilder.number(vectors.count, 4) + vectors.flatMap(\.self)))
        }
        let movie = BoxBuilder.movie(BoxBuilder.track() + BoxBuilder.track(2))
        let fragment = BoxBuilder.box(
            "moof", BoxBuilder.full("mfhd", BoxBuilder.number(1, 4)), traf(1, [[10], [10]], Self.vectors),
            traf(2, [[30]], [Self.vectors[0]]))
        // Offsets count from each fragment.
        for count in 1...2 {
            let file = movie + [[UInt8]](repeating: fragment + Self.media, count: count).flatMap(\.self)
            let found: [Found] = (1...count).flatMap { number in
                let end = movie.count + number * (fragment.count + Self.media.count)
                return [
                    Found(offset: end - 50, vector: 0xA1, subsamples: []),
                    Found(offset: end - 40, vector: 0xA2, subsamples: []),
                    Found(offset: end - 30, vector: 0xA1, subsamples: []),
                ]
            }
            #expect(try samples(file) == found)
        }
    }

    /// Demuxers leave out what is of no track of the file, such as metadata. If it is encrypted, nothing tells how.
    @Test(arguments: [false, true], [false, true]) func tracksThatAreNotThere(isFirst: Bool, hasList: Bool) throws {
        let list = BoxBuilder.full("senc", BoxBuilder.number(1, 4) + Self.vectors[0])
        func make(_ size: Int) -> [UInt8] {
            let own = BoxBuilder.box(
                "traf", BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + (isFirst ? 28 : 8), sizes: [30]), list)
            let other = BoxBuilder.box(
                "traf", BoxBuilder.tfhd(7), BoxBuilder.trun(offset: size + (isFirst ? 8 : 38), sizes: [20]),
                hasList ? list : [])
            return BoxBuilder.box(
                "moof", BoxBuilder.full("mfhd", BoxBuilder.number(1, 4)), isFirst ? other + own : own + other)
        }
        let file = BoxBuilder.movie() + make(make(0).count) + Self.media
        guard hasList else {
            let offset = file.count - (isFirst ? 30 : 50)
            #expect(try samples(file) == [Found(offset: offset, vector: 0xA1, subsamples: [])])
            return
        }
        let error = try failure(file)
        #expect(error.reason.contains("no track 7"), "\(error)")
    }

    /// They count from 1. `isDefault`: `trex` has the number, and `tfhd` has none.
    @Test(arguments: [true, false]) func sampleEntryZeroIsTheFirst(isDefault: Bool) throws {
        let number = BoxBuilder.number(isDefault ? 0 : 1, 4)
        let extends = BoxBuilder.full("trex", BoxBuilder.number(1, 4) + number + BoxBuilder.number(0, 12))
        let movie = BoxBuilder.box("moov", BoxBuilder.track(), BoxBuilder.box("mvex", extends))
        let fragment = BoxBuilder.fragment { size in
            [
                isDefault
                    ? BoxBuilder.tfhd()
                    : BoxBuilder.full("tfhd", flags: 0x20002, BoxBuilder.number(1, 4) + BoxBuilder.number(0, 4)),
                BoxBuilder.trun(offset: size + 8, sizes: [20, 30]),
                BoxBuilder.full("senc", BoxBuilder.number(2, 4) + Self.vectors.flatMap(\.self)),
            ]
        }
        #expect(try samples(movie + fragment + Self.media).map(\.vector) == [0xA1, 0xA2])
    }

    @Test(arguments: [[false], [true], [false, true], [true, false]])
    func samplesTellWhatTheyAre(areSound: [Bool]) throws {
        let tracks = areSound.enumerated().map { BoxBuilder.track($0 + 1, isSound: $1) }
        let movie = BoxBuilder.movie(tracks.flatMap(\.self))
        let auxiliary = [BoxBuilder.full("senc", BoxBuilder.number(1, 4) + Self.vectors[0])]
        let fragments = areSound.indices.flatMap { index in
            BoxBuilder.fragment { size in
                [BoxBuilder.tfhd(index + 1), BoxBuilder.trun(offset: size + 8, sizes: [50])] + auxiliary
            } + Self.media
        }
        let file = movie + fragments
        let expected = areSound.map { ISOKeyUse(keyID: KeyID(BoxBuilder.keyID), media: $0 ? .audio : .video) }
        var access = ISORandomAccess()
        try access.prepare(0..<UInt64(file.count)) { offset, count in
            offset < UInt64(file.count) ? Array(file[Int(offset)...].prefix(count)) : []
        }
        #expect(access.keys == expected)
        var bytes = file
        var found: [ISOKeyUse] = []
        _ = try bytes.withUnsafeMutableBytes { bytes in
            try access.decrypt(bytes) { _, key, _ in found.append(key) }.get()
        }
        #expect(found == expected)
        var stream = ISOStream()
        file.withUnsafeBytes { stream.append($0) }
        var steps: [ISOStream.Step] = []
        while case .sample(let key) = try stream.next() {
            steps.append(.sample(key))
            stream.withSample { _, _ in }
        }
        #expect(steps == expected.map { .sample($0) })
    }

    /// The fields of an encrypted sample entry are those of its format, which is only told behind them.
    @Test(arguments: [
        ("wvtt", BoxBuilder.box("vttC", Array("WEBVTT".utf8))), ("stpp", Array("http://www.w3.org/ns/ttml\0\0\0".utf8)),
        ("stpp", Array("urn:a\0urn:b\0image/png\0".utf8)), ("sbtt", Array("\0text/plain\0".utf8)),
        ("tx3g", [UInt8](repeating: 0, count: 30)), ("c608", []),
    ])
    func encryptedText(format: String, fields: [UInt8]) throws {
        for entry in ["enct", "encs"] {
            let movie = BoxBuilder.movie(BoxBuilder.textTrack(format, fields: fields, in: entry))
            #expect(try InitSegment(movie).keyIDs == [KeyID(BoxBuilder.keyID)])
            let fragment = BoxBuilder.fragment { size in
                [
                    BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + 8, sizes: [20, 30]),
                    BoxBuilder.full("senc", BoxBuilder.number(2, 4) + Self.vectors.flatMap(\.self)),
                ]
            }
            let start = movie.count + fragment.count + 8
            #expect(
                try samples(movie + fragment + Self.media) == [
                    Found(offset: start, vector: 0xA1, subsamples: []),
                    Found(offset: start + 20, vector: 0xA2, subsamples: []),
                ])
        }
    }

    /// As QuickTime ends a list of boxes.
    @Test(arguments: [1, 4, 7], [true, false]) func zerosAtTheEndOfASampleEntry(count: Int, isSound: Bool) throws {
        let zeros = [UInt8](repeating: 0, count: count)
        let movie = BoxBuilder.movie(BoxBuilder.track(isSound: isSound, end: zeros))
        #expect(try InitSegment(movie).keyIDs == [KeyID(BoxBuilder.keyID)])
        let fragment = BoxBuilder.fragment { size in
            [
                BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + 8, sizes: [20, 30]),
                BoxBuilder.full("senc", BoxBuilder.number(2, 4) + Self.vectors.flatMap(\.self)),
            ]
        }
        #expect(try samples(movie + fragment + Self.media).map(\.vector) == [0xA1, 0xA2])
        // Other bytes are no end of a list.
        let other = BoxBuilder.movie(BoxBuilder.track(isSound: isSound, end: [UInt8](repeating: 1, count: count)))
        #expect(throws: FormatError.self) { try InitSegment(other) }
        // What is put behind the boxes of a clear entry is found again.
        let clear = try InitSegment(BoxBuilder.movie(BoxBuilder.clearTrack(1, end: zeros)))
        let keyID = KeyID(high: 1, low: 2)
        let marked = try clear.markingProtected(scheme: .cenc, keyID: keyID, protectionBoxes: [])
        #expect(try InitSegment(marked).tracks.first?.encryption?.keyID == keyID)
    }

    /// As QuickTime ends a list of boxes, and as some writers pad them.
    @Test(arguments: [1, 4, 7, 12]) func zerosAtTheEndOfContainers(count: Int) throws {
        let zeros = [UInt8](repeating: 0, count: count)
        let track = BoxBuilder.box("trak", Array(BoxBuilder.track().dropFirst(8)), zeros)
        let movie = BoxBuilder.box("moov", track, BoxBuilder.trackExtends, zeros)
        let fragment = BoxBuilder.fragment { size in
            [
                BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + 8, sizes: [20, 30]),
                BoxBuilder.full("senc", BoxBuilder.number(2, 4) + Self.vectors.flatMap(\.self)), zeros,
            ]
        }
        #expect(try samples(movie + fragment + Self.media).map(\.vector) == [0xA1, 0xA2])
        // What is put behind the boxes is found again.
        let (keyID, box) = (KeyID(high: 1, low: 2), PSSHBox(system: .playReady, data: [1]))
        let section = try InitSegment(InitSegment(movie).rewriting(keyID: keyID, protectionBoxes: [box]))
        #expect(section.keyIDs == [keyID])
        #expect(section.protectionBoxes == [box])
    }

    @Test func fragmentsWithoutAMovieAreWhatTheDefaultsSay() throws {
        let fragment = BoxBuilder.fragment { size in
            [
                BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + 8, sizes: [50]),
                BoxBuilder.full("senc", BoxBuilder.number(1, 4) + Self.vectors[0]),
            ]
        }
        let keyID = try #require(KeyID(BoxBuilder.keyID))
        var stream = ISOStream(
            defaults: ISOEncryption(scheme: .cenc, initializationVectorSize: 8, keyID: keyID, media: .audio))
        (fragment + Self.media).withUnsafeBytes { stream.append($0) }
        #expect(try stream.next() == .sample(ISOKeyUse(keyID: keyID, media: .audio)))
    }

    @Test func informationMayStandInTheMedia() throws {
        let file =
            fragmented(
                { size in
                    [
                        BoxBuilder.full("saiz", [8] + BoxBuilder.number(2, 4)),
                        BoxBuilder.full("saio", BoxBuilder.number(1, 4) + BoxBuilder.number(size + 8, 4)),
                    ]
                }, extra: 16)
            + BoxBuilder.box("mdat", Self.vectors.flatMap(\.self), [UInt8](repeating: 0x55, count: 50))
        let found = try samples(file)
        #expect(found.map(\.vector) == [0xA1, 0xA2])
        #expect(found.map(\.offset) == [file.count - 50, file.count - 30])
    }

    @Test func eachRunMayHaveAnOffsetOfItsOwn() throws {
        let movie = BoxBuilder.movie()
        let fragment = BoxBuilder.fragment { size in
            let information = BoxBuilder.box("free", Self.vectors[1], Self.vectors[0])
            return [
                BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + 8, sizes: [20]),
                BoxBuilder.trun(offset: size + 28, sizes: [30]),
                BoxBuilder.full("saiz", [8] + BoxBuilder.number(2, 4)),
                BoxBuilder.full(
                    "saio", BoxBuilder.number(2, 4) + BoxBuilder.number(size - 8, 4) + BoxBuilder.number(size - 16, 4)),
                information,
            ]
        }
        #expect(try samples(movie + fragment + Self.media).map(\.vector) == [0xA1, 0xA2])
    }

    @Test func aListIsEnough() throws {
        let map = BoxBuilder.number(1, 2) + BoxBuilder.number(5, 2)
        let file =
            fragmented { _ in
                [
                    BoxBuilder.full(
                        "senc", flags: 2,
                        BoxBuilder.number(2, 4) + Self.vectors[0] + map + BoxBuilder.number(15, 4) + Self.vectors[1]
                            + map
                            + BoxBuilder.number(25, 4))
                ]
            } + Self.media
        #expect(
            try samples(file).map(\.subsamples) == [
                [Subsample(clear: 5, protected: 15)], [Subsample(clear: 5, protected: 25)],
            ])
    }

    /// As ffmpeg 8.1 and 9.0 write sound. Where `saio` leads elsewhere, or the list is shorter than it says, the first count.
    @Test(arguments: [(0, 4, [0xA1, 0xA2]), (0, 5, [0xB1, 0xB2]), (8, 4, [0xB2, 0xA1])])
    func listsMayHaveTheSamplesOfEarlierFragments(shift: Int, count: Int, expected: [UInt64]) throws {
        let vectors = [BoxBuilder.number(0xB1, 8), BoxBuilder.number(0xB2, 8)] + Self.vectors
        let file =
            fragmented { size in
                [
                    BoxBuilder.full("saiz", [8] + BoxBuilder.number(count, 4)),
                    BoxBuilder.full("saio", BoxBuilder.number(1, 4) + BoxBuilder.number(size - 32 + shift, 4)),
                    BoxBuilder.full("senc", BoxBuilder.number(count, 4) + vectors.flatMap(\.self)),
                ]
            } + Self.media
        #expect(try samples(file).map(\.vector) == expected)
    }

    /// The list alone, without `saio` that leads to it.
    @Test func aListWithEarlierSamplesIsEnough() throws {
        let vectors = [BoxBuilder.number(0xB1, 8)] + Self.vectors
        let file =
            fragmented { _ in
                [
                    BoxBuilder.full("saiz", [8] + BoxBuilder.number(3, 4)),
                    BoxBuilder.full("senc", BoxBuilder.number(3, 4) + vectors.flatMap(\.self)),
                ]
            } + Self.media
        #expect(try samples(file).map(\.vector) == [0xA1, 0xA2])
    }

    @Test func boxesAboutProtectionBecomeFree() throws {
        let file =
            fragmented { _ in
                [
                    BoxBuilder.full("senc", BoxBuilder.number(2, 4) + Self.vectors.flatMap(\.self)),
                    BoxBuilder.full(
                        "sgpd", version: 1, Array("roll".utf8) + BoxBuilder.number(2, 4) + BoxBuilder.number(0, 4)),
                    BoxBuilder.full(
                        "sgpd", version: 1, Array("seig".utf8) + BoxBuilder.number(20, 4) + BoxBuilder.number(0, 4)),
                ]
            } + Self.media
        var access = ISORandomAccess()
        var table = KeyTable([:])
        let head = try WholeFile.read(0..<UInt64(file.count - 58), of: file, &access, &table)
        let text = String(decoding: head.map { $0 < 0x80 ? $0 : 0x2E }, as: UTF8.self)
        for name in ["encv", "sinf", "senc"] { #expect(!text.contains(name), "\(name) is still there") }
        #expect(text.contains("avc1") && text.contains("sgpd"))
        #expect(text.components("free") == 3)
        #expect(!ISORecognition.isProtectedFile { Array(head.dropFirst(Int($0)).prefix($1)) })
        #expect(ISORecognition.isProtectedFile { Array(file.dropFirst(Int($0)).prefix($1)) })
    }

    @Test func anInitializationSectionIsLeftToPlayers() {
        let movie = BoxBuilder.movie()
        #expect(
            !ISORecognition.isProtectedFile { offset, count in
                offset + UInt64(count) <= UInt64(movie.count) ? Array(movie[Int(offset)...].prefix(count)) : nil
            })
    }

    /// Over HTTP, the first bytes are all that is there of a large table when its type is looked for.
    @Test func theStartOfATableIsEnoughToRecognizeAFile() {
        let movie = BoxBuilder.movie(
            BoxBuilder.track(table: [
                BoxBuilder.full("stts", BoxBuilder.number(1, 4) + [UInt8](repeating: 0, count: 1 << 16))
            ]))
        let start = movie.prefix(600)
        func peek(_ offset: UInt64, _ count: Int) -> [UInt8]? {
            offset + UInt64(count) <= UInt64(start.count) ? Array(start[Int(offset)...].prefix(count)) : nil
        }
        #expect(ISORecognition.isProtectedFile(peek))
    }

    // MARK: Media in front of its movie

    /// The first bytes, as a typefinder has them over HTTP.
    private func isMediaFirst(_ file: [UInt8], _ count: Int = .max, saysSize: Bool = false) -> Bool {
        let start = file.prefix(count)
        return ISORecognition.isMediaFirst(size: saysSize ? UInt64(start.count) : nil) { offset, count in
            let part = start.dropFirst(Int(clamping: offset)).prefix(count)
            return part.count == count ? Array(part) : nil
        }
    }

    @Test func mediaInFrontOfAMovieThatIsNotThereYetIsRecognized() {
        let type = BoxBuilder.box("ftyp", Array("isom".utf8))
        let media = BoxBuilder.box("free") + BoxBuilder.box("mdat", [UInt8](repeating: 7, count: 500))
        let movie = BoxBuilder.box("moov", BoxBuilder.track())
        let file = type + media + movie
        // The header of the media is enough; the type alone is not, nor is a movie whose sample entry is there needed.
        #expect(!isMediaFirst(file, type.count + 8))
        for count in [type.count + 16, type.count + 100, type.count + media.count, file.count - movie.count + 20] {
            #expect(isMediaFirst(file, count), "\(count) bytes")
            #expect(isMediaFirst(file, count, saysSize: true), "\(count) bytes")
        }
        #expect(!isMediaFirst(file))
        #expect(!isMediaFirst(file, saysSize: true))
        // A whole file has nothing else behind it.
        #expect(!isMediaFirst(type + media + BoxBuilder.box("moov"), saysSize: true))
        #expect(!isMediaFirst(type + media + [0, 0, 0, 2] + movie, saysSize: true))
        // What comes first in others: the movie, fragments, or nothing behind the media.
        #expect(!isMediaFirst(type + movie + media, type.count + 20))
        #expect(!isMediaFirst(BoxBuilder.box("styp", Array("msdh".utf8)) + BoxBuilder.box("moof") + media, 60))
        let endless = type + [0, 0, 0, 0] + Array("mdat".utf8) + [UInt8](repeating: 7, count: 500)
        #expect(!isMediaFirst(endless, 100))
    }

    @Test func moreMediaThanIsHeldIsRefused() throws {
        let type = BoxBuilder.box("ftyp", Array("isom".utf8))
        for (size, isHeld) in [(10 << 20 - type.count, true), (10 << 20 + 1, false)] {
            var stream = ISOStream()
            (type + BoxBuilder.number(size, 4) + Array("mdat".utf8)).withUnsafeBytes { stream.append($0) }
            #expect(try stream.next() == .needsMovie(from: UInt64(type.count + size)))
            #expect(stream.outputSize == type.count)
            var output = [UInt8](repeating: 0, count: type.count)
            output.withUnsafeMutableBytes { stream.takeOutput(into: $0) }
            guard isHeld else {
                #expect(throws: ISOStream.mediaFirst) { try stream.holdMedia() }
                continue
            }
            try stream.holdMedia()
            #expect(try stream.next() == .nothing)
            #expect(stream.outputSize == 0)
            // The end comes before the movie.
            let error = #expect(throws: FormatError.self) { try stream.end() }
            #expect(error?.reason.contains("moov") == true)
        }
    }

    /// Each may cost a request.
    @Test func theBoxesOfClearFilesAreNotWalkedThrough() {
        let file = BoxBuilder.box("ftyp", Array("isom".utf8)) + BoxBuilder.box("moov") + Self.media + Self.media
        var furthest: UInt64 = 0
        let isProtected = ISORecognition.isProtectedFile { offset, count in
            furthest = max(furthest, offset)
            return Array(file.dropFirst(Int(offset)).prefix(count))
        }
        #expect(!isProtected && furthest < 20)
    }

    // MARK: The index at the end

    /// Fragments, and behind them `mfra` or nothing.
    private func manyFragments(index: [UInt8]) -> [UInt8] {
        (0..<8).reduce(into: BoxBuilder.movie()) { file, _ in
            let start = fragmented { _ in
                [BoxBuilder.full("senc", BoxBuilder.number(2, 4) + Self.vectors.flatMap(\.self))]
            }
            file += start.dropFirst(BoxBuilder.movie().count) + Self.media
        } + index
    }

    private func placesLookedAt(_ range: Range<UInt64>, of file: [UInt8]) throws -> [UInt64] {
        var access = ISORandomAccess()
        var places: [UInt64] = []
        try access.prepare(range) { offset, count in
            places.append(offset)
            return offset < UInt64(file.count) ? Array(file[Int(offset)...].prefix(count)) : []
        }
        #expect(!access.changesExtent && access.extent == range)
        return places
    }

    @Test func anIndexAtTheEndIsFoundFromItsEnd() throws {
        let index = BoxBuilder.box(
            "mfra", BoxBuilder.full("tfra", [UInt8](repeating: 0, count: 30)),
            BoxBuilder.full("mfro", BoxBuilder.number(66, 4)))
        #expect(index.count == 66)
        let file = manyFragments(index: index)
        let size = UInt64(file.count)
        let places = try placesLookedAt(size - 16..<size, of: file)
        // None of the fragments.
        #expect(places.allSatisfy { $0 < 400 || $0 >= size - 66 }, "\(places)")
        // A size that does not lead to the index is none; the file is walked through then.
        var lying = file
        lying[file.count - 1] = 67
        #expect(try placesLookedAt(size - 16..<size, of: lying).contains { (400..<size - 66).contains($0) })
    }

    @Test func aSearchForAnIndexThatIsNotThereEndsAtOnce() throws {
        let file = manyFragments(index: [])
        let size = UInt64(file.count)
        let places = try placesLookedAt(size - 16..<size, of: file)
        #expect(places.allSatisfy { $0 < 800 || $0 == size - 16 }, "\(places)")
    }

    /// A sample of just that size is a sample, for who comes from its fragment.
    @Test func theLastSampleIsNotTakenForASearch() throws {
        let file =
            fragmented { _ in
                [BoxBuilder.full("senc", BoxBuilder.number(2, 4) + Self.vectors.flatMap(\.self))]
            } + Self.media
        var access = ISORandomAccess()
        let size = UInt64(file.count)
        try access.prepare(size - 16..<size) { offset, count in
            offset < size ? Array(file[Int(offset)...].prefix(count)) : []
        }
        #expect(access.changesExtent)
    }

    /// A table may say that a sample is there, and a demuxer may read it.
    @Test func whatIsAtTheEndOfNumbersIsNotThere() throws {
        let file = manyFragments(index: [])
        for count in [1, 4, 16] as [UInt64] {
            var access = ISORandomAccess()
            let range = UInt64.max - count..<UInt64.max
            try access.prepare(range) { offset, count in
                offset < UInt64(file.count) ? Array(file[Int(offset)...].prefix(count)) : []
            }
            #expect(access.extent.contains(range.lowerBound) || access.extent.isEmpty)
        }
    }

    // MARK: Claims

    @Test func aRunOfMoreSamplesThanCanBeIsRefused() throws {
        let fragment = BoxBuilder.fragment { size in
            [
                BoxBuilder.tfhd(),
                BoxBuilder.full("trun", flags: 1, BoxBuilder.number(0xFFFF_FFFF, 4) + BoxBuilder.number(size, 4)),
            ]
        }
        let error = try failure(BoxBuilder.movie() + fragment + Self.media)
        #expect(error.isSameKind(as: .tooLarge("")))
        #expect(error.reason.hasSuffix("with it, the tracks have more than \(1 << 19) samples"))
    }

    /// Each of them is allowed, and 80 bytes long; all of them together would take more memory than anything needs.
    @Test func manyFragmentsOfManySamplesAreRefused() throws {
        let tenc = BoxBuilder.full(
            "tenc", version: 1, [0, 0x19, 1, 0] + BoxBuilder.keyID + [8] + BoxBuilder.number(1, 8))
        let fragment = BoxBuilder.fragment { size in
            [
                BoxBuilder.tfhd(),
                BoxBuilder.full("trun", flags: 1, BoxBuilder.number(1 << 18, 4) + BoxBuilder.number(size, 4)),
            ]
        }
        var stream = ISOStream()
        BoxBuilder.movie(BoxBuilder.track(scheme: "cbcs", tenc: tenc)).withUnsafeBytes { stream.append($0) }
        for _ in 0..<10 { fragment.withUnsafeBytes { stream.append($0) } }
        let error = #expect(throws: FormatError.self) { while try stream.next() != .nothing {} }
        #expect(error?.isSameKind(as: .tooLarge("")) == true)
        #expect(error?.reason.contains("sample tables") == true, "\(String(describing: error))")
    }

    @Test func boxesInOneAnotherEndTheRecognition() {
        var inner = BoxBuilder.box("free")
        for _ in 0..<4000 { inner = BoxBuilder.box("trak", inner) }
        let file = BoxBuilder.box("moov", inner) + Self.media
        #expect(!ISORecognition.isProtectedFile { Array(file.dropFirst(Int($0)).prefix($1)) })
    }

    @Test func aTableOfMoreSamplesThanCanBeIsRefused() throws {
        let table = [
            BoxBuilder.full("stsz", BoxBuilder.number(1, 4) + BoxBuilder.number(0xFFFF_FFFF, 4)),
            BoxBuilder.full(
                "stsc",
                BoxBuilder.number(1, 4) + BoxBuilder.number(1, 4) + BoxBuilder.number(0xFFFF_FFFF, 4)
                    + BoxBuilder.number(1, 4)),
            BoxBuilder.full("stco", BoxBuilder.number(1, 4) + BoxBuilder.number(8, 4)),
        ]
        let error = try failure(BoxBuilder.movie(BoxBuilder.track(7, table: table)) + Self.media)
        #expect(error.isSameKind(as: .tooLarge("")))
        // Sound of 24 hours has 4,050,000.
        #expect(error.reason == "track 7: with it, the tracks have more than \(4 << 20) samples")
    }

    /// No file is that large.
    @Test func aSampleBehindTheLargestPlaceIsRefused() throws {
        let table = [
            BoxBuilder.full("stsz", BoxBuilder.number(8, 4) + BoxBuilder.number(1, 4)),
            BoxBuilder.full(
                "stsc", BoxBuilder.number(1, 4), BoxBuilder.number(1, 4), BoxBuilder.number(1, 4),
                BoxBuilder.number(1, 4)),
            BoxBuilder.full("co64", BoxBuilder.number(1, 4) + BoxBuilder.number(1 << 47, 8)),
        ]
        let error = try failure(BoxBuilder.movie(BoxBuilder.track(table: table)) + Self.media)
        #expect(error.reason == "track 1: a sample at \(1 << 47)")
    }

    @Test(arguments: ["saiz", "saio", "senc", "sgpd", "sbgp", "trun"])
    func countsPastTheEndOfTheBoxAreRefused(type: String) throws {
        let count = BoxBuilder.number(0xFFFF_FFFF, 4)
        let file =
            fragmented { size in
                switch type {
                case "saiz": [BoxBuilder.full("saiz", [0] + count)]
                case "saio": [BoxBuilder.full("saiz", [8] + BoxBuilder.number(2, 4)), BoxBuilder.full("saio", count)]
                case "senc": [BoxBuilder.full("senc", count)]
                case "sgpd":
                    [
                        BoxBuilder.full(
                            "sgpd", version: 1,
                            Array("seig".utf8) + BoxBuilder.number(0, 4) + BoxBuilder.number(0xFFFF, 4))
                    ]
                case "sbgp": [BoxBuilder.full("sbgp", Array("seig".utf8) + count)]
                default: [BoxBuilder.full("trun", flags: 0x200, count)]
                }
            } + Self.media
        #expect(try failure(file).isSameKind(as: .truncated("")))
    }

    @Test func samplesThatShareBytesAreRefused() throws {
        let movie = BoxBuilder.movie()
        let fragment = BoxBuilder.fragment { size in
            [
                BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + 8, sizes: [20]),
                BoxBuilder.trun(offset: size + 18, sizes: [20]),
                BoxBuilder.full("senc", BoxBuilder.number(2, 4) + Self.vectors.flatMap(\.self)),
            ]
        }
        #expect(try failure(movie + fragment + Self.media).isSameKind(as: .malformed("")))
    }

    @Test(arguments: [-8, 40])
    func samplesOutsideOfTheMediaAreRefused(distance: Int) throws {
        let fragment = BoxBuilder.fragment { size in
            [
                BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + 8 + distance, sizes: [20]),
                BoxBuilder.full("senc", BoxBuilder.number(1, 4) + Self.vectors[0]),
            ]
        }
        #expect(try failure(BoxBuilder.movie() + fragment + Self.media).isSameKind(as: .malformed("")))
    }

    @Test func fragmentsWithoutAMovieTakeTheDefaults() throws {
        let keyID = try #require(KeyID(BoxBuilder.keyID))
        let fragment = BoxBuilder.fragment { size in
            [
                BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + 8, sizes: [20, 30]),
                BoxBuilder.full("senc", BoxBuilder.number(2, 4) + Self.vectors.flatMap(\.self)),
            ]
        }
        let file = fragment + Self.media
        var stream = ISOStream(defaults: ISOEncryption(scheme: .cbc1, initializationVectorSize: 8, keyID: keyID))
        file.withUnsafeBytes { stream.append($0) }
        var plans: [SamplePlan] = []
        while case .sample(let found) = try stream.next() {
            #expect(found == ISOKeyUse(keyID: keyID, media: .video))
            stream.withSample { plan, _ in plans.append(plan) }
        }
        #expect(plans.map(\.scheme) == [.cbc1, .cbc1])
        #expect(plans.map(\.initializationVector.high) == [0xA1, 0xA2])
        #expect(stream.outputSize == file.count)
    }
}

extension String {
    fileprivate func components(_ part: String) -> Int { indices.count { self[$0...].hasPrefix(part) } }
}
