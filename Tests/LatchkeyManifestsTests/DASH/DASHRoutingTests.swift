// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import LatchkeyTestSupport
import Testing

@Suite(.timeLimit(.minutes(8))) struct DASHRoutingTests {
    private static let home = "https://a.test/x/y/stream.mpd?token=1#t=5"

    /// `https://a.test` becomes `http://r/a.test`, and so on; nothing is given for `no.test`.
    private func routed(_ body: String, from url: String = home) throws -> String? {
        let text =
            "<MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" xmlns:xlink=\"http://www.w3.org/1999/xlink\">\(body)</MPD>"
        let bytes = try DASHManifest.routed(Array(text.utf8), from: url) { origin in
            let host = origin.drop { $0 != "/" }.dropFirst(2)
            return host == "no.test" ? nil : "http://r/\(host)"
        }
        guard let bytes else { return nil }
        let root = try XMLElement(reading: bytes, limits: .manifest)
        #expect(root.namespace == "urn:mpeg:dash:schema:mpd:2011" && root.child("BaseURL")?.namespace == root.namespace)
        let all = String(decoding: bytes, as: UTF8.self)
        return all.firstIndex(of: ">").map { String(all[all.index(after: $0)...].dropLast("</MPD>".count)) }
    }

    @Test func theManifestsOwnPlaceIsWrittenOut() throws {
        #expect(try routed("<Period></Period>") == "<BaseURL>http://r/a.test/x/y/stream.mpd</BaseURL><Period></Period>")
        let odd = try routed("<Period></Period>", from: "http://a.test/../b/./c.mpd")
        #expect(odd == "<BaseURL>http://r/a.test/b/c.mpd</BaseURL><Period></Period>")
        #expect(try routed("", from: "https://a.test")?.contains("http://r/a.test/") == true)
    }

    @Test(arguments: [
        ("media/", "http://r/a.test/x/y/media/"), ("../z/", "http://r/a.test/x/z/"), ("/z/", "http://r/a.test/z/"),
        ("../../../../z/", "http://r/a.test/z/"), ("//b.test:8/z/", "http://r/b.test:8/z/"),
        ("http://b.test/z/?s=1", "http://r/b.test/z/?s=1"), ("http://b.test", "http://r/b.test/"),
        ("http://b.test?s=1", "http://r/b.test/?s=1"), ("", "http://r/a.test/x/y/stream.mpd?token=1"),
        ("https://no.test/z/", "https://no.test/z/"), (" http://b.test/a b/ ", "http://r/b.test/a%20b/"),
    ])
    func aBaseOfAll(_ base: String, _ result: String) throws {
        #expect(try routed("<BaseURL>\(base)</BaseURL>") == "<BaseURL>\(result)</BaseURL>")
    }

    /// Those that stay below the base above stay as they are.
    @Test(arguments: [
        ("video.mp4", "video.mp4"), (" a/b.mp4?c=d ", " a/b.mp4?c=d "), ("./v/", "./v/"),
        ("../v/", "http://r/b.test/v/"),
        ("/v/", "http://r/b.test/v/"), ("https://c.test/v/", "http://r/c.test/v/"),
        ("//c.test/v/", "http://r/c.test/v/"),
    ])
    func aBaseBelow(_ base: String, _ result: String) throws {
        let text =
            "<BaseURL>http://b.test/m/</BaseURL><Period><AdaptationSet><Representation>"
            + "<BaseURL>\(base)</BaseURL></Representation></AdaptationSet></Period>"
        let expected =
            "<BaseURL>http://r/b.test/m/</BaseURL><Period><AdaptationSet><Representation>"
            + "<BaseURL>\(result)</BaseURL></Representation></AdaptationSet></Period>"
        #expect(try routed(text) == expected)
    }

    /// Each of several is led elsewhere; below, the first counts.
    @Test func severalBases() throws {
        let text =
            "<BaseURL>http://b.test/</BaseURL><BaseURL>http://c.test/</BaseURL><Period><BaseURL>/p/</BaseURL></Period>"
        let result =
            "<BaseURL>http://r/b.test/</BaseURL><BaseURL>http://r/c.test/</BaseURL><Period>"
            + "<BaseURL>http://r/b.test/p/</BaseURL></Period>"
        #expect(try routed(text) == result)
    }

    @Test(arguments: [
        ("v_$Number%05d$.m4s?a=b&amp;c", "v_$Number%05d$.m4s?a=b&amp;c"), ("../v/$Time$", "../v/$Time$"),
        ("/v/$RepresentationID$/", "http://r/a.test/v/$RepresentationID$/"),
        ("//b.test/$Time$", "http://r/b.test/$Time$"), ("http://b.test/{$Time$}", "http://r/b.test/{$Time$}"),
        ("https://no.test/$Time$", "https://no.test/$Time$"), ("data:,x", "data:,x"),
    ])
    func templates(_ template: String, _ result: String) throws {
        let text = try routed("<Period><SegmentTemplate media=\"\(template)\"></SegmentTemplate></Period>")
        #expect(text?.contains("<SegmentTemplate media=\"\(result)\">") == true, "\(text ?? "none")")
    }

    /// What a live presentation's demuxer fetches by itself, it names a place of this process to.
    @Test(arguments: [(false, true), (true, false)]) func originsThatStayOutside(_ isLive: Bool, _ isRouted: Bool)
        throws
    {
        let text =
            "<MPD\(isLive ? " type=\"dynamic\"" : "")><BaseURL>http://no.test/</BaseURL><Period></Period></MPD>"
        let result = try DASHManifest.routed(Array(text.utf8), from: "http://a.test/x.mpd") { origin in
            origin.contains("no.test") ? nil : "http://r/a.test"
        }
        #expect((result != nil) == isRouted)
    }

    @Test func listsAndRanges() throws {
        let text =
            "<Period><SegmentList><Initialization range=\"0-9\" sourceURL=\"/i\"></Initialization>"
            + "<SegmentURL media=\"/m\" mediaRange=\"10-99\"></SegmentURL></SegmentList></Period>"
        let result = try routed(text)
        #expect(result?.hasSuffix(text.replacing("\"/", with: "\"http://r/a.test/")) == true, "\(result ?? "none")")
    }

    /// What else there is, down to its white space, stays.
    @Test func allElseStays() throws {
        let text =
            "\n <ProgramInformation><Title>/a &amp; b</Title></ProgramInformation><Location>/c.mpd</Location> <Period>"
            + "<EventStream><Event media=\"/e\">x</Event></EventStream></Period>"
        #expect(try routed(text)?.hasSuffix(text) == true)
    }

    /// Only a manifest that is a file has its files led elsewhere: `route` gives nothing for them otherwise.
    @Test func files() throws {
        let text = Array("<MPD><Period><SegmentTemplate media=\"v\"></SegmentTemplate></Period></MPD>".utf8)
        let routed = try DASHManifest.routed(text, from: "file:///x/y.mpd") { $0 == "file://" ? "http://r/0" : nil }
        #expect(routed.map { String(decoding: $0, as: UTF8.self) }?.contains(">http://r/0/x/y.mpd<") == true)
        let base = Array("<MPD><BaseURL>file:///x/</BaseURL><Period></Period></MPD>".utf8)
        for url in ["https://a.test/y.mpd", "file:///x/y.mpd"] {
            #expect(try DASHManifest.routed(base, from: url) { $0 == "file://" ? nil : "http://r/0" } == nil)
        }
    }

    @Test(arguments: [
        // What comes from elsewhere may have references of its own.
        "<Period xlink:href=\"period.xml\"></Period>",
        // Above the root, which only the demuxer itself stops at.
        "<Period><SegmentTemplate media=\"../../../v\"></SegmentTemplate></Period>",
        "<Period><SegmentTemplate media=\"%2e%2e/..%2F/../../v\"></SegmentTemplate></Period>",
        "<Period><SegmentTemplate media=\"/../v\"></SegmentTemplate></Period>",
        "<Period><SegmentTemplate media=\"http://b.test/../v\"></SegmentTemplate></Period>",
        // Whose root?
        "<Period><BaseURL>http://b.test/</BaseURL><SegmentTemplate media=\"/v\"></SegmentTemplate></Period>",
        "<BaseURL>ftp://b.test/</BaseURL>",
    ])
    func whatHasToStay(_ text: String) throws { #expect(try routed(text) == nil) }

    @Test func onlyWhatIsFetched() throws {
        #expect(try routed("", from: "ftp://a.test/x/y.mpd") == nil)
        #expect(try routed("", from: "file://a.test/x/y.mpd") == nil)
        #expect(try routed("", from: "https://no.test/y.mpd") == nil)
        #expect(try routed("<Period xlink:href=\"urn:mpeg:dash:resolve-to-zero:2013\"></Period>") != nil)
        #expect(throws: FormatError.self) { try DASHManifest.routed(Array("<x/>".utf8), from: Self.home) { $0 } }
    }

    /// The demuxer's own reader takes no more than that.
    @Test func notMoreThanAnybodyReads() throws {
        let base = "<BaseURL>http://b.test/</BaseURL>"
        let text = "<MPD><Period>" + String(repeating: base, count: 20_000) + "</Period></MPD>"
        let long = "http://r/" + String(repeating: "a", count: 500)
        #expect(try DASHManifest.routed(Array(text.utf8), from: Self.home) { _ in long } == nil)
    }
}
