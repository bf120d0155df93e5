// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import LatchkeyTestSupport
import Testing

@Suite(.timeLimit(.minutes(8))) struct SmoothRoutingTests {
    private func manifest(_ url: String) throws -> SmoothManifest {
        let text =
            "<SmoothStreamingMedia MajorVersion=\"2\" MinorVersion=\"0\" Duration=\"1\"><StreamIndex Type=\"video\" "
            + "Url=\"\(url)\"></StreamIndex><StreamIndex Type=\"audio\"></StreamIndex></SmoothStreamingMedia>"
        return try SmoothManifest(Array(text.utf8))
    }

    private func url(in manifest: SmoothManifest) throws -> String? {
        try XMLElement(reading: manifest.serialized(), limits: .manifest).child("StreamIndex")?[attribute: "Url"]
    }

    @Test(arguments: [
        ("Q({bitrate})/F(video={start time})", "http://r/s/f.ism/Q({bitrate})/F(video={start time})"),
        ("../a/{start time}", "http://r/s/f.ism/../a/{start time}"), ("/a/{start time}", "http://r/a/{start time}"),
        ("//b.test/{bitrate}", "http://r/{bitrate}"), ("https://b.test/{bitrate}?c", "http://r/{bitrate}?c"),
    ])
    func fragments(_ text: String, _ result: String) throws {
        var manifest = try manifest(text)
        #expect(manifest.route(from: "https://a.test/s/f.ism/Manifest?token=1") { _ in "http://r" })
        #expect(try url(in: manifest) == result)
    }

    @Test(arguments: ["../../../a/{start time}", "/../a", "https://a.test/../b"])
    func aboveTheRootNothingChanges(_ text: String) throws {
        var manifest = try manifest(text)
        #expect(!manifest.route(from: "https://a.test/s/f.ism/Manifest") { _ in "http://r" })
        #expect(try url(in: manifest) == text)
    }

    @Test func withoutARouteNothingChanges() throws {
        var manifest = try manifest("a")
        #expect(!manifest.route(from: "https://a.test/Manifest") { _ in nil })
        #expect(!manifest.route(from: "ftp://a.test/Manifest") { _ in "http://r" })
        #expect(try url(in: manifest) == "a")
        #expect(manifest.route(from: "file:///b/Manifest") { $0 == "file://" ? "http://r" : nil })
        #expect(try url(in: manifest) == "http://r/b/a")
    }
}
