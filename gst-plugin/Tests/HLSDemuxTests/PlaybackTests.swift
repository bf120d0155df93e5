// SPDX-License-Identifier: MPL-2.0

import ElementTestSupport
import HTTP
import LicenseControl
import Testing

@Suite(.serialized, .timeLimit(.minutes(2)))
struct PlaybackTests {
    @Test(arguments: [
        "hls-fmp4-cbcs-identity", "hls-fmp4-cbcs-fairplay-skd", "hls-fmp4-cbcs-byterange", "hls-fmp4-cbcs-3drm",
    ])
    func encryptedSamplesOfFragmentedMP4(name: String) throws {
        let media = try CorpusCase(name)
        let origin = try Origin(media.folder)
        let playback = try HLSPlayback(
            origin.url("master.m3u8"), session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(playback.elements.contains("latchkeyhlsdemux"))
        for type in ["video", "audio"] {
            #expect(try playback.packets(type) == media.packets(type))
        }
    }
}
