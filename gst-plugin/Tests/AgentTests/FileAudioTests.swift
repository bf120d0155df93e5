// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementTestSupport
import Testing

@testable import Latchkey
@testable import LatchkeyElementKit

/// Which audio track of a file plays.
@Suite struct FileAudioTests {
    init() { TestProcess.prepare }

    private func stream(_ id: String, _ type: GstStreamType) throws -> StreamDescription {
        let stream = try #require(gst_stream_new(id, nil, type, GST_STREAM_FLAG_NONE))
        defer { gst_object_unref(UnsafeMutableRawPointer(stream)) }
        return StreamDescription(stream)
    }

    private var streams: [StreamDescription] {
        get throws {
            try [
                stream("a/001", GST_STREAM_TYPE_VIDEO), stream("a/002", GST_STREAM_TYPE_AUDIO),
                stream("a/012", GST_STREAM_TYPE_AUDIO), stream("a/1002", GST_STREAM_TYPE_AUDIO),
                stream("a/003", GST_STREAM_TYPE_TEXT),
            ]
        }
    }

    @Test(arguments: [
        (2, [nil, true, false, false, nil]), (12, [nil, false, true, false, nil]),
        (1002, [nil, false, false, true, nil]),
        // Not there, or no sound: the player decides.
        (4, [nil, nil, nil, nil, nil]), (1, [nil, nil, nil, nil, nil]), (nil, [nil, nil, nil, nil, nil]),
    ])
    func theTrackDecides(track: Int?, chosen: [Bool?]) throws {
        var audio = FileAudio()
        let streams = try streams
        #expect(streams.map { audio.isSelected($0, of: streams, track: track.map(UInt32.init)) } == chosen)
    }

    @Test func anotherTrackWhileItPlays() throws {
        var audio = FileAudio()
        let streams = try streams
        #expect(streams.map { audio.isSelected($0, of: streams, track: nil) } == [nil, nil, nil, nil, nil])
        #expect(audio.note(selected: [streams[1], streams[4], streams[0]]) == false)
        #expect(audio.streamsToSelect(track: 12) == ["a/003", "a/001", "a/012"])
        #expect(audio.streamsToSelect(track: 2) == nil)
        #expect(audio.streamsToSelect(track: 4) == nil)
        #expect(audio.note(selected: [streams[0], streams[2]]) == false)
    }

    /// The track is known before the player has chosen, and after it was asked for its choice.
    @Test func aChangeThatIsDueComesOnce() throws {
        var audio = FileAudio()
        let streams = try streams
        _ = audio.isSelected(streams[1], of: streams, track: nil)
        #expect(audio.streamsToSelect(track: 12) == nil)
        #expect(audio.note(selected: [streams[0], streams[1]]) == true)
        #expect(audio.streamsToSelect(track: 12) == ["a/001", "a/012"])
        #expect(audio.note(selected: [streams[0], streams[1]]) == false)
    }
}
