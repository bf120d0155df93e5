// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestSupport
import Testing

@testable import LatchkeyContainers

/// What comes in the place of content, and what may be content.
@Suite struct ForeignContentTests {
    private static let ads = String(repeating: "Please log in. ", count: 100)

    @Test(arguments: [
        ("<!DOCTYPE html><title>x</title>", ForeignContent.webPage), (" \n<!-- x --><HTML>", .webPage),
        ("\u{FEFF}<html lang=en>", .webPage), (#"<?xml version="1.0"?><!DOCTYPE html PUBLIC "x"><html>"#, .webPage),
        (#"{"error":"not authorized"}"#, .json), ("\u{FEFF}\r\n{ }", .json), (#"[{"a":1}]"#, .json), ("[]", .json),
        (#"<?xml version="1.0"?>\#n<!-- x --><Error><Code>AccessDenied</Code></Error>"#, .xml),
        (#"<soap:Envelope xmlns:soap="x"><soap:Fault/></soap:Envelope>"#, .xml), ("<Error/>", .xml),
        (#"<!DOCTYPE plist PUBLIC "x"><plist>"#, .xml), (#"<svg xmlns="x">"#, .xml),
        ("Please log in", .text), ("Gateway Timeout\r\n", .text), ("Bitte bestätigen", .text), ("ログインしてください", .text),
        (ads, .text), (#"{"error":""# + ads, .json), (String(repeating: "é", count: 400), .text),
        ("x" + String(repeating: "ログ", count: 400), .text),
    ])
    func textThatIsNoContent(_ text: String, _ content: ForeignContent) {
        #expect(ForeignContent(start: text.utf8) == content)
        #expect(ForeignContent(start: text.utf8, isPart: true) == (content == .webPage ? .webPage : nil))
    }

    /// As GStreamer's parsers of subtitles take it, and what is too little.
    @Test(arguments: [
        "", " \r\n ", "OK", "404 Not Found", "#EXTM3U\n#EXT-X-ENDLIST\n", "\u{FEFF}#EXTM3U", "WEBVTT\n\n",
        "\u{FEFF}WEBVTT\nX-TIMESTAMP-MAP=LOCAL:00:00:00.000,MPEGTS:900000\n",
        "first\n00:00:01.000 --> 00:00:02.000\nHello\n", "1\n00:00:01,000 --> 00:00:02,000\nHello\n",
        "{1}{25}Hello there",
        "{QTtext}{font:Tahoma}", "[Script Info]\nTitle: x\n", "[00:12.00]Hello there", "[1][25]Hello there",
        "[INFORMATION]\n[TITLE]", "00:00:01:Hello there",
        #"<?xml version="1.0"?><tt xmlns="http://www.w3.org/ns/ttml">"#,
        "<!-- x -->\n<tt:tt xmlns:tt='x'>", "<SAMI><HEAD>", #"<MPD xmlns="urn:mpeg:dash:schema:mpd:2011">"#, "<MPD",
        "<SmoothStreamingMedia MajorVersion=\"2\">", "<!-- " + ads, "{", "[", "<", "<?xml", "Hello\u{0}there, you",
    ])
    func textThatMayBeContent(_ text: String) {
        #expect(ForeignContent(start: text.utf8) == nil)
    }

    @Test func imagesAreNoContent() {
        let images: [[UInt8]] = [
            [0x89, 0x50, 0x4E, 0x47, 0x0D, 0x0A, 0x1A, 0x0A, 0, 0, 0, 13], Array("GIF89a".utf8) + [1, 0, 1, 0],
            [0xFF, 0xD8, 0xFF, 0xE0, 0, 16] + Array("JFIF".utf8), [0xFF, 0xD8, 0xFF, 0xE1, 0, 16] + Array("Exif".utf8),
        ]
        for image in images {
            #expect(ForeignContent(start: image) == .image)
            #expect(ForeignContent(start: image, isPart: true) == nil)
        }
        // Three bytes may come by chance.
        #expect(ForeignContent(start: [0xFF, 0xD8, 0xFF] + [UInt8](repeating: 7, count: 61), isEncrypted: true) == nil)
    }

    /// A few blocks may look like text.
    @Test(arguments: [
        (16, false), (17, true), (32, false), (47, true), (48, false), (49, true), (64, true), (4096, true),
    ])
    func encryptedContentIsNoText(_ count: Int, _ isForeign: Bool) {
        let text = [UInt8](repeating: UInt8(ascii: "a"), count: count)
        #expect((ForeignContent(start: text, isEncrypted: true) == .text) == isForeign)
        #expect(ForeignContent(start: text) == .text)
    }

    @Test(arguments: [
        "dash-cenc-static-live/stream.mpd", "dash-cenc-static-live/v_init.mp4", "dash-cenc-static-live/v_1.m4s",
        "smooth-piff-ctr/Manifest", "hls-fmp4-cbcs-captions/s_2.vtt", "hls-fmp4-cbcs-captions/master.m3u8",
        "hls-ts-sampleaes-skd-aac/v.m3u8", "hls-ts-sampleaes-skd-aac/v_1.ts", "hls-ts-aes128-shaka/v_1.ts",
        "bento4-piff-ctr-ismv/media.ismv", "gpac-cenc-progressive/media.mp4",
    ])
    func contentIsNotForeign(_ file: String) throws {
        let bytes = Array(try CorpusBoxes.corpusFile(file).prefix(100_000))
        for count in [1, 8, 16, 48, 188, 512, bytes.count] where count <= bytes.count {
            #expect(ForeignContent(start: bytes.prefix(count)) == nil, "\(count)")
            #expect(ForeignContent(start: bytes.prefix(count), isEncrypted: true) == nil, "\(count)")
        }
    }

    /// Bytes with every value, of every length, never trap.
    @Test func nothingTraps() {
        for value in UInt8.min...UInt8.max {
            for count in [0, 1, 2, 511, 512, 513] {
                let bytes = [UInt8](repeating: value, count: count)
                #expect(ForeignContent(start: bytes, isPart: true) == nil)
                _ = ForeignContent(start: bytes)
            }
        }
    }

    @Test(arguments: [
        ("text/html; charset=utf-8", "text/html"), ("Text/Plain", "text/plain"),
        ("application/json", "application/json"),
        ("application/problem+json", "application/problem+json"), ("image/png", "image/png"), ("text/vtt", nil),
        ("text/xml;charset=utf-8", nil), ("video/mp4", nil), ("application/octet-stream", nil), ("", nil),
    ])
    func typesThatNoContentHas(_ field: String, _ type: String?) {
        #expect(ForeignContent.type(field) == type)
    }
}
