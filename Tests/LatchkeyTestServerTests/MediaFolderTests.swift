// SPDX-License-Identifier: MPL-2.0

import Foundation
import Testing

@testable import LatchkeyTestServer

@Suite struct MediaFolderTests {
    private let temporary: TemporaryFolder
    private let folder: MediaFolder

    init() throws {
        temporary = try TemporaryFolder()
        try temporary.write("12345", to: "media/a b.mp4")
        try temporary.write("123", to: "media/sub/..b.mp4")
        try temporary.write("", to: "media/%41.mp4")
        try temporary.link("media/inside.mp4", to: "sub/..b.mp4")
        try temporary.link("media/out.txt", to: "../outside.txt")
        try temporary.link("media/absolute.txt", to: temporary.root.appendingPathComponent("outside.txt").path)
        try temporary.link("media/up", to: "..")
        try temporary.link("media/loop", to: "loop")
        folder = try #require(MediaFolder(path: temporary.media.path))
    }

    @Test(arguments: [
        ("a%20b.mp4", 5), ("sub/..b.mp4", 3), ("sub%2F..b.mp4", 3), ("inside.mp4", 3), ("%2541.mp4", 0),
        ("up/media/a b.mp4", 5),
    ])
    func findsAFileWithin(path: String, size: Int) throws {
        let file = try #require(folder.file(atEscapedPath: path))
        #expect(file.size == size)
        #expect(file.path.hasPrefix(folder.path + "/"))
    }

    @Test(arguments: [
        "", "/", ".", "..", "sub", "sub/", "nothing.mp4", "../outside.txt", "sub/../../outside.txt",
        "sub/../a%20b.mp4", "%2e%2e/outside.txt", "%2E%2E%2Foutside.txt", "..%2foutside.txt", "%252e%252e/outside.txt",
        "../media-other/file.txt", "/etc/passwd", "//etc/passwd", "%2fetc/passwd", "out.txt", "absolute.txt",
        "up/outside.txt", "up/media-other/file.txt", "loop", "a%20b.mp4%00", "a%20b.mp4/", "a%20b.mp4/x", "%", "%zz",
        "A.mp4", "..\\outside.txt",
    ])
    func findsNothingElse(path: String) {
        #expect(folder.file(atEscapedPath: path) == nil)
    }

    @Test func aFileOrNothingIsNoFolder() {
        #expect(MediaFolder(path: temporary.root.appendingPathComponent("outside.txt").path) == nil)
        #expect(MediaFolder(path: temporary.root.appendingPathComponent("nothing").path) == nil)
    }

    @Test(arguments: [
        ("stream.mpd", "application/dash+xml"), ("MASTER.M3U8", "application/vnd.apple.mpegurl"),
        ("a.b/video.mp4", "video/mp4"), ("v_1.m4s", "video/iso.segment"), ("x.webm", "video/webm"),
        ("seg.ts", "video/mp2t"), ("a.aac", "audio/aac"), ("x.ism/Manifest", "application/vnd.ms-sstr+xml"),
        ("Fragments(video=0)", "application/octet-stream"), ("noending", "application/octet-stream"),
        ("key.bin", "application/octet-stream"), (".", "application/octet-stream"),
    ])
    func contentTypes(name: String, type: String) {
        #expect(MediaTypes.contentType(ofFile: name) == type)
    }
}
