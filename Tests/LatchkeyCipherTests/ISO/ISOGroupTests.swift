// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection
import Testing

/// What sample groups, sample entries and the boxes beside samples say of each other.
@Suite("Box-level decryption: groups and sample entries") struct ISOGroupTests {
    private static let vectors = BoxBuilder.number(0xA1, 8) + BoxBuilder.number(0xA2, 8)
    private static let list = BoxBuilder.full("senc", BoxBuilder.number(2, 4), vectors)
    private static let media = BoxBuilder.box("mdat", [UInt8](repeating: 0x55, count: 50))
    /// Of sample groups.
    private static let keyIDs: [[UInt8]] = [Array(0x20...0x2F), Array(0x30...0x3F)]

    /// `seig` groups with these KIDs; nil for one that is clear.
    private static func groups(_ keyIDs: [[UInt8]?], defaultIndex: Int? = nil) -> [UInt8] {
        let entries = keyIDs.flatMap { keyID -> [UInt8] in
            guard let keyID else { return [UInt8](repeating: 0, count: 20) }
            return [0, 0, 1, 8] + keyID
        }
        let index = defaultIndex.map { BoxBuilder.number($0, 4) } ?? []
        return BoxBuilder.full(
            "sgpd", version: defaultIndex == nil ? 1 : 2, Array("seig".utf8), BoxBuilder.number(20, 4), index,
            BoxBuilder.number(keyIDs.count, 4), entries)
    }

    /// So many samples in group number `index`, again and again.
    private static func runs(_ runs: [(count: Int, index: Int)]) -> [UInt8] {
        let rows = runs.flatMap { BoxBuilder.number($0.count, 4) + BoxBuilder.number($0.index, 4) }
        return BoxBuilder.full("sbgp", Array("seig".utf8), BoxBuilder.number(runs.count, 4), rows)
    }

    /// Two samples in a fragment of a track with these boxes.
    private static func file(_ tracks: [UInt8], of id: Int = 1, _ boxes: [[UInt8]]) -> [UInt8] {
        let fragment = BoxBuilder.fragment { size in
            [BoxBuilder.tfhd(id), BoxBuilder.trun(offset: size + 8, sizes: [20, 30])] + boxes
        }
        return BoxBuilder.movie(tracks) + fragment + media
    }

    /// The keys that the encrypted samples need, one after the other: read anywhere, and as a stream.
    private func uses(_ file: [UInt8]) throws -> [ISOKeyUse] {
        var access = ISORandomAccess()
        try access.prepare(0..<UInt64(file.count)) { offset, count in
            offset < UInt64(file.count) ? Array(file[Int(offset)...].prefix(count)) : []
        }
        var bytes = file
        var anywhere: [ISOKeyUse] = []
        _ = try bytes.withUnsafeMutableBytes { bytes in
            try access.decrypt(bytes) { _, key, _ in anywhere.append(key) }.get()
        }
        var stream = ISOStream()
        file.withUnsafeBytes { stream.append($0) }
        var streamed: [ISOKeyUse] = []
        while case .sample(let key) = try stream.next() {
            streamed.append(key)
            stream.withSample { _, _ in }
        }
        #expect(streamed == anywhere)
        return anywhere
    }

    // MARK: Groups

    private enum Sample { case ofEntry, ofGroup(Int), clear }

    private struct Groups {
        var name: String
        /// In `stbl` and in `traf`.
        var table: [[UInt8]] = []
        var boxes: [[UInt8]] = []
        var isEntryProtected = true
        var samples: [Sample]
    }

    private static let cases: [Groups] = [
        Groups(name: "none", samples: [.ofEntry, .ofEntry]),
        Groups(
            name: "of the track", table: [groups(keyIDs)], boxes: [runs([(1, 2), (1, 1)])],
            samples: [.ofGroup(1), .ofGroup(0)]),
        Groups(
            name: "of the track, by default", table: [groups(keyIDs, defaultIndex: 2)],
            samples: [.ofGroup(1), .ofGroup(1)]),
        Groups(
            name: "by default, but for those that are in none", table: [groups(keyIDs, defaultIndex: 1)],
            boxes: [runs([(1, 0)])], samples: [.ofEntry, .ofGroup(0)]),
        Groups(
            name: "by default, but for those of the fragment", table: [groups(keyIDs, defaultIndex: 1)],
            boxes: [groups([nil]), runs([(1, 0x10001)])], samples: [.clear, .ofGroup(0)]),
        Groups(
            name: "version 2 without a default", table: [groups(keyIDs, defaultIndex: 0)],
            samples: [.ofEntry, .ofEntry]),
        Groups(
            name: "of the fragment", table: [groups([nil])],
            boxes: [groups(keyIDs), runs([(1, 0x10002), (1, 0x10001)])], samples: [.ofGroup(1), .ofGroup(0)]),
        Groups(
            name: "of the fragment, counted from 1", boxes: [groups(keyIDs), runs([(1, 2), (1, 1)])],
            samples: [.ofGroup(1), .ofGroup(0)]),
        Groups(
            name: "of the fragment, counted from 1, behind those of the track", table: [groups([nil])],
            boxes: [groups(keyIDs), runs([(1, 2), (1, 1)])], samples: [.ofGroup(1), .clear]),
        Groups(
            name: "of the fragment, counted from 1, beside a sample entry that says clear",
            boxes: [groups(keyIDs), runs([(2, 1)])], isEntryProtected: false, samples: [.ofGroup(0), .ofGroup(0)]),
        Groups(
            name: "of the fragment, by default", table: [groups([nil], defaultIndex: 1)],
            boxes: [groups(keyIDs, defaultIndex: 2)], samples: [.ofGroup(1), .ofGroup(1)]),
        Groups(
            name: "with the KID of the sample entry", boxes: [groups([BoxBuilder.keyID]), runs([(2, 0x10001)])],
            samples: [.ofEntry, .ofEntry]),
        Groups(
            name: "beside a sample entry that says clear", boxes: [groups(keyIDs), runs([(2, 0x10001)])],
            isEntryProtected: false, samples: [.ofGroup(0), .ofGroup(0)]),
        Groups(
            name: "by default, beside a sample entry that says clear", table: [groups(keyIDs, defaultIndex: 1)],
            isEntryProtected: false, samples: [.ofGroup(0), .ofGroup(0)]),
    ]

    @Test(arguments: cases.indices) func groupsNameKeys(index: Int) throws {
        let groups = Self.cases[index]
        let track = BoxBuilder.track(tenc: BoxBuilder.tenc(isProtected: groups.isEntryProtected), table: groups.table)
        let entry = KeyID(BoxBuilder.keyID)
        let expected = groups.samples.compactMap { sample -> ISOKeyUse? in
            switch sample {
            case .clear: nil
            case .ofEntry: ISOKeyUse(keyID: entry, media: .video)
            case .ofGroup(let number):
                ISOKeyUse(keyID: KeyID(Self.keyIDs[number]), trackKeyID: entry, media: .video)
            }
        }
        #expect(try uses(Self.file(track, groups.boxes + [Self.list])) == expected, "\(groups.name)")
    }

    // MARK: Clear sample entries

    private static let clearEntry = BoxBuilder.track(tenc: BoxBuilder.tenc(vectorSize: 0, isProtected: false))
    private static let bothTracks = BoxBuilder.track() + BoxBuilder.clearTrack(2)
    private static let clearGroup = [groups([nil]), runs([(2, 0x10001)])]
    private static let sizes = BoxBuilder.full("saiz", [8], BoxBuilder.number(2, 4))
    /// Entries without IVs and maps.
    private static let emptyList = BoxBuilder.full("senc", flags: 2, BoxBuilder.number(2, 4), BoxBuilder.number(0, 4))

    /// `sign`: the box that tells of encrypted samples; nil: they are clear.
    private static let clearEntries: [(tracks: [UInt8], id: Int, boxes: [[UInt8]], sign: String?)] = [
        (clearEntry, 1, [list], "“senc”"),
        (clearEntry, 1, [sizes], "“saiz”"),
        (clearEntry, 1, [], nil),
        (clearEntry, 1, [emptyList], nil),
        (clearEntry, 1, clearGroup + [list], nil),
        (bothTracks, 2, [list], "“senc”"),
        (bothTracks, 2, [sizes], "“saiz”"),
        (bothTracks, 2, [groups(keyIDs), runs([(2, 0x10001)]), list], "“sgpd”"),
        (bothTracks, 2, [], nil),
        (bothTracks, 2, [emptyList], nil),
        (bothTracks, 2, clearGroup + [list], nil),
        (bothTracks, 2, [groups(keyIDs), runs([(2, 1)])], nil),
        // A description that is not there is none.
        (bothTracks, 2, [runs([(2, 0x10005)])], nil),
    ]

    @Test(arguments: clearEntries.indices) func encryptedSamplesOfClearEntriesAreAnError(index: Int) throws {
        let (tracks, id, boxes, sign) = Self.clearEntries[index]
        let file = Self.file(tracks, of: id, boxes)
        guard let sign else {
            #expect(try uses(file).isEmpty)
            return
        }
        let error = #expect(throws: FormatError.self) { try uses(file) }
        let text = error.map { "\($0)" } ?? ""
        #expect(text.contains("track \(id) ") && text.contains(sign), "\(text)")
        var stream = ISOStream()
        file.withUnsafeBytes { stream.append($0) }
        let other = #expect(throws: FormatError.self) { while try stream.next() != .nothing {} }
        #expect(other == error)
    }

    @Test(arguments: [true, false]) func theSameHoldsWithoutFragments(isFilled: Bool) throws {
        func movie(_ offset: Int) -> [UInt8] {
            let table: [[UInt8]] = [
                BoxBuilder.full("stsz", BoxBuilder.number(20, 4), BoxBuilder.number(2, 4)),
                BoxBuilder.full(
                    "stsc", BoxBuilder.number(1, 4), BoxBuilder.number(1, 4), BoxBuilder.number(2, 4),
                    BoxBuilder.number(1, 4)),
                BoxBuilder.full("stco", BoxBuilder.number(1, 4), BoxBuilder.number(offset, 4)),
                isFilled ? Self.list : Self.emptyList,
            ]
            return BoxBuilder.movie(BoxBuilder.track() + BoxBuilder.clearTrack(2, table: table))
        }
        let file = movie(movie(0).count + 8) + Self.media
        guard isFilled else {
            #expect(try uses(file).isEmpty)
            return
        }
        let error = #expect(throws: FormatError.self) { try uses(file) }
        #expect(error?.reason.hasPrefix("track 2: box “senc”") == true, "\(String(describing: error))")
    }

    /// Before a decryptor has the fragment, the init segment tells in which tracks these boxes are a sign.
    @Test(arguments: clearEntries.indices) func theInitSegmentTellsWhoseBoxesAreASign(index: Int) throws {
        let (tracks, id, boxes, sign) = Self.clearEntries[index]
        let section = try InitSegment(BoxBuilder.movie(tracks))
        #expect(section.tracks.map(\.isClear) == section.tracks.map { Int($0.id) == id })
        let file = Self.file(tracks, of: id, boxes)
        let found = file.withUnsafeBytes { ISORecognition.sign(inSegment: $0, of: section.tracks, hasDecryptor: true) }
        let expected = sign.map { FragmentSign.encrypted(box: "box \($0)", track: UInt32(id)) } ?? FragmentSign.none
        #expect(found == expected)
    }

    /// Tracks that a decryptor can read: their boxes are no sign.
    private static let readable: [(tracks: [UInt8], boxes: [[UInt8]])] = [
        (BoxBuilder.track(), [list]),
        (bothTracks, [list]),
        (clearEntry, [groups(keyIDs), runs([(2, 0x10001)]), list]),
        (clearEntry, [groups(keyIDs), runs([(2, 1)]), list]),
        (
            BoxBuilder.track(tenc: BoxBuilder.tenc(isProtected: false), table: [groups(keyIDs, defaultIndex: 1)]),
            [list]
        ),
    ]

    @Test(arguments: readable.indices) func encryptedTracksHaveNoSign(index: Int) throws {
        let (tracks, boxes) = Self.readable[index]
        let section = try InitSegment(BoxBuilder.movie(tracks))
        let file = Self.file(tracks, boxes)
        let found = file.withUnsafeBytes { ISORecognition.sign(inSegment: $0, of: section.tracks, hasDecryptor: true) }
        #expect(found == FragmentSign.none)
        #expect(try uses(file).count == 2)
    }

    // MARK: Fragments that say nothing

    private static let offsets = BoxBuilder.full("saio", BoxBuilder.number(1, 4), BoxBuilder.number(0, 4))

    /// IVs where a demuxer looks for them, and in boxes that it does not read.
    private static let places: [(tracks: [UInt8], boxes: [[UInt8]], unread: String?)] = [
        (BoxBuilder.track(), [list], "box “senc”"), (BoxBuilder.track(), [sizes], "box “saiz”"),
        (BoxBuilder.track(), [list, BoxBuilder.full("saiz", [0], BoxBuilder.number(0, 4)), offsets], "box “senc”"),
        (BoxBuilder.track(), [sizes, offsets], nil), (BoxBuilder.track(), [list, sizes, offsets], nil),
        (BoxBuilder.track(), clearGroup + [emptyList], nil), (bothTracks, [list], "box “senc”"),
        (BoxBuilder.track(scheme: "cbcs", tenc: constant()), [list], "box “senc”"),
        (BoxBuilder.track(scheme: "cbcs", tenc: constant()), [sizes, offsets], nil),
        (BoxBuilder.track(scheme: "cbcs", tenc: constant(), isSound: true), [list], nil),
    ]

    @Test(arguments: places.indices) func boxesThatDemuxersDoNotReadAreTold(index: Int) throws {
        let (tracks, boxes, unread) = Self.places[index]
        let section = try InitSegment(BoxBuilder.movie(tracks))
        let found = Self.file(tracks, boxes).withUnsafeBytes {
            ISORecognition.sign(inSegment: $0, of: section.tracks, hasDecryptor: true, findsSilence: true)
        }
        #expect(found == (unread.map { FragmentSign.unread(box: $0, track: 1) } ?? FragmentSign.none))
    }

    /// `isSilent`: the samples need IVs, and there are none. Behind a demuxer, they would be taken for clear.
    private static let silent: [(tracks: [UInt8], boxes: [[UInt8]], isSilent: Bool)] = [
        (BoxBuilder.track(), [], true), (BoxBuilder.track(isSound: true), [], true),
        (BoxBuilder.track(), [emptyList], true),
        (BoxBuilder.track(), [BoxBuilder.full("senc", BoxBuilder.number(0, 4))], true),
        (BoxBuilder.track(), [BoxBuilder.full("saiz", [0], BoxBuilder.number(0, 4))], true),
        (BoxBuilder.track(), [list, sizes, offsets], false), (BoxBuilder.track(), [sizes, offsets], false),
        // Those of clear samples.
        (BoxBuilder.track(), [BoxBuilder.full("saiz", [0], BoxBuilder.number(2, 4), [0, 0])], false),
        (BoxBuilder.track(), clearGroup, false), (BoxBuilder.track(table: [groups([nil], defaultIndex: 1)]), [], false),
        (clearEntry, [], false),
        (
            BoxBuilder.track(
                scheme: "cbcs",
                tenc: BoxBuilder.full("tenc", version: 1, [0, 0, 1, 0], BoxBuilder.keyID, [16], BoxBuilder.keyID)),
            [], false
        ),
    ]

    @Test(arguments: silent.indices) func fragmentsThatSayNothingAreTold(index: Int) throws {
        let (tracks, boxes, isSilent) = Self.silent[index]
        let section = try InitSegment(BoxBuilder.movie(tracks))
        let file = Self.file(tracks, boxes)
        for findsSilence in [true, false] {
            let found = file.withUnsafeBytes {
                ISORecognition.sign(
                    inSegment: $0, of: section.tracks, hasDecryptor: true, findsSilence: findsSilence)
            }
            #expect(found == (isSilent && findsSilence ? FragmentSign.silent(track: 1) : FragmentSign.none))
        }
        guard isSilent else { return }
        #expect(throws: FormatError.self) { try uses(file) }
    }

    private static func constant(_ isProtected: Bool = true) -> [UInt8] {
        BoxBuilder.full(
            "tenc", version: 1, [0, 0x19, isProtected ? 1 : 0, 0], BoxBuilder.keyID,
            isProtected ? [16] + BoxBuilder.keyID : [])
    }

    /// Pictures with a constant IV that have no subsamples, which some versions of a demuxer do not tell from clear ones.
    private static let unmapped: [(tracks: [UInt8], boxes: [[UInt8]], isUnmapped: Bool)] = [
        (BoxBuilder.track(scheme: "cbcs", tenc: constant()), [], true),
        (BoxBuilder.track(scheme: "cbcs", tenc: constant()), [emptyList], true),
        (BoxBuilder.track(scheme: "cbcs", tenc: constant()), [list], false),
        (BoxBuilder.track(scheme: "cbcs", tenc: constant()), [sizes], false),
        (BoxBuilder.track(scheme: "cbcs", tenc: constant()), clearGroup, false),
        (BoxBuilder.track(scheme: "cbcs", tenc: constant(), table: [groups([nil], defaultIndex: 1)]), [], false),
        (BoxBuilder.track(scheme: "cbcs", tenc: constant(false)), [], false),
        (BoxBuilder.track(scheme: "cbcs", tenc: constant(), isSound: true), [], false),
        (BoxBuilder.track(), [], false),
    ]

    @Test(arguments: unmapped.indices) func fragmentsWithoutSubsamplesAreTold(index: Int) throws {
        let (tracks, boxes, isUnmapped) = Self.unmapped[index]
        let section = try InitSegment(BoxBuilder.movie(tracks))
        let file = Self.file(tracks, boxes)
        for needsMaps in [true, false] {
            let found = file.withUnsafeBytes {
                ISORecognition.sign(inSegment: $0, of: section.tracks, hasDecryptor: true, needsMaps: needsMaps)
            }
            #expect(found == (isUnmapped && needsMaps ? FragmentSign.unmapped(track: 1) : FragmentSign.none))
        }
    }

    /// Two fragments of pictures with a constant IV, of which the last one has no boxes. If the first one has maps of subsamples,
    /// those of the last one are lost: nothing tells which bytes are clear.
    @Test(arguments: [true, false], [true, false]) func subsamplesThatAreLostAreAnError(hasMaps: Bool, isSound: Bool)
        throws
    {
        // No box, and one of no samples.
        try expectLoss(hasMaps, isSound, rest: [])
        try expectLoss(hasMaps, isSound, rest: [BoxBuilder.full("senc", BoxBuilder.number(0, 4))])
    }

    private func expectLoss(_ hasMaps: Bool, _ isSound: Bool, rest: [[UInt8]]) throws {
        let maps = [20, 30].flatMap { BoxBuilder.number(1, 2) + BoxBuilder.number(4, 2) + BoxBuilder.number($0 - 4, 4) }
        let list = BoxBuilder.full("senc", flags: 2, BoxBuilder.number(2, 4), maps)
        let track = BoxBuilder.track(scheme: "cbcs", tenc: Self.constant(), isSound: isSound)
        let bare = BoxBuilder.fragment { size in
            [BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + 8, sizes: [20, 30])] + rest
        }
        let file = Self.file(track, hasMaps ? [list] : []) + bare + Self.media
        guard hasMaps, !isSound else {
            #expect(try uses(file).count == 4)
            return
        }
        let error = #expect(throws: FormatError.self) { try uses(file) }
        #expect(error?.reason.contains("track 1") == true, "\(String(describing: error))")
        #expect(error?.reason.contains("no box “senc” or “saiz” has them") == true, "\(String(describing: error))")
        var stream = ISOStream()
        file.withUnsafeBytes { stream.append($0) }
        var count = 0
        #expect(throws: FormatError.self) {
            while case .sample = try stream.next() {
                count += 1
                stream.withSample { _, _ in }
            }
        }
        #expect(count == 2)
    }

    // MARK: Several ways to decrypt, and what is not supported

    private static let otherProtection = BoxBuilder.protection(
        of: "avc1", scheme: "abcd", tenc: BoxBuilder.tenc(keyID: keyIDs[0]))

    @Test(arguments: ["cenc", "cens", "cbc1", "cbcs"]) func theFirstSchemeThatIsKnownCounts(scheme: String) throws {
        let last = BoxBuilder.protection(of: "avc1", scheme: "cenc", tenc: BoxBuilder.tenc(keyID: Self.keyIDs[1]))
        for front in [Self.otherProtection, Self.otherProtection + Self.otherProtection] {
            let track = BoxBuilder.track(scheme: scheme, front: front)
            let expected = ISOKeyUse(keyID: KeyID(BoxBuilder.keyID), media: .video)
            #expect(try uses(Self.file(track, [Self.list])) == [expected, expected])
            #expect(try InitSegment(BoxBuilder.movie(track)).keyIDs == [KeyID(BoxBuilder.keyID)])
        }
        let track = BoxBuilder.track(scheme: "abcd", tenc: BoxBuilder.tenc(keyID: Self.keyIDs[0]), front: last)
        let expected = ISOKeyUse(keyID: KeyID(Self.keyIDs[1]), media: .video)
        #expect(try uses(Self.file(track, [Self.list])) == [expected, expected])
    }

    @Test func piffCountsAsKnown() throws {
        let type: [UInt8] = [
            0x89, 0x74, 0xDB, 0xCE, 0x7B, 0xE7, 0x4C, 0x51, 0x84, 0xF9, 0x71, 0x48, 0xF9, 0x88, 0x25, 0x54,
        ]
        let own = BoxBuilder.number(0, 4) + BoxBuilder.number(1, 3) + [8] + BoxBuilder.keyID
        let track = BoxBuilder.track(
            scheme: "piff", tenc: BoxBuilder.box("uuid", type, own), front: Self.otherProtection)
        let expected = ISOKeyUse(keyID: KeyID(BoxBuilder.keyID), media: .video)
        #expect(try uses(Self.file(track, [Self.list])) == [expected, expected])
    }

    @Test func aSchemeThatIsNotKnownIsNamed() throws {
        let track = BoxBuilder.track(scheme: "efgh", front: Self.otherProtection)
        let error = #expect(throws: FormatError.self) { try uses(Self.file(track, [Self.list])) }
        #expect(error?.isSameKind(as: .unsupported("")) == true)
        #expect(error?.reason.contains("“abcd”") == true)
    }

    /// Of the edition of 2023.
    private static let severalKeys: [(name: String, boxes: [[UInt8]])] = [
        ("box “senc”", [BoxBuilder.full("senc", version: 1, flags: 2, BoxBuilder.number(2, 4), vectors)]),
        (
            "box “senc”",
            [
                sizes, BoxBuilder.full("saio", BoxBuilder.number(1, 4), BoxBuilder.number(1 << 20, 4)),
                BoxBuilder.full("senc", version: 1, flags: 2, BoxBuilder.number(2, 4), vectors),
            ]
        ),
        (
            "seig entry",
            [
                BoxBuilder.full(
                    "sgpd", version: 1, Array("seig".utf8), BoxBuilder.number(20, 4), BoxBuilder.number(1, 4),
                    [0x80, 0, 1, 0] + keyIDs[0]), list,
            ]
        ),
        ("box “csgp”", [BoxBuilder.full("csgp", Array("seig".utf8), BoxBuilder.number(0, 4)), list]),
    ]

    @Test(arguments: severalKeys.indices) func whatIsNotSupportedIsNamed(index: Int) throws {
        let (name, boxes) = Self.severalKeys[index]
        let error = #expect(throws: FormatError.self) { try uses(Self.file(BoxBuilder.track(), boxes)) }
        #expect(error?.isSameKind(as: .unsupported("")) == true, "\(String(describing: error))")
        #expect(error?.reason.contains(name) == true, "\(String(describing: error))")
    }
}
