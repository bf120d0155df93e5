// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection
import Testing

/// Auxiliary information as muxers leave it: each form of the list with each form of the sizes, for each scheme.
@Suite("Box-level decryption: auxiliary information") struct ISOAuxiliaryTableTests {
    /// `senc`, or the box of the same meaning of PIFF.
    enum List: CaseIterable { case absent, right, ofPIFF, countOfZero, short, cut, ofIVs }
    /// `saiz` and `saio`.
    enum Sizes: CaseIterable {
        case absent, right, countOfZero, alone, astray, withoutOffsets, short, cut, ofIVs, ofIVsAstray
    }

    /// What the samples have.
    struct Media: CustomTestStringConvertible, Sendable {
        /// In `senc` terms.
        enum Maps { case none, empty, real }

        var scheme: String
        /// 0: the track has a constant IV.
        var vectorSize: Int
        var maps: Maps
        var isSound: Bool

        var testDescription: String { "\(scheme), IVs of \(vectorSize) bytes, maps: \(maps), sound: \(isSound)" }

        var tenc: [UInt8] {
            let pattern: UInt8 = scheme == "cens" || scheme == "cbcs" && !isSound ? 0x19 : 0
            let constant: [UInt8] = vectorSize == 0 ? [16] + Self.constant : []
            return BoxBuilder.full(
                "tenc", version: 1, [0, pattern, 1, UInt8(vectorSize)] + BoxBuilder.keyID + constant)
        }

        static let constant: [UInt8] = BoxBuilder.number(0xC0, 8) + BoxBuilder.number(0, 8)

        /// All that there is about the samples is one constant IV.
        var isWholeSound: Bool { vectorSize == 0 && isSound }

        func entry(_ sample: Int) -> [UInt8] {
            let vector =
                vectorSize == 0
                ? [] : BoxBuilder.number(0xA1 + sample, 8) + [UInt8](repeating: 0, count: vectorSize - 8)
            switch maps {
            case .none: return vector
            case .empty: return vector + [0, 0]
            case .real:
                return vector + BoxBuilder.number(1, 2) + BoxBuilder.number(4, 2)
                    + BoxBuilder.number(ISOAuxiliaryTableTests.sizes[sample] - 4, 4)
            }
        }

        func expected(_ sample: Int, withMaps: Bool) -> (vector: UInt64, subsamples: [Subsample]) {
            let size = UInt32(ISOAuxiliaryTableTests.sizes[sample])
            let map = withMaps && maps == .real ? [Subsample(clear: 4, protected: size - 4)] : []
            return (vectorSize == 0 ? 0xC0 : UInt64(0xA1 + sample), map)
        }
    }

    private static let sizes = [36, 52]
    /// For each sample all the same, although there is a constant IV. No map begins so.
    private static let needlessVector = [UInt8](0xF0...0xFF)

    static let media: [Media] =
        ["cenc", "cens", "cbc1", "cbcs"].flatMap { scheme in
            [scheme == "cenc" || scheme == "cens" ? 8 : 16, 16].flatMap { size in
                [
                    Media(scheme: scheme, vectorSize: size, maps: .none, isSound: true),
                    Media(scheme: scheme, vectorSize: size, maps: .empty, isSound: true),
                    Media(scheme: scheme, vectorSize: size, maps: .real, isSound: false),
                ]
            }
        } + [
            Media(scheme: "cbcs", vectorSize: 0, maps: .none, isSound: true),
            Media(scheme: "cbcs", vectorSize: 0, maps: .empty, isSound: true),
            Media(scheme: "cbcs", vectorSize: 0, maps: .none, isSound: false),
            Media(scheme: "cbcs", vectorSize: 0, maps: .real, isSound: false),
        ]

    private func file(_ media: Media, _ list: List, _ sizes: Sizes) -> [UInt8] {
        let entries = (0..<2).map { media.entry($0) }
        let needless = Self.needlessVector + Self.needlessVector
        let all = sizes == .ofIVs ? needless : entries.flatMap(\.self)
        let flags = media.maps == .none ? 0 : 2
        func body(_ count: Int, _ bytes: [UInt8]) -> [UInt8] { BoxBuilder.number(count, 4) + bytes }
        let piff: [UInt8] = [
            0xA2, 0x39, 0x4F, 0x52, 0x5A, 0x9B, 0x4F, 0x14, 0xA2, 0x44, 0x6C, 0x42, 0x7C, 0x64, 0x8D, 0xF4,
        ]
        let lists: [[UInt8]] =
            switch list {
            case .absent: []
            case .right: [BoxBuilder.full("senc", flags: flags, body(2, all))]
            case .ofPIFF: [BoxBuilder.box("uuid", piff + BoxBuilder.number(flags, 4) + body(2, all))]
            case .countOfZero: [BoxBuilder.full("senc", flags: flags, body(0, []))]
            case .short: [BoxBuilder.full("senc", flags: flags, body(1, entries[0]))]
            case .cut: [BoxBuilder.full("senc", flags: flags, body(2, all.dropLast()))]
            case .ofIVs: [BoxBuilder.full("senc", flags: flags, body(2, needless))]
            }
        func rows(_ count: Int) -> [UInt8] {
            BoxBuilder.full("saiz", [0] + body(count, entries.prefix(count).map { UInt8($0.count) }))
        }
        func offsets(_ places: [Int]) -> [UInt8] {
            BoxBuilder.full("saio", body(places.count, places.flatMap { BoxBuilder.number($0, 4) }))
        }
        let fragment = BoxBuilder.fragment { size in
            // What `saio` leads to stands at the end of the fragment.
            let place = size - all.count
            let sized: [[UInt8]] =
                switch sizes {
                case .absent: []
                case .right: [rows(2), offsets([place])]
                case .countOfZero: [rows(0), offsets([place])]
                case .alone: [rows(2)]
                case .astray: [rows(2), offsets([1 << 24])]
                case .withoutOffsets: [rows(2), offsets([])]
                case .short: [rows(1), offsets([place])]
                case .cut: [BoxBuilder.full("saiz", [0] + body(2, [UInt8(entries[0].count)])), offsets([place])]
                case .ofIVs: [BoxBuilder.full("saiz", [16] + BoxBuilder.number(2, 4)), offsets([place])]
                case .ofIVsAstray: [BoxBuilder.full("saiz", [16] + BoxBuilder.number(2, 4)), offsets([1 << 24])]
                }
            return [BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + 8, sizes: Self.sizes)] + lists + sized
                + [BoxBuilder.box("free", all)]
        }
        let track = BoxBuilder.track(scheme: media.scheme, tenc: media.tenc, isSound: media.isSound)
        return BoxBuilder.movie(track) + fragment
            + BoxBuilder.box("mdat", [UInt8](repeating: 0x55, count: Self.sizes.reduce(0, +)))
    }

    /// Nil: an error. False: the samples are encrypted as a whole.
    private func isRead(_ media: Media, _ list: List, _ sizes: Sizes) -> Bool? {
        if list == .right || list == .ofPIFF || sizes == .right { return true }
        guard media.vectorSize == 0 else { return nil }
        // Nothing of the boxes is needed.
        if media.isWholeSound { return false }
        // Pictures whose boxes have no room for maps.
        if media.maps == .none { return sizes == .cut ? nil : false }
        let isSilent = list == .absent || list == .countOfZero
        return isSilent && (sizes == .absent || sizes == .countOfZero) ? false : nil
    }

    @Test(arguments: media) func allForms(media: Media) throws {
        for list in List.allCases {
            // A list without entries cannot be cut off, but for its count.
            if list == .cut, media.vectorSize == 0, media.maps == .none { continue }
            for sizes in Sizes.allCases {
                let isNeedless = list == .ofIVs || sizes == .ofIVs || sizes == .ofIVsAstray
                if isNeedless, !media.isWholeSound { continue }
                let file = file(media, list, sizes)
                guard let isRead = isRead(media, list, sizes) else {
                    let error = #expect(throws: FormatError.self, "\(list), \(sizes)") {
                        try ISOLayoutTests().samples(file)
                    }
                    let text = error.map { "\($0)" } ?? ""
                    #expect(text.contains("track 1 "), "\(list), \(sizes): \(text)")
                    #expect(
                        ["“senc”", "“saiz”", "“saio”"].contains { text.contains($0) }, "\(list), \(sizes): \(text)")
                    continue
                }
                let found = try ISOLayoutTests().samples(file)
                let expected = (0..<2).map { media.expected($0, withMaps: isRead) }
                #expect(found.map(\.vector) == expected.map(\.vector), "\(list), \(sizes)")
                #expect(found.map(\.subsamples) == expected.map(\.subsamples), "\(list), \(sizes)")
            }
        }
    }

    /// Maps in a `senc` without the flag for them, and a `saio` that leads between the IVs of `senc`.
    @Test(arguments: media) func oddLists(media: Media) throws {
        let entries = (0..<2).map { media.entry($0) }
        guard entries.contains(where: { !$0.isEmpty }) else { return }
        let list = BoxBuilder.full("senc", BoxBuilder.number(2, 4) + entries.flatMap(\.self))
        func samples(astray: Int?) throws -> [(vector: UInt64, subsamples: [Subsample])] {
            let fragment = BoxBuilder.fragment { size in
                // `senc` is the last box, in front of what stands around `saio`.
                let sizes = BoxBuilder.full("saiz", [UInt8(entries[0].count)] + BoxBuilder.number(2, 4))
                let place = size - entries.flatMap(\.self).count + (astray ?? 0)
                let sized =
                    astray == nil
                    ? [] : [sizes, BoxBuilder.full("saio", BoxBuilder.number(1, 4) + BoxBuilder.number(place, 4))]
                return [BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + 8, sizes: Self.sizes)] + sized + [list]
            }
            let track = BoxBuilder.track(scheme: media.scheme, tenc: media.tenc, isSound: media.isSound)
            let file =
                BoxBuilder.movie(track) + fragment
                + BoxBuilder.box("mdat", [UInt8](repeating: 0x55, count: Self.sizes.reduce(0, +)))
            return try ISOLayoutTests().samples(file).map { ($0.vector, $0.subsamples) }
        }
        let expected = (0..<2).map { media.expected($0, withMaps: true) }
        if media.maps == .real {
            let found = try samples(astray: nil)
            #expect(found.map(\.vector) == expected.map(\.vector))
            #expect(found.map(\.subsamples) == expected.map(\.subsamples))
        }
        guard media.maps == .none, media.vectorSize > 0 else { return }
        for astray in [0, 4, -4] {
            #expect(try samples(astray: astray).map(\.vector) == expected.map(\.vector), "\(astray)")
        }
    }

    /// IVs without maps may be any bytes, so that each place that `saio` leads to would fit. Nil: it leads to the samples.
    @Test(arguments: [0, 24, nil] as [Int?]) func wholeListsGoInFrontOfOffsets(place: Int?) throws {
        let media = Media(scheme: "cenc", vectorSize: 8, maps: .none, isSound: true)
        let fragment = BoxBuilder.fragment { size in
            [
                BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + 8, sizes: Self.sizes),
                BoxBuilder.full("saiz", [8] + BoxBuilder.number(2, 4)),
                BoxBuilder.full("saio", BoxBuilder.number(1, 4) + BoxBuilder.number(place ?? size + 8, 4)),
                BoxBuilder.full("senc", BoxBuilder.number(2, 4) + media.entry(0) + media.entry(1)),
            ]
        }
        let file =
            BoxBuilder.movie(BoxBuilder.track(tenc: media.tenc, isSound: true)) + fragment
            + BoxBuilder.box("mdat", [UInt8](repeating: 0x55, count: Self.sizes.reduce(0, +)))
        #expect(try ISOLayoutTests().samples(file).map(\.vector) == [0xA1, 0xA2])
    }

    /// Two samples of sound with IVs of 8 bytes, as the sample entry says.
    private func sound(_ boxes: [[UInt8]], of track: [UInt8] = BoxBuilder.track(isSound: true)) -> [UInt8] {
        let fragment = BoxBuilder.fragment { size in
            [BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + 8, sizes: Self.sizes)] + boxes
        }
        return BoxBuilder.movie(track) + fragment
            + BoxBuilder.box("mdat", [UInt8](repeating: 0x55, count: Self.sizes.reduce(0, +)))
    }

    @Test(arguments: [true, false]) func listsWithLongerIVsAreRefused(hasSizes: Bool) {
        let list = BoxBuilder.full("senc", BoxBuilder.number(2, 4) + Self.needlessVector + Self.needlessVector)
        let sized = [
            BoxBuilder.full("saiz", [16] + BoxBuilder.number(2, 4)),
            BoxBuilder.full("saio", BoxBuilder.number(1, 4) + BoxBuilder.number(0, 4)),
        ]
        let error = #expect(throws: FormatError.self) {
            try ISOLayoutTests().samples(sound([list] + (hasSizes ? sized : [])))
        }
        let text = error.map { "\($0)" } ?? ""
        #expect(text.contains("track 1 ") && text.contains(hasSizes ? "“saiz”" : "“senc”"), "\(text)")
    }

    /// Each list is tried with all samples. The last one is the one that fits.
    @Test func listsHaveALimit() throws {
        func lists(_ count: Int) -> [[UInt8]] {
            let other = BoxBuilder.full("senc", BoxBuilder.number(1, 4) + BoxBuilder.number(0xA0, 8))
            let list = BoxBuilder.full(
                "senc", BoxBuilder.number(2, 4) + BoxBuilder.number(0xA1, 8) + BoxBuilder.number(0xA2, 8))
            return [[UInt8]](repeating: other, count: count - 1) + [list]
        }
        #expect(try ISOLayoutTests().samples(sound(lists(16))).map(\.vector) == [0xA1, 0xA2])
        for count in [17, 1000] {
            let error = #expect(throws: FormatError.self) { try ISOLayoutTests().samples(sound(lists(count))) }
            let text = error.map { "\($0)" } ?? ""
            #expect(text.contains("track 1 ") && text.contains("box “senc”: more than 16 lists"), "\(text)")
        }
        // Sound with a constant IV needs none of them.
        let constant = Media(scheme: "cbcs", vectorSize: 0, maps: .none, isSound: true)
        let track = BoxBuilder.track(scheme: "cbcs", tenc: constant.tenc, isSound: true)
        #expect(try ISOLayoutTests().samples(sound(lists(17), of: track)).map(\.vector) == [0xC0, 0xC0])
    }

    @Test func paddingOfListsIsNoIV() throws {
        let entries = BoxBuilder.number(0xA1, 8) + BoxBuilder.number(0xA2, 8)
        for padding in [[1, 2, 3], [UInt8](repeating: 0, count: 16)] as [[UInt8]] {
            let list = BoxBuilder.full("senc", BoxBuilder.number(2, 4) + entries + padding)
            #expect(try ISOLayoutTests().samples(sound([list])).map(\.vector) == [0xA1, 0xA2])
        }
    }

    /// The first sample is clear by its group. With an IV of its own, or without one.
    @Test(arguments: [true, false]) func clearSamplesMayHaveIVs(hasVector: Bool) throws {
        let type = Array("seig".utf8)
        let groups = BoxBuilder.full(
            "sgpd", version: 1, type + BoxBuilder.number(20, 4) + BoxBuilder.number(1, 4) + BoxBuilder.number(0, 20))
        let runs = BoxBuilder.full(
            "sbgp", type + BoxBuilder.number(1, 4) + BoxBuilder.number(1, 4) + BoxBuilder.number(0x10001, 4))
        let entries = (hasVector ? BoxBuilder.number(0xA1, 8) : []) + BoxBuilder.number(0xA2, 8)
        let list = BoxBuilder.full("senc", BoxBuilder.number(2, 4) + entries)
        #expect(try ISOLayoutTests().samples(sound([groups, runs, list])).map(\.vector) == [0xA2])
    }

    /// `saiz` has the first sample alone. The second one is clear by its group, or else it lacks its IV.
    @Test(arguments: [true, false]) func sizesMayEndInFrontOfClearSamples(isClear: Bool) throws {
        let type = Array("seig".utf8)
        let groups = BoxBuilder.full(
            "sgpd", version: 1, type + BoxBuilder.number(20, 4) + BoxBuilder.number(1, 4) + BoxBuilder.number(0, 20))
        let runs = BoxBuilder.full(
            "sbgp", type, BoxBuilder.number(2, 4), BoxBuilder.number(1, 4), BoxBuilder.number(0, 4),
            BoxBuilder.number(1, 4), BoxBuilder.number(isClear ? 0x10001 : 0, 4))
        for sizes in [[8, 0, 0, 0, 1], [0, 0, 0, 0, 1, 8]] as [[UInt8]] {
            let fragment = BoxBuilder.fragment { size in
                // The IV stands at the end.
                [
                    BoxBuilder.tfhd(), BoxBuilder.trun(offset: size + 8, sizes: Self.sizes), groups, runs,
                    BoxBuilder.full("saiz", sizes),
                    BoxBuilder.full("saio", BoxBuilder.number(1, 4) + BoxBuilder.number(size - 8, 4)),
                    BoxBuilder.box("free", BoxBuilder.number(0xA1, 8)),
                ]
            }
            let file =
                BoxBuilder.movie(BoxBuilder.track(isSound: true)) + fragment
                + BoxBuilder.box("mdat", [UInt8](repeating: 0x55, count: Self.sizes.reduce(0, +)))
            guard !isClear else {
                #expect(try ISOLayoutTests().samples(file).map(\.vector) == [0xA1])
                continue
            }
            let error = #expect(throws: FormatError.self) { try ISOLayoutTests().samples(file) }
            let text = error.map { "\($0)" } ?? ""
            #expect(text.contains("track 1 ") && text.contains("box “saiz” has 1 of 2 samples"), "\(text)")
        }
    }
}
