// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Testing

@testable import LatchkeyElements

/// What a stock demuxer is asked for so that another audio track plays.
@Suite struct AudioChoiceTests {
    init() { TestProcess.prepare }

    /// That a demuxer has these streams, or plays them.
    private func message(_ ids: String..., areSelected: Bool = false) throws -> Message {
        let collection = try #require(gst_stream_collection_new(nil))
        defer { gst_object_unref(UnsafeMutableRawPointer(collection)) }
        for id in ids {
            let type = id == "video" ? GST_STREAM_TYPE_VIDEO : GST_STREAM_TYPE_AUDIO
            gst_stream_collection_add_stream(collection, gst_stream_new(id, nil, type, GST_STREAM_FLAG_NONE))
        }
        guard areSelected else {
            return Message(owning: try #require(gst_message_new_stream_collection(nil, collection)))
        }
        let message = try #require(gst_message_new_streams_selected(nil, collection))
        for index in 0..<gst_stream_collection_get_size(collection) {
            gst_message_streams_selected_add(message, gst_stream_collection_get_stream(collection, index))
        }
        return Message(owning: message)
    }

    private let tracks = [
        AudioChoice.Track(name: "English", language: "en"), AudioChoice.Track(name: "Deutsch", language: "de"),
        AudioChoice.Track(name: "Suomi", language: "fi"),
    ]

    /// The stock demuxer has the tracks in the order of what it was given.
    @Test(arguments: [
        (nil, "Deutsch", "b"), (nil, "FI", "c"), ("Suomi", "English", "b"), ("Suomi", "Deutsch", "c"),
        ("en", "de", "b"),
        (nil, "English", nil), ("Suomi", "fi", nil), (nil, "Svenska", nil),
    ])
    func anotherTrackPlays(first: String?, wanted: String, expected: String?) throws {
        var audio = AudioChoice(wanted: first)
        audio.setTracks(tracks, withFirst: first)
        _ = audio.note(try message("video", "a", "b", "c"))
        _ = audio.note(try message("video", "a", areSelected: true))
        audio.wanted = wanted
        #expect(audio.streamsToSelect() == expected.map { ["video", $0] })
    }

    /// hlsdemux2 has the names in its IDs, and the tracks of one group.
    @Test(arguments: [("de", ["video", "x/audio-Deutsch"]), ("Suomi", nil)])
    func namesAreInIDs(wanted: String, expected: [String]?) throws {
        var audio = AudioChoice(wanted: wanted)
        audio.setTracks(tracks, withFirst: nil, idsHaveNames: true)
        _ = audio.note(try message("x/audio-English", "video", "x/audio-Deutsch"))
        #expect(audio.streamsToSelect() == expected)
    }

    /// As while a manifest waits for keys, and as of live manifests whose tracks stay where they are.
    @Test(arguments: [true, false]) func aChangeThatIsDueComesOnce(isLate: Bool) throws {
        var audio = AudioChoice(wanted: isLate ? nil : "de")
        audio.setTracks(tracks, withFirst: nil)
        audio.wanted = "de"
        if isLate { #expect(audio.streamsToSelect() == nil) }
        let isDueAtOnce = audio.note(try message("video", "a", "b", "c"))
        let isDue = audio.note(try message("video", "a", areSelected: true))
        #expect(!isDueAtOnce && isDue)
        #expect(audio.streamsToSelect() == ["video", "b"])
        let isDueAgain = audio.note(try message("video", "b", areSelected: true))
        #expect(!isDueAgain && audio.streamsToSelect() == nil)
    }

    /// What is in front plays by itself, and a name that no track has changes nothing.
    @Test(arguments: ["de", "Svenska"]) func noChangeIsDue(wanted: String) throws {
        var audio = AudioChoice(wanted: wanted)
        audio.setTracks(tracks, withFirst: wanted)
        _ = audio.note(try message("video", "b", "a", "c"))
        let isDue = audio.note(try message("video", "b", areSelected: true))
        #expect(!isDue)
    }
}
