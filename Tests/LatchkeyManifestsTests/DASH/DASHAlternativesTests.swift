// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import LatchkeyProtection
import Testing

/// What is left of a manifest without some of its keys.
@Suite(.timeLimit(.minutes(8))) struct DASHAlternativesTests {
    private func keyID(_ number: Int) -> KeyID { KeyID(high: 1, low: UInt64(number)) }

    /// `[v1 v2] [a3]` is an AdaptationSet of video with two Representations, which have the KIDs 1 and 2, and one of audio.
    /// `v` has none, and `t3` is text. What follows a colon are attributes of the set.
    private func manifest(_ text: String, attributes: String = "") -> [UInt8] {
        let sets = text.split(separator: "]").map { part -> String in
            let words = part.drop { $0 == " " || $0 == "[" }.split(separator: ":", maxSplits: 1)
            let names = (words.first ?? "").split(separator: " ")
            let type = names.first?.first.flatMap { ["a": "audio", "t": "text"][$0] } ?? "video"
            let inside = names.map { name -> String in
                let protection = Int(name.dropFirst()).map { number in
                    "<ContentProtection schemeIdUri=\"urn:mpeg:dash:mp4protection:2011\" "
                        + "cenc:default_KID=\"\(keyID(number))\"/>"
                }
                return "<Representation id=\"\(name)\">\(protection ?? "")</Representation>"
            }
            return
                "<AdaptationSet contentType=\"\(type)\" \(words.dropFirst().joined())>\(inside.joined())</AdaptationSet>"
        }
        return Array(
            ("<MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" xmlns:cenc=\"urn:mpeg:cenc:2013\" \(attributes)>"
                + "<Period>\(sets.joined())</Period></MPD>").utf8)
    }

    private func names(_ bytes: [UInt8]) throws -> String {
        let root = try XMLElement(reading: bytes, limits: .manifest)
        return root.children.flatMap(\.children).map { set in
            "[\(set.children.compactMap { $0[attribute: "id"] }.joined(separator: " "))]"
        }.joined(separator: " ")
    }

    private static let refusals: [(text: String, refused: [Int], expected: String?)] = [
        // One of two, the other one, both, none.
        ("[v1 v2] [a3]", [2], "[v1] [a3]"), ("[v1 v2] [a3]", [1], "[v2] [a3]"), ("[v1 v2] [a3]", [1, 2], nil),
        ("[v1 v2] [a3]", [], nil),
        // The only sound stays.
        ("[v1 v2] [a3]", [3], nil), ("[v1 v2] [a3]", [2, 3], "[v1] [a3]"),
        // One key for all.
        ("[v1 v1] [a1]", [1], nil),
        // Clear media needs none.
        ("[v v2] [a3]", [2], "[v] [a3]"), ("[v v] [a]", [1], nil),
        // Sets of their own are as one.
        ("[v1] [v2] [a3]", [2], "[v1] [a3]"), ("[v1] [v2 v4] [a3]", [1, 4], "[v2] [a3]"), ("[v1] [v2]", [1, 2], nil),
        // Sound stands in for sound of another language, wherever it stands, as long as any is left.
        ("[v1] [a2:lang=\"en\"] [a3:lang=\"de\"]", [2], "[v1] [a3]"),
        ("[v1] [a2:lang=\"en\"] [a3:lang=\"de\"]", [3], "[v1] [a2]"),
        ("[v1] [a2:lang=\"en\"] [a3:lang=\"de\"]", [2, 3], nil),
        ("[v1] [a2:lang=\"en\"] [a3:lang=\"en\"]", [2], "[v1] [a3]"),
        ("[v1] [a2 a4:lang=\"en\"] [a3:lang=\"de\"] [a:lang=\"fi\"]", [2, 3], "[v1] [a4] [a]"),
        // Pictures do not, and neither does text for sound.
        ("[v1:lang=\"en\"] [v2:lang=\"de\"] [a3]", [1], nil), ("[v1] [a2] [t:lang=\"de\"]", [2], nil),
        // Text is not needed.
        ("[v1] [a3] [t2]", [2], "[v1] [a3]"), ("[v1] [a3] [t2:lang=\"en\"] [t4:lang=\"de\"]", [2], "[v1] [a3] [t4]"),
        ("[v1] [a3] [t2 t]", [2], "[v1] [a3] [t]"), ("[v1] [a3] [t2]", [1, 3], nil),
        // Unless it is all that there is.
        ("[t2]", [2], nil), ("[t2 t4]", [2], "[t4]"), ("[t2] [t4:lang=\"de\"]", [2, 4], nil),
    ]

    @Test(arguments: refusals)
    func theOthersAreLeft(text: String, refused: [Int], expected: String?) throws {
        let bytes = manifest(text)
        let alternatives = try DASHManifest(bytes).alternatives
        let refusedKeys = Set(refused.map(keyID))
        let kept = try DASHManifest.leavingOut(refusedKeys, of: alternatives, in: bytes)
        #expect(try kept.map(names) == expected)
        let leftOut = alternatives.reduce(into: Set<KeyID>()) { $0.formUnion($1.keyIDs(leftOutFor: refusedKeys)) }
        #expect(leftOut.isEmpty == (expected == nil))
        #expect(leftOut.isSubset(of: refusedKeys))
    }

    @Test(arguments: [
        ("[v1 v2] [a3]", [1, 2]), ("[v1 v1] [a3]", []), ("[v1] [v2] [a3] [a4]", [1, 2, 3, 4]), ("[v v] [a]", []),
        ("[v1] [a2:lang=\"en\"] [a3:lang=\"de\"]", [2, 3]), ("[v1] [a1:lang=\"en\"] [a1:lang=\"de\"]", []),
        ("[v1] [a1] [t4]", [4]), ("[v1] [a1] [t]", []),
        // Nothing plays without the key of the pictures.
        ("[v1] [a3] [t1]", []), ("[v1 v2] [a3] [t1]", [1, 2]),
    ])
    func aChoiceDependsOnKeys(text: String, expected: [Int]) throws {
        let deciding = try DASHManifest(manifest(text)).alternatives.reduce(into: Set<KeyID>()) {
            $0.formUnion($1.deciding)
        }
        #expect(deciding == Set(expected.map(keyID)))
    }

    /// `id="e"` stands for an EssentialProperty.
    private static let special: [(text: String, refused: [Int], expected: String?)] = [
        ("[v2:id=\"e\"] [v1] [a3]", [2], "[v1] [a3]"), ("[v1] [a3] [v2:id=\"e\"]", [2], "[v1] [a3]"),
        ("[v2:id=\"e\"] [v1 v4] [a3]", [2, 4], "[v1] [a3]"), ("[v2 v5:id=\"e\"] [v1] [a3]", [2], "[v5] [v1] [a3]"),
        // The others stay, and so do those that are all there is.
        ("[v2:id=\"e\"] [v1] [a3]", [1], nil), ("[v2:id=\"e\"] [v1] [a3]", [1, 2], "[v1] [a3]"),
        ("[v1:id=\"e\"] [v1] [a3]", [1], nil), ("[v2:id=\"e\"] [a3]", [2], nil), ("[a2:id=\"e\"] [v1]", [2], nil),
    ]

    @Test(arguments: special.indices, ["video", "image"])
    func specialPicturesAreNotNeeded(index: Int, type: String) throws {
        let (text, refused, expected) = Self.special[index]
        let property = "<EssentialProperty schemeIdUri=\"http://dashif.org/guidelines/trickmode\" value=\"1\"/>"
        func marked(_ attributes: String) throws -> [UInt8] {
            let plain = String(decoding: manifest(text, attributes: attributes), as: UTF8.self)
            return Array(
                plain.replacing("contentType=\"video\" id=\"e\">", with: "contentType=\"\(type)\">\(property)")
                    .replacing("contentType=\"audio\" id=\"e\">", with: "contentType=\"audio\">\(property)").utf8)
        }
        let bytes = try marked("")
        let kept = try DASHManifest.leavingOut(
            Set(refused.map(keyID)), of: DASHManifest(bytes).alternatives, in: bytes)
        #expect(try kept.map(names) == expected)
        // Sets of a live manifest stay.
        let live = try marked("type=\"dynamic\"")
        let left = try DASHManifest.leavingOut([keyID(2)], of: DASHManifest(live).alternatives, in: live)
        let sets = try names(left ?? live).split(separator: "]").count
        #expect(try sets == names(live).split(separator: "]").count)
    }

    /// Packagers may write no `contentType`, and text in MP4 has no MIME type of its own.
    @Test(arguments: [
        ("mimeType=\"application/mp4\" codecs=\"stpp.ttml.im1t\"", true),
        ("mimeType=\"application/mp4\" codecs=\"wvtt\"", true), ("mimeType=\"application/ttml+xml\"", true),
        ("mimeType=\"text/vtt\"", true), ("mimeType=\"application/mp4\" codecs=\"mett\"", false),
        ("mimeType=\"application/mp4\"", false),
    ])
    func textIsKnownWithoutContentType(attributes: String, isText: Bool) throws {
        for (outer, inner) in [(attributes, ""), ("", attributes)] {
            let bytes = Array(
                String(decoding: manifest("[v1] [a3] [t2]"), as: UTF8.self)
                    .replacing("contentType=\"text\"", with: outer)
                    .replacing("<Representation id=\"t2\">", with: "<Representation id=\"t2\" \(inner)>").utf8)
            let kept = try DASHManifest.leavingOut([keyID(2)], of: DASHManifest(bytes).alternatives, in: bytes)
            #expect(try kept.map(names) == (isText ? "[v1] [a3]" : nil))
        }
    }

    @Test func whatIsNotUnderstoodStays() throws {
        let text = String(decoding: manifest("[v1 v2] [a3]"), as: UTF8.self)
        let bytes = Array(text.replacing("</Period>", with: "<AdaptationSet/><Other/></Period>").utf8)
        let kept = try DASHManifest.leavingOut([keyID(2)], of: DASHManifest(bytes).alternatives, in: bytes)
        let root = try XMLElement(reading: #require(kept), limits: .manifest)
        #expect(
            root.child("Period")?.children.map(\.localName) == [
                "AdaptationSet", "AdaptationSet", "AdaptationSet", "Other",
            ])
    }

    @Test func setsOfALiveManifestStay() throws {
        let bytes = manifest("[v1] [v2] [v3 v4] [a5] [a6:lang=\"en\"] [t7]", attributes: "type=\"dynamic\"")
        let alternatives = try DASHManifest(bytes).alternatives
        let kept = try DASHManifest.leavingOut(Set([2, 4, 5, 7].map(keyID)), of: alternatives, in: bytes)
        #expect(try kept.map(names) == "[v1] [v2] [v3] [a5] [a6] [t7]")
    }

    /// Each choice looks at all keys of its own, and many Periods may share many.
    @Test func keysOfAllChoicesHaveALimit() throws {
        let scheme = "schemeIdUri=\"urn:mpeg:dash:mp4protection:2011\""
        let many = (1...255).map { keyID($0).description }.joined(separator: " ")
        let period =
            "<Period><AdaptationSet contentType=\"video\"><Representation id=\"a\"/><Representation id=\"b\">"
            + "<ContentProtection \(scheme) cenc:default_KID=\"\(keyID(256))\"/></Representation></AdaptationSet></Period>"
        let bytes = Array(
            ("<MPD xmlns:cenc=\"urn:mpeg:cenc:2013\"><ContentProtection \(scheme) cenc:default_KID=\"\(many)\"/>"
                + "\(String(repeating: period, count: 300))</MPD>").utf8)
        let manifest = try DASHManifest(bytes)
        #expect(manifest.alternatives.count == 256)
        #expect(manifest.protections.count == 2)
        let kept = try DASHManifest.leavingOut([keyID(256)], of: manifest.alternatives, in: bytes)
        let root = try XMLElement(reading: #require(kept), limits: .manifest)
        let counts = root.children.compactMap { $0.child("AdaptationSet")?.children.count }
        #expect(counts == [Int](repeating: 1, count: 256) + [Int](repeating: 2, count: 44))
    }

    /// Those of a set hold for Representations without their own, and other Periods are choices of their own.
    @Test func keysAreInherited() throws {
        let protection = { (number: Int) in
            "<ContentProtection schemeIdUri=\"urn:mpeg:dash:mp4protection:2011\" cenc:default_KID=\"\(self.keyID(number))\"/>"
        }
        let set = { (outer: Int, inner: Int) in
            "<Period><AdaptationSet mimeType=\"video/mp4\">\(protection(outer))<Representation id=\"a\"/>"
                + "<Representation id=\"b\">\(protection(inner))</Representation></AdaptationSet></Period>"
        }
        let bytes = Array("<MPD xmlns:cenc=\"urn:mpeg:cenc:2013\">\(set(1, 2))\(set(2, 3))</MPD>".utf8)
        let kept = try DASHManifest.leavingOut([keyID(2)], of: DASHManifest(bytes).alternatives, in: bytes)
        let root = try XMLElement(reading: #require(kept), limits: .manifest)
        #expect(
            root.children.map { $0.children[0].children.compactMap { $0[attribute: "id"] } } == [["a"], ["b"]])
    }

    private static let common = "<ContentProtection schemeIdUri=\"urn:mpeg:dash:mp4protection:2011\"/>"

    /// Pictures, and sound of two languages, of which only init segments tell the keys, and clear text.
    private static let untold = """
        <MPD><BaseURL>media/</BaseURL><Period><AdaptationSet contentType="video">\(common)\
        <SegmentTemplate initialization="$RepresentationID$/init.mp4" media="$Number$.m4s" duration="1"/>\
        <Representation id="a"/><Representation id="b"><BaseURL>b/</BaseURL></Representation></AdaptationSet>\
        <AdaptationSet contentType="audio" lang="en">\(common)<Representation id="alone"><BaseURL>alone.mp4</BaseURL>\
        </Representation></AdaptationSet><AdaptationSet contentType="text"><Representation id="t"/><Representation id="u"/>\
        </AdaptationSet><AdaptationSet contentType="audio" lang="de">\(common)<Representation id="c"><BaseURL>c.mp4</BaseURL>\
        <SegmentBase indexRange="700-799"><Initialization range="0-699"/></SegmentBase></Representation>\
        <Representation id="d"><BaseURL>/d.mp4</BaseURL><SegmentBase indexRange="800-899"/></Representation>\
        <Representation id="e"><BaseURL>https://b.test/e.mp4</BaseURL></Representation></AdaptationSet></Period></MPD>
        """
    private static let url = "https://a.test/x/film.mpd"

    @Test func initSegmentsOfAChoiceAreLookedFor() throws {
        let bytes = Array(Self.untold.utf8)
        let untold = try DASHManifest(bytes, from: Self.url).untold
        #expect(
            untold.map { "\($0.url) \($0.byteRange?.httpRange ?? "")" } == [
                "https://a.test/x/media/a/init.mp4 ", "https://a.test/x/media/b/b/init.mp4 ",
                "https://a.test/x/media/alone.mp4 bytes=0-65535", "https://a.test/x/media/c.mp4 bytes=0-699",
                "https://a.test/d.mp4 bytes=0-799", "https://b.test/e.mp4 bytes=0-65535",
            ])
        #expect(try DASHManifest(bytes).untold.isEmpty)
        // Clear media is no matter of keys.
        let clear = Self.untold.replacing(Self.common, with: "")
        #expect(try DASHManifest(Array(clear.utf8), from: Self.url).untold.isEmpty)
    }

    /// What tells the keys and the systems is enough. KIDs alone are not: an init segment may say how to ask for them.
    @Test(arguments: [
        ("[v1 v2] [a3]", true, true, 0), ("[v1 v2] [a3]", true, false, 2), ("[v1 v2] [a3]", false, true, 2),
        // One key for all.
        ("[v1 v1] [a3]", true, false, 0),
    ])
    func whatIsToldIsNotLookedFor(sets: String, hasKeyIDs: Bool, hasSystem: Bool, expected: Int) throws {
        var text = String(decoding: manifest(sets), as: UTF8.self)
        if !hasKeyIDs { text.replace(#/ cenc:default_KID="[^"]*"/#, with: "") }
        let system = "<ContentProtection schemeIdUri=\"urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e\"/>"
        if hasSystem { text.replace("</Representation>", with: "\(system)</Representation>") }
        text.replace(
            "</Representation>",
            with: "<SegmentTemplate initialization=\"$RepresentationID$.mp4\"/></Representation>")
        #expect(try DASHManifest(Array(text.utf8), from: Self.url).untold.count == expected)
    }

    @Test func keysOfInitSegmentsDecide() throws {
        let bytes = Array(Self.untold.utf8)
        let places = try DASHManifest(bytes, from: Self.url).untold
        let known = Dictionary(
            uniqueKeysWithValues: zip(places, 1...2).map { place, number in
                let element = XMLElement(
                    "ContentProtection",
                    attributes: [
                        .init("schemeIdUri", "urn:mpeg:dash:mp4protection:2011"),
                        .init("default_KID", keyID(number).description),
                    ])
                return (place, [DASHContentProtection(element)])
            })
        let manifest = try DASHManifest(bytes, from: Self.url, known: known)
        #expect(manifest.untold == Array(places.dropFirst(2)))
        let deciding = manifest.alternatives.reduce(into: Set<KeyID>()) { $0.formUnion($1.deciding) }
        #expect(deciding == [keyID(1), keyID(2)])
        #expect(Set(manifest.protections.flatMap(\.defaultKeyIDs)) == deciding)
        let kept = try DASHManifest.leavingOut([keyID(2)], of: manifest.alternatives, in: bytes)
        #expect(try kept.map(names) == "[a] [alone] [t u] [c d e]")
    }

    /// What may be left out is a choice by itself. Text that is no MP4 has no init segment.
    @Test func initSegmentsOfTextAreLookedFor() throws {
        func set(_ attributes: String, _ name: String, _ file: String) -> String {
            """
            <AdaptationSet \(attributes)>\(Self.common)<Representation id="\(name)"><BaseURL>\(file)</BaseURL>\
            </Representation></AdaptationSet>
            """
        }
        let sets = [
            set("contentType=\"video\"", "v", "v.mp4"), set("contentType=\"text\"", "t", "t.mp4"),
            set("contentType=\"text\" mimeType=\"text/vtt\" lang=\"en\"", "w", "w.vtt"),
        ]
        let bytes = Array("<MPD><Period>\(sets.joined())</Period></MPD>".utf8)
        let untold = try DASHManifest(bytes, from: Self.url).untold
        #expect(untold.map(\.url) == ["https://a.test/x/t.mp4"])
        let told = DASHContentProtection(
            XMLElement(
                "ContentProtection",
                attributes: [
                    .init("schemeIdUri", "urn:mpeg:dash:mp4protection:2011"),
                    .init("default_KID", keyID(1).description),
                ]))
        let known = Dictionary(uniqueKeysWithValues: untold.map { ($0, [told]) })
        let alternatives = try DASHManifest(bytes, from: Self.url, known: known).alternatives
        let kept = try DASHManifest.leavingOut([keyID(1)], of: alternatives, in: bytes)
        #expect(try kept.map(names) == "[v] [w]")
    }

    /// However many a manifest names.
    @Test func fewInitSegmentsAreLookedFor() throws {
        let representations = (0..<1000).map { "<Representation id=\"\($0)\"/>" }.joined()
        let text = """
            <MPD><Period><AdaptationSet>\(Self.common)<SegmentTemplate initialization="$RepresentationID$.mp4"/>\
            \(representations)</AdaptationSet></Period></MPD>
            """
        #expect(try DASHManifest(Array(text.utf8), from: Self.url).untold.count == 32)
    }

    @Test func longURLsAreNotLookedFor() throws {
        for (size, expected) in [(60_000, 2), (70_000, 0)] {
            let text = """
                <MPD><BaseURL>\(String(repeating: "b", count: size))/</BaseURL><Period><AdaptationSet>\(Self.common)\
                <Representation><BaseURL>1</BaseURL></Representation><Representation><BaseURL>2</BaseURL></Representation>\
                </AdaptationSet></Period></MPD>
                """
            #expect(try DASHManifest(Array(text.utf8), from: Self.url).untold.count == expected)
        }
    }

    @Test func otherMediaThanMP4IsNotLookedFor() throws {
        for (type, expected) in [("video/webm", 0), ("video/mp4", 2)] {
            let text = """
                <MPD><Period><AdaptationSet mimeType="\(type)">\(Self.common)<SegmentTemplate \
                initialization="$RepresentationID$.init"/><Representation id="a"/><Representation id="b"/></AdaptationSet>\
                </Period></MPD>
                """
            #expect(try DASHManifest(Array(text.utf8), from: Self.url).untold.count == expected)
        }
    }
}
