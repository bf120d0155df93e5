// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

/// Live playlists over hours of refreshes, on a clock of the test's own.
@Suite struct HLSLiveRewriteTests {
    /// A channel: what its playlist is at any time.
    struct Channel {
        enum Kind: CaseIterable { case fragmentedMP4, transportStream, wholeSegments, mixed }

        var kind: Kind
        var hasDeltas = false
        /// In segments: how long a key holds, and the distance of the clear breaks.
        var period: UInt64 = 9
        var breaks: UInt64 = 40
        /// The first segment that is not clear.
        var protectedFrom: UInt64 = 0
        var start: UInt64 = 0x1_0000_0000

        func isClear(_ sequence: UInt64) -> Bool {
            sequence < start + protectedFrom || sequence % breaks < 5
        }

        func keyURI(_ sequence: UInt64) -> String {
            let number = sequence / period
            return kind == .wholeSegments || kind == .mixed ? "https://keys.example/\(number)" : "skd://\(number)"
        }

        func keyTag(_ sequence: UInt64) -> String {
            let uri = keyURI(sequence)
            if kind == .wholeSegments || kind == .mixed && sequence / period % 3 == 0 {
                return "#EXT-X-KEY:METHOD=AES-128,URI=\"\(uri)\""
            }
            // Both of one KEYFORMAT.
            if kind == .mixed { return "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"\(uri)\"" }
            return "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"\(uri)\",KEYFORMAT=\"com.apple.streamingkeydelivery\""
        }

        func url(_ sequence: UInt64) -> String { "s\(sequence).\(kind == .fragmentedMP4 ? "m4s" : "ts")" }

        /// At `seconds` from the start, with six segments of four seconds; `skipping` of them in a delta update.
        func playlist(at seconds: Double, skipping: UInt64 = 0) -> String {
            let first = start + UInt64(seconds / 4)
            var text = "#EXTM3U\n#EXT-X-VERSION:9\n#EXT-X-TARGETDURATION:4\n#EXT-X-MEDIA-SEQUENCE:\(first)\n"
            if skipping > 0 { text += "#EXT-X-SKIP:SKIPPED-SEGMENTS=\(skipping)\n" }
            var current: String?
            if skipping > 0 { current = tag(first + skipping - 1) }
            for sequence in first + skipping..<first + 6 {
                if kind == .fragmentedMP4, sequence == first {
                    text += "#EXT-X-MAP:URI=\"init.mp4\"\n"
                }
                if tag(sequence) != current {
                    current = tag(sequence)
                    text += "\(tag(sequence))\n"
                }
                text += "#EXTINF:4.0,\n\(url(sequence))\n"
            }
            return text
        }

        private func tag(_ sequence: UInt64) -> String {
            isClear(sequence) ? "#EXT-X-KEY:METHOD=NONE" : keyTag(sequence)
        }
    }

    /// What holds for a segment, in terms of the channel and not of routes.
    private func check(_ seen: SeenSegment, _ channel: Channel, _ sequence: UInt64, _ routes: TestRoutes) throws {
        let isClear = channel.isClear(sequence)
        let front = seen.map.flatMap { routes.resource(String($0.dropFirst(5).dropLast())) }
        switch channel.kind {
        case .fragmentedMP4:
            guard case .initSegment(let section) = front else { throw FormatError.malformed("no section") }
            #expect(section.url == "https://cdn.example/p/init.mp4")
            switch section.protection {
            case .key(let key): #expect(!isClear && key.uri == channel.keyURI(sequence))
            case .clear(let key): #expect(isClear && key != nil)
            case .unchanged: Issue.record("a section as it was in a protected playlist")
            }
        case .transportStream:
            guard case .keyNote(let note) = front else { throw FormatError.malformed("no note") }
            #expect(note.key?.uri == (isClear ? nil : channel.keyURI(sequence)))
        case .wholeSegments:
            #expect(seen.map == nil && seen.key == nil)
            guard !isClear else { return #expect(seen.url == "https://cdn.example/p/\(channel.url(sequence))") }
            guard case .segment(let segment)? = routes.resource(seen.url) else {
                throw FormatError.malformed("no segment")
            }
            #expect(segment.url == "https://cdn.example/p/\(channel.url(sequence))")
            #expect(segment.decryption.initializationVector == InitializationVector(high: 0, low: sequence))
            #expect(segment.decryption.key.uri == channel.keyURI(sequence))
        case .mixed:
            let isWhole = !isClear && channel.keyTag(sequence).contains("AES-128")
            #expect((routes.resource(seen.url) != nil) == isWhole)
            #expect(seen.key == nil)
        }
        if channel.kind == .fragmentedMP4 || channel.kind == .transportStream {
            #expect(seen.url == "https://cdn.example/p/\(channel.url(sequence))")
        }
    }

    /// One that playback begins with. The first ones may be gone.
    @Test(arguments: [(1, "0"), (2, "0"), (3, "0"), (4, "1"), (9, "6")])
    func aLateSegmentIsLookedAtForItsKind(count: Int, name: String) throws {
        let segments = (0..<count).map { "#EXTINF:4,\n\($0)\n" }.joined()
        let text = "#EXTM3U\n#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"k\"\n\(segments)"
        var rewriter = HLSPlaylistRewriter(keyFormats: [.identity])
        #expect(
            try rewriter.rewrite(text, routes: TestRoutes()).result.segmentToInspect == "https://cdn.example/p/\(name)")
        rewriter = HLSPlaylistRewriter(keyFormats: [.identity])
        let ended = try rewriter.rewrite(text + "#EXT-X-ENDLIST\n", routes: TestRoutes()).result
        #expect(ended.segmentToInspect == "https://cdn.example/p/0")
    }

    /// Segments that are decrypted here have no parts. The stock demuxer would begin PART-HOLD-BACK in front of the end all the same.
    @Test func whatSaysThatThereArePartsGoesWithThem() throws {
        let part = "#EXT-X-PART:DURATION=1,URI=\"p.ts\"\n"
        let segment = "#EXTINF:4,\ns.ts\n"
        func head(_ lines: String, control: String = "CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=3,HOLD-BACK=12") throws
            -> String
        {
            var rewriter = HLSPlaylistRewriter(keyFormats: [.identity])
            let head = "#EXTM3U\n#EXT-X-SERVER-CONTROL:\(control)\n#EXT-X-PART-INF:PART-TARGET=1\n"
            let text = try rewriter.rewrite(head + lines, routes: TestRoutes()).text
            return text.split(separator: "\n").filter { $0.contains("CONTROL") || $0.contains("PART-INF") }.joined(
                separator: "|")
        }
        func key(_ method: String) -> String { "#EXT-X-KEY:METHOD=\(method),URI=\"k\"\n" }
        let kept =
            "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,PART-HOLD-BACK=3,HOLD-BACK=12|#EXT-X-PART-INF:PART-TARGET=1"
        let left = "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,HOLD-BACK=12"
        #expect(try head(key("AES-128") + part + segment + part) == left)
        #expect(try head(segment + key("AES-128") + part + segment) == left)
        #expect(try head(key("AES-128") + part, control: "PART-HOLD-BACK=3").isEmpty)
        // Some are left.
        #expect(try head(part + segment + key("AES-128") + part + segment) == kept)
        #expect(try head(key("SAMPLE-AES") + part + segment + part) == kept)
        #expect(try head(part + segment) == kept)
    }

    @Test(arguments: Channel.Kind.allCases, [false, true])
    func hoursOfRefreshes(kind: Channel.Kind, hasDeltas: Bool) throws {
        var generator = SeededGenerator(seed: 7)
        var channel = Channel(kind: kind)
        if kind == .mixed { channel.breaks = 10_000_000 }
        let routes = TestRoutes()
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay, .identity])
        var given: [UInt64: SeenSegment] = [:]
        var (clock, last, refreshes) = (0.0, UInt64(0), 0)
        while clock < 2 * 3600 {
            let first = channel.start + UInt64(clock / 4)
            // At most what the last refresh had, and never all.
            var skipping: UInt64 = 0
            if hasDeltas, refreshes > 0, last > first { skipping = min(last - first, 4) }
            let (text, result) = try rewriter.rewrite(channel.playlist(at: clock, skipping: skipping), routes: routes)
            let seen = SeenSegment.segments(of: text)
            #expect(seen.count == 6 - Int(skipping))
            for (number, segment) in seen.enumerated() {
                let sequence = first + skipping + UInt64(number)
                if let before = given[sequence] {
                    #expect(before == segment, "segment \(sequence) at \(clock) s")
                } else {
                    given[sequence] = segment
                    try check(segment, channel, sequence, routes)
                }
            }
            #expect(result.resources.count <= 12)
            #expect(result.mediaSequence == first)
            (last, refreshes) = (first + 6, refreshes + 1)
            clock += Double.random(in: 1...7, using: &generator)
        }
        #expect(refreshes > 1700)
        #expect(given.count > 1700)
    }

    /// Clear segments that went out as they were stay so; the ones behind them are prepared.
    @Test func aClearChannelBecomesProtected() throws {
        var channel = Channel(kind: .fragmentedMP4)
        (channel.protectedFrom, channel.breaks, channel.start) = (20, 1_000_000, 100)
        let routes = TestRoutes()
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
        var given: [String: SeenSegment] = [:]
        for second in stride(from: 0.0, to: 200, by: 3) {
            let (text, result) = try rewriter.rewrite(channel.playlist(at: second), routes: routes)
            for segment in SeenSegment.segments(of: text) {
                #expect(given[segment.url] ?? segment == segment)
                given[segment.url] = segment
            }
            #expect(result.isProtected == (second / 4 >= 15))
        }
        #expect(given["https://cdn.example/p/s119.m4s"]?.map == "URI=\"https://cdn.example/p/init.mp4\"")
        #expect(given["https://cdn.example/p/s120.m4s"]?.map?.contains("127.0.0.1") == true)
    }

    @Test(arguments: [Channel.Kind.fragmentedMP4, .transportStream])
    func sessionKeysPrepareAClearStart(kind: Channel.Kind) throws {
        var channel = Channel(kind: kind)
        channel.protectedFrom = 1000
        let key = HLSKey(method: .sampleAES, uri: "skd://s", keyFormat: HLSKeyFormat.fairPlay.name)
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay], sessionKeys: [key])
        let playlist = channel.playlist(at: 0)
        let result = try rewriter.rewrite(playlist, routes: TestRoutes()).result
        switch result.resources.first {
        case .initSegment(let section): #expect(section.protection == .clear(like: key))
        case .keyNote(let note): #expect(note.key == nil)
        default: Issue.record("nothing in front")
        }
        #expect(result.resources.count == 1)
        #expect(!result.isProtected)
        // What has ended can tell by itself.
        rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay], sessionKeys: [key])
        #expect(try rewriter.rewrite("\(playlist)#EXT-X-ENDLIST\n", routes: TestRoutes()).result.resources.isEmpty)
    }

    /// The player comes from encrypted segments, and has to be told.
    @Test(arguments: [Channel.Kind.fragmentedMP4, .transportStream])
    func clearPlaylistsBesideEncryptedOnesSaySo(kind: Channel.Kind) throws {
        var channel = Channel(kind: kind)
        channel.protectedFrom = 1000
        let playlist = "\(channel.playlist(at: 0))#EXT-X-ENDLIST\n"
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
        let alone = try rewriter.rewrite(playlist, routes: TestRoutes()).result
        #expect(alone.resources.isEmpty && alone.announcedSegments.isEmpty)
        rewriter.hasEncryptedSibling = true
        let result = try rewriter.rewrite(playlist, routes: TestRoutes()).result
        switch result.resources.first {
        case .initSegment(let section): #expect(section.protection == .clear(like: nil))
        case .keyNote(let note): #expect(note.key == nil)
        default: Issue.record("nothing in front")
        }
        #expect(result.resources.count == 1)
        #expect(!result.isProtected)
        let announced = result.announcedSegments
        guard kind == .transportStream else { return #expect(announced.isEmpty) }
        #expect(announced.count == result.durations.count)
        #expect(announced.values.allSatisfy { $0.kind == .transportStream })
        #expect(announced.values.filter(\.isFirst).count == 1)
    }

    @Test func aServerThatStartsAnew() throws {
        let routes = TestRoutes()
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
        var channel = Channel(kind: .transportStream)
        _ = try rewriter.rewrite(channel.playlist(at: 100), routes: routes)
        (channel.start, channel.period) = (5, 2)
        let (text, _) = try rewriter.rewrite(channel.playlist(at: 0), routes: routes)
        // Behind the last ones of before.
        let seen = SeenSegment.segments(of: text).dropFirst(3)
        #expect(seen.count == 6)
        for (number, segment) in seen.enumerated() {
            try check(segment, channel, 5 + UInt64(number), routes)
        }
    }

    /// What the stock demuxer gets of a live playlist whose numbers fall: each line, with the names of segments alone.
    private func versions(_ playlists: [String]) throws -> [(lines: [String], result: HLSRewriting)] {
        let routes = TestRoutes()
        var rewriter = HLSPlaylistRewriter(keyFormats: [.identity])
        var versions: [(lines: [String], result: HLSRewriting)] = []
        for playlist in playlists {
            let head = "#EXTM3U\n#EXT-X-TARGETDURATION:1\n"
            let (text, result) = try rewriter.rewrite(head + playlist, routes: routes)
            var lines: [String] = []
            for line in text.split(separator: "\n").dropFirst(2).map(String.init) {
                if line.hasPrefix("#EXTINF") || line.hasPrefix("#EXT-X-KEY") { continue }
                guard case .segment(let segment)? = routes.resource(line) else {
                    lines.append(line.replacing("https://cdn.example/p/", with: ""))
                    continue
                }
                let vector = segment.decryption.initializationVector?.low ?? 0
                lines.append("\(segment.url.replacing("https://cdn.example/p/", with: "")) \(vector)")
            }
            versions.append((lines, result))
        }
        return versions
    }

    private func segments(_ names: String...) -> String { names.map { "#EXTINF:1,\n\($0).ts\n" }.joined() }

    /// The numbers go on, and the IVs are those of the origin's numbers.
    @Test func fallingNumbersGoOn() throws {
        let key = "#EXT-X-KEY:METHOD=AES-128,URI=\"https://k/1\"\n"
        let found = try versions([
            "#EXT-X-MEDIA-SEQUENCE:100\n\(key)\(segments("a", "b", "c", "d"))",
            "\(key)\(segments("e"))", "\(key)\(segments("e", "f"))",
            "#EXT-X-MEDIA-SEQUENCE:1\n\(key)\(segments("f", "g"))",
        ])
        let head = ["#EXT-X-MEDIA-SEQUENCE:101", "#EXT-X-DISCONTINUITY-SEQUENCE:0", "b.ts 101", "c.ts 102", "d.ts 103"]
        #expect(
            found.map(\.lines) == [
                ["#EXT-X-MEDIA-SEQUENCE:100", "a.ts 100", "b.ts 101", "c.ts 102", "d.ts 103"],
                head + ["#EXT-X-DISCONTINUITY", "e.ts 0"], head + ["#EXT-X-DISCONTINUITY", "e.ts 0", "f.ts 1"],
                ["#EXT-X-MEDIA-SEQUENCE:105", "#EXT-X-DISCONTINUITY-SEQUENCE:1", "f.ts 1", "g.ts 2"],
            ])
        #expect(found.map(\.result.firstSegment) == [100, 104, 104, 105])
        #expect(found.map(\.result.isNumberedAnew) == [false, true, true, true])
        #expect(found.map { $0.result.keys.map(\.segments) } == [[100...103], [104...104], [104...105], [105...106]])
        // What is served for the last ones of before goes on to be.
        #expect(found[1].result.resources.count == 4)
    }

    /// The origin is asked for no number of those that the stock demuxer knows, and so answers at once.
    @Test func nothingIsWaitedForBehindANewStart() throws {
        func control(_ number: Int, _ names: String...) -> String {
            "#EXT-X-SERVER-CONTROL:CAN-BLOCK-RELOAD=YES,HOLD-BACK=3\n#EXT-X-MEDIA-SEQUENCE:\(number)\n"
                + names.map { segments($0) }.joined()
        }
        let found = try versions([
            control(100, "a", "b"), control(101, "b", "c"), control(0, "d"), control(1, "e", "f"),
        ])
        let (blocks, doesNot) = ("CAN-BLOCK-RELOAD=YES,HOLD-BACK=3", "HOLD-BACK=3")
        #expect(
            found.compactMap { $0.lines.first { $0.contains("CONTROL") } }
                == [blocks, blocks, doesNot, doesNot].map { "#EXT-X-SERVER-CONTROL:\($0)" })
        #expect(found.map(\.result.isNumberedAnew) == [false, false, true, true])
    }

    /// By less than the window, so that old and new numbers overlap; also if the window has grown meanwhile.
    @Test func numbersThatFallWithinTheWindowGoOn() throws {
        let found = try versions([
            "#EXT-X-MEDIA-SEQUENCE:100\n\(segments("a", "b", "c", "d"))",
            "#EXT-X-MEDIA-SEQUENCE:99\n\(segments("e", "f", "g"))",
            "#EXT-X-MEDIA-SEQUENCE:99\n\(segments("e", "f", "g", "h"))",
            "#EXT-X-MEDIA-SEQUENCE:100\n\(segments("f", "g", "h", "i"))",
            "#EXT-X-MEDIA-SEQUENCE:98\n\(segments("j", "k", "l", "m", "n", "o", "p"))",
        ])
        let head = [
            "#EXT-X-MEDIA-SEQUENCE:101", "#EXT-X-DISCONTINUITY-SEQUENCE:0", "b.ts", "c.ts", "d.ts",
            "#EXT-X-DISCONTINUITY",
        ]
        #expect(
            found.map(\.lines).dropFirst() == [
                head + ["e.ts", "f.ts", "g.ts"], head + ["e.ts", "f.ts", "g.ts", "h.ts"],
                ["#EXT-X-MEDIA-SEQUENCE:105", "#EXT-X-DISCONTINUITY-SEQUENCE:1", "f.ts", "g.ts", "h.ts", "i.ts"],
                ["#EXT-X-MEDIA-SEQUENCE:106", "#EXT-X-DISCONTINUITY-SEQUENCE:1", "g.ts", "h.ts", "i.ts"]
                    + ["#EXT-X-DISCONTINUITY", "j.ts", "k.ts", "l.ts", "m.ts", "n.ts", "o.ts", "p.ts"],
            ])
        #expect(found.map(\.result.firstSegment) == [100, 104, 104, 105, 109])
    }

    /// A server that lags behind has the same segments, whatever its host and its queries are. Names that change in each version
    /// tell nothing.
    @Test func otherNamesOfTheSameSegmentsAreNoNewStart() throws {
        func version(_ first: Int, _ name: (Int) -> String) -> String {
            let lines = (first..<first + 4).map { "#EXTINF:1,\n\(name($0))\n" }
            return "#EXT-X-MEDIA-SEQUENCE:\(first)\n\(lines.joined())"
        }
        let tokens = try versions([
            version(100) { "\($0).ts?1" }, version(99) { "\($0).ts?2" },
            version(98) { "https://b.example/p/\($0).ts" },
        ])
        #expect(tokens.map { $0.lines[0] } == [100, 99, 98].map { "#EXT-X-MEDIA-SEQUENCE:\($0)" })
        let paths = try versions([
            version(100) { "1/\($0).ts" }, version(101) { "2/\($0).ts" }, version(100) { "3/\($0).ts" },
        ])
        #expect(paths.map { $0.lines[0] } == [100, 101, 100].map { "#EXT-X-MEDIA-SEQUENCE:\($0)" })
        #expect((tokens + paths).allSatisfy { !$0.result.isNumberedAnew })
    }

    /// The stock demuxer takes a playlist without segments for none.
    @Test func aVersionWithoutSegmentsIsNothingNew() throws {
        let found = try versions([
            "#EXT-X-MEDIA-SEQUENCE:100\n\(segments("a", "b", "c"))", "#EXT-X-MEDIA-SEQUENCE:103\n", "", segments("d"),
            "", "#EXT-X-MEDIA-SEQUENCE:0\n\(segments("d", "e"))", "#EXT-X-ENDLIST\n",
        ])
        #expect(found[1].lines == found[0].lines && found[2].lines == found[0].lines)
        #expect(found[1].result.resources == found[0].result.resources)
        let head = ["#EXT-X-MEDIA-SEQUENCE:100", "#EXT-X-DISCONTINUITY-SEQUENCE:0", "a.ts", "b.ts", "c.ts"]
        #expect(found[3].lines == head + ["#EXT-X-DISCONTINUITY", "d.ts"])
        #expect(found[4].lines == found[3].lines)
        #expect(found[5].lines == head + ["#EXT-X-DISCONTINUITY", "d.ts", "e.ts"])
        // It will have none.
        #expect(found[6].lines == ["#EXT-X-ENDLIST"] && found[6].result.isEnded)
        // Nor had it before.
        #expect(try versions(["", segments("a")]).map(\.lines) == [[], ["a.ts"]])
    }

    /// To a few segments that do not follow on. Of more, the stock demuxer plays on; and the next numbers are no rise.
    @Test func numbersThatRiseGoOn() throws {
        let found = try versions([
            "#EXT-X-MEDIA-SEQUENCE:7\n\(segments("a", "b"))", "#EXT-X-MEDIA-SEQUENCE:5000\n\(segments("c"))",
            "#EXT-X-MEDIA-SEQUENCE:5000\n\(segments("c", "d"))", "#EXT-X-MEDIA-SEQUENCE:5002\n\(segments("e"))",
        ])
        let head = [
            "#EXT-X-MEDIA-SEQUENCE:7", "#EXT-X-DISCONTINUITY-SEQUENCE:0", "a.ts", "b.ts", "#EXT-X-DISCONTINUITY",
        ]
        #expect(
            found.map(\.lines).dropFirst() == [
                head + ["c.ts"], head + ["c.ts", "d.ts"],
                ["#EXT-X-MEDIA-SEQUENCE:11", "#EXT-X-DISCONTINUITY-SEQUENCE:1", "e.ts"],
            ])
        let long = try versions([
            "#EXT-X-MEDIA-SEQUENCE:7\n\(segments("a"))", "#EXT-X-MEDIA-SEQUENCE:50\n\(segments("b", "c", "d", "e"))",
        ])
        #expect(long[1].lines.first == "#EXT-X-MEDIA-SEQUENCE:50")
    }

    /// With tags of its own, and twice; clear, and with a section.
    @Test func discontinuitiesAreCountedOn() throws {
        let map = { (name: String) in "#EXT-X-MAP:URI=\"\(name).mp4\"\n" }
        let found = try versions([
            "#EXT-X-MEDIA-SEQUENCE:7\n#EXT-X-DISCONTINUITY-SEQUENCE:4\n\(map("i"))\(segments("a"))#EXT-X-DISCONTINUITY\n"
                + segments("b"),
            "#EXT-X-MEDIA-SEQUENCE:2\n#EXT-X-DISCONTINUITY\n\(map("j"))\(segments("c"))",
            "\(map("k"))\(segments("d"))",
        ])
        #expect(
            found.map(\.lines).dropFirst() == [
                [
                    "#EXT-X-MEDIA-SEQUENCE:7", "#EXT-X-DISCONTINUITY-SEQUENCE:4", "#EXT-X-MAP:URI=\"i.mp4\"", "a.ts",
                    "#EXT-X-DISCONTINUITY", "b.ts", "#EXT-X-DISCONTINUITY", "#EXT-X-MAP:URI=\"j.mp4\"", "c.ts",
                ],
                [
                    "#EXT-X-MEDIA-SEQUENCE:9", "#EXT-X-DISCONTINUITY-SEQUENCE:6", "#EXT-X-MAP:URI=\"j.mp4\"", "c.ts",
                    "#EXT-X-DISCONTINUITY", "#EXT-X-MAP:URI=\"k.mp4\"", "d.ts",
                ],
            ])
    }

    /// Also those of segments that a delta update has left out.
    @Test func discontinuitiesInFrontOfADeltaUpdateAreCounted() throws {
        let cut = "#EXT-X-DISCONTINUITY\n"
        let found = try versions([
            "#EXT-X-MEDIA-SEQUENCE:100\n\(segments("a"))\(cut)\(segments("b", "c", "d"))\(cut)\(segments("e", "f"))",
            "#EXT-X-MEDIA-SEQUENCE:100\n#EXT-X-SKIP:SKIPPED-SEGMENTS=3\n\(segments("d"))\(cut)\(segments("e", "f", "g"))",
            segments("h"),
        ])
        #expect(found[1].result.isDelta)
        let head = ["#EXT-X-MEDIA-SEQUENCE:104", "#EXT-X-DISCONTINUITY-SEQUENCE:2", "e.ts", "f.ts", "g.ts"]
        #expect(found[2].lines == head + ["#EXT-X-DISCONTINUITY", "h.ts"])
    }

    /// A server that lags behind has an older version, which is no new start and nothing new: however far it is behind.
    @Test(arguments: [2, 4, 7, 20]) func anOlderVersionIsNothingNew(segmentsBehind: Int) throws {
        func version(_ first: Int) -> String {
            let names = (first..<first + 5).map { "#EXTINF:1,\n\($0).ts\n" }
            return "#EXT-X-MEDIA-SEQUENCE:\(first)\n\(names.joined())"
        }
        let firsts = [100, 103, 108, 112, 117, 121, 121 - segmentsBehind, 122, 123 - segmentsBehind, 126]
        let found = try versions(firsts.map(version))
        let heads = [100, 103, 108, 112, 117, 121, 121, 122, 122, 126]
        #expect(found.map { $0.lines[0] } == heads.map { "#EXT-X-MEDIA-SEQUENCE:\($0)" })
        #expect(found[6].lines == found[5].lines && found[6].result.resources == found[5].result.resources)
        #expect(found.allSatisfy { !$0.result.isNumberedAnew })
    }

    /// Also one of before a new start, and one that the newer one has no segment of.
    @Test func anOlderVersionBehindANewStart() throws {
        let found = try versions([
            "#EXT-X-MEDIA-SEQUENCE:100\n\(segments("a", "b", "c"))", "#EXT-X-MEDIA-SEQUENCE:103\n\(segments("d", "e"))",
            segments("f", "g"), "#EXT-X-MEDIA-SEQUENCE:100\n\(segments("a", "b", "c"))",
            "#EXT-X-MEDIA-SEQUENCE:1\n\(segments("g", "h"))",
        ])
        #expect(found[3].lines == found[2].lines)
        #expect(found.map(\.result.firstSegment) == [100, 103, 105, 105, 106])
    }

    /// What has ended, and what ends with a segment that is new, is no older version.
    @Test func otherVersionsAreWhatTheyAre() throws {
        let head = "#EXT-X-MEDIA-SEQUENCE:100\n"
        let found = try versions([
            head + segments("a", "b", "c"), head + segments("a", "b", "c"), head + segments("a", "b", "x"),
            head + segments("a", "b") + "#EXT-X-ENDLIST\n",
        ])
        #expect(found.map(\.lines.count) == [4, 4, 4, 4])
        #expect(found[2].lines.last == "x.ts")
        #expect(found[3].lines.suffix(2) == ["b.ts", "#EXT-X-ENDLIST"])
        #expect(found[3].result.isEnded)
    }

    @Test func theLargestNumbersDoNotTrap() throws {
        let largest = UInt64.max - 3
        let found = try versions([
            "#EXT-X-MEDIA-SEQUENCE:\(largest)\n#EXT-X-DISCONTINUITY-SEQUENCE:\(UInt64.max)\n\(segments("a", "b"))",
            "#EXT-X-DISCONTINUITY-SEQUENCE:\(UInt64.max)\n#EXT-X-DISCONTINUITY\n\(segments("c", "d", "e"))",
        ])
        #expect(found[1].lines.first == "#EXT-X-MEDIA-SEQUENCE:\(largest)")
        #expect(found[1].result.firstSegment == largest + 2)
    }

    @Test func deltaUpdatesNeedWhatTheySkip() throws {
        let routes = TestRoutes()
        let channel = Channel(kind: .fragmentedMP4)
        var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay])
        func isRefused(_ error: any Error) -> Bool { (error as? FormatError)?.isSameKind(as: .unsupported("")) == true }
        #expect { try rewriter.rewrite(channel.playlist(at: 0, skipping: 2), routes: routes) } throws: { isRefused($0) }
        let whole = try rewriter.rewrite(channel.playlist(at: 0), routes: routes).text
        #expect {
            try rewriter.rewrite(channel.playlist(at: 40, skipping: 2), routes: routes)
        } throws: { isRefused($0) }
        // A refresh that failed changes nothing.
        let delta = try rewriter.rewrite(channel.playlist(at: 0, skipping: 2), routes: routes).text
        #expect(SeenSegment.segments(of: delta) == Array(SeenSegment.segments(of: whole).dropFirst(2)))
    }

    /// What the demuxer takes over from the segments left out has no key.
    @Test func deltaUpdatesOfWholeSegmentsNameNoKey() throws {
        var channel = Channel(kind: .wholeSegments)
        (channel.start, channel.breaks) = (38, 40)
        let routes = TestRoutes()
        var rewriter = HLSPlaylistRewriter(keyFormats: [])
        let whole = try rewriter.rewrite(channel.playlist(at: 0), routes: routes).text
        let isDirect = SeenSegment.segments(of: whole).map { routes.resource($0.url) == nil }
        #expect(isDirect == [false, false, true, true, true, true])
        let delta = try rewriter.rewrite(channel.playlist(at: 0, skipping: 2), routes: routes).text
        #expect(!whole.contains("METHOD=AES") && !delta.contains("METHOD=AES"))
        #expect(delta.contains("#EXTINF:4.0,\nhttps://cdn.example/p/s40.ts\n"))
    }

    @Test func theSamePlaylistGivesTheSameBytes() throws {
        let routes = TestRoutes()
        for kind in Channel.Kind.allCases {
            var rewriter = HLSPlaylistRewriter(keyFormats: [.fairPlay, .identity])
            let first = try rewriter.rewrite(Channel(kind: kind).playlist(at: 50), routes: routes).text
            #expect(try rewriter.rewrite(Channel(kind: kind).playlist(at: 50), routes: routes).text == first)
        }
    }
}
