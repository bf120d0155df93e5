// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import CLatchkeyGStreamer
import LatchkeyElementTestSupport
import Foundation
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyProtection
import Testing

@testable import LatchkeyElements

extension HLSDemuxTests {
    /// Keys that stand in the playlist itself.
    @Suite(.timeLimit(.minutes(8))) struct DataURITests {}
}

extension HLSDemuxTests.DataURITests {
    /// An origin whose playlists have the keys in them, by the playlist's name; `""` is for all others.
    private func origin(_ media: CorpusCase, _ keys: [String: [UInt8]]) throws -> Origin {
        try Origin(media.folder) { request in
            guard request.path.hasSuffix(".m3u8"), let key = keys[request.path] ?? keys[""],
                let bytes = try? media.bytes(request.path)
            else { return nil }
            let uri = "data:application/octet-stream;base64,\(Data(key).base64EncodedString())"
            let text = String(decoding: bytes, as: UTF8.self).replacingOccurrences(of: "key.bin", with: uri)
            return LoopbackResponse(body: Array(text.utf8))
        }
    }

    /// Whoever listens to the bus does not see the key: not in a message, and not in a request, for there is none.
    private func expectNoKey(_ key: [UInt8], on playback: HLSPlayback) {
        let text = playback.bus.all().map(\.description).joined(separator: "\n")
        #expect(!text.contains(Data(key).base64EncodedString()))
        #expect(!text.contains(key.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()))
        #expect(playback.bus.count(element: "latchkey-key-request") == 0)
    }

    @Test(arguments: ["hls-ts-aes128-bento4", "hls-ts-sampleaes-identity-aac", "hls-fmp4-aes128-openssl"])
    func oneKeyForAll(name: String) throws {
        let media = try CorpusCase(name)
        let key = try media.bytes("key.bin")
        let origin = try origin(media, ["": key])
        let playback = try HLSPlayback(origin, media.entry)
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(try playback.frames == media.frames("video"))
        #expect(!playback.frames.isEmpty)
        expectNoKey(key, on: playback)
    }

    @Test func aKeyForEachTrack() throws {
        let media = try CorpusCase("hls-fmp4-cbcs-identity")
        let keys = media.keys.entries.map { $0.key.withBytes { Array($0) } }
        try #require(keys.count == 2)
        let origin = try origin(media, ["v.m3u8": keys[0], "a.m3u8": keys[1]])
        let playback = try HLSPlayback(origin, "master.m3u8")
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        for type in ["video", "audio"] { #expect(try playback.packets(type) == media.packets(type)) }
        for key in keys { expectNoKey(key, on: playback) }
    }

    /// Shaka Packager writes the KID where it was given no URI of the key. It is never used as the key: that comes from a loader.
    @Test(arguments: [true, false]) func theKeyIDInPlaceOfTheKey(hasKeys: Bool) throws {
        let media = try CorpusCase("hls-fmp4-cbcs-identity")
        let keyIDs = media.keys.entries.compactMap { if case .keyID(let keyID) = $0.subject { keyID } else { nil } }
        try #require(keyIDs.count == 2)
        let origin = try origin(
            media, ["v.m3u8": Array(keyIDs[0].bytes), "a.m3u8": Array(keyIDs[1].bytes)])
        let session = hasKeys ? KeySession(loaders: [StaticKeyLoader(media.keys)]) : KeySession()
        let settings = ControlSettings(keyTimeout: .seconds(1))
        let playback = try HLSPlayback(origin, "master.m3u8", session: session, settings: settings)
        let end = try playback.play()
        guard hasKeys else {
            #expect(end.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(end)")
            #expect(keyIDs.contains { end.text.contains($0.description) }, "\(end)")
            #expect(playback.frames.isEmpty)
            return
        }
        #expect(end.type == "eos", "\(end)")
        for type in ["video", "audio"] { #expect(try playback.packets(type) == media.packets(type)) }
    }

    /// The error says what is wrong, and nothing of the bytes.
    @Test(arguments: ["hls-fmp4-aes128-openssl", "hls-fmp4-cbcs-identity"])
    func dataThatAreNoKey(name: String) throws {
        let media = try CorpusCase(name)
        let key = Array(try media.bytes("v_init.mp4").prefix(15))
        let playback = try HLSPlayback(try origin(media, ["": key]), "master.m3u8")
        let error = try playback.play()
        #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
        #expect(error.text.contains("data: URI") && error.text.contains("16 bytes"), "\(error)")
        let text = playback.bus.all().map(\.description).joined(separator: "\n")
        #expect(!text.contains(Data(key).base64EncodedString()))
    }
}
