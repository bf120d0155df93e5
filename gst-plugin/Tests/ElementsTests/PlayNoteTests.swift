// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Dispatch
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements
@testable import LatchkeyKeySession

extension ElementTests {
    /// Licenses that count from the first play: that is written down before a sample is decrypted for playing.
    @Suite struct PlayNoteTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        /// A store that writes when the test says so.
        private final class Notary: Sendable {
            private let answers: AsyncStream<KeyError?>
            private let answer: AsyncStream<KeyError?>.Continuation
            private let asked = DispatchSemaphore(value: 0)
            private let asks = Atomic(0)

            init() { (answers, answer) = AsyncStream.makeStream() }

            var count: Int { asks.load(ordering: .acquiring) }

            var terms: KeyTerms {
                get throws {
                    var terms = KeyTerms()
                    terms.playNotes[try #require(KeyID(Media.keyID))] = PlayNote { [self] _ throws(KeyError) in
                        asks.add(1, ordering: .releasing)
                        asked.signal()
                        for await error in answers {
                            if let error { throw error }
                            return
                        }
                    }
                    return terms
                }
            }

            func waitUntilAsked() -> Bool {
                asked.wait(timeout: .now() + .nanoseconds(Int(TestProcess.deadline))) == .success
            }

            func end(_ error: KeyError? = nil) { answer.yield(error) }
        }

        private func rental(_ notary: Notary, in open: OpenSession) throws {
            let key = try #require(ContentKey(Media.key))
            open.session.install([try #require(KeyID(Media.keyID)): key], terms: try notary.terms)
        }

        private func harness(_ open: OpenSession) throws -> Harness {
            let harness = try Harness("latchkeycencdec", context: open.context)
            harness.start(caps: Media.bareVideo)
            return harness
        }

        private func push(_ harness: Harness, _ count: Int = 20) throws {
            #expect(harness.push(try Media.sample(Media.bytes(count)).makeBuffer()) == .ok)
        }

        /// Two tracks, and a seek.
        @Test func samplesWaitForOneNote() throws {
            let (open, notary) = (try OpenSession(), Notary())
            try rental(notary, in: open)
            let tracks = [try harness(open), try harness(open)]
            for track in tracks { try push(track) }
            #expect(notary.waitUntilAsked())
            #expect(tracks.allSatisfy { $0.output.samples.isEmpty })
            #expect(tracks[0].push(try Event.flushStart()))
            #expect(tracks[0].push(try Event.flushStop()))
            #expect(tracks[0].push(try Event.segment()))
            try push(tracks[0], 30)
            #expect(tracks.allSatisfy { $0.output.samples.isEmpty })
            notary.end()
            #expect(tracks.allSatisfy { $0.output.wait(samples: 1) })
            #expect(tracks.map { $0.output.samples.map(\.bytes) } == [[Media.bytes(30)], [Media.bytes(20)]])
            try push(tracks[1], 40)
            #expect(tracks[1].output.wait(samples: 2))
            #expect(notary.count == 1)
        }

        @Test func nothingIsDecryptedIfTheNoteFails() throws {
            let (open, notary) = (try OpenSession(), Notary())
            try rental(notary, in: open)
            let track = try harness(open)
            try push(track)
            #expect(notary.waitUntilAsked())
            notary.end(.leaseExpired("its first play cannot be noted: the disk is full"))
            let error = try track.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
            #expect(error.text.contains("its first play cannot be noted: the disk is full"), "\(error)")
            #expect(error.text.contains(Media.keyIDText), "\(error)")
            #expect(track.output.samples.isEmpty)
            #expect(notary.count == 1)
        }

        /// Whoever looks at a picture in PAUSED does not play.
        @Test func prerollNeedsNoNoteAndPlayingDoes() throws {
            let (open, notary) = (try OpenSession(), Notary())
            try rental(notary, in: open)
            let track = try harness(open)
            #expect(track.setState(GST_STATE_PAUSED) == GST_STATE_CHANGE_SUCCESS)
            try push(track)
            #expect(track.output.samples.count == 1)
            #expect(notary.count == 0)
            #expect(track.setState(GST_STATE_PLAYING) == GST_STATE_CHANGE_SUCCESS)
            #expect(notary.waitUntilAsked())
            try push(track)
            #expect(track.output.samples.count == 1)
            notary.end()
            #expect(track.output.wait(samples: 2))
            #expect(notary.count == 1)
        }

        private func seek(_ harness: Harness) throws {
            #expect(harness.push(try Event.flushStart()))
            #expect(harness.push(try Event.flushStop()))
            #expect(harness.push(try Event.segment()))
        }

        /// The first seek may be to the place where playback begins.
        @Test func secondSeekInPausedNeedsANote() throws {
            let (open, notary) = (try OpenSession(), Notary())
            try rental(notary, in: open)
            let track = try harness(open)
            #expect(track.setState(GST_STATE_PAUSED) == GST_STATE_CHANGE_SUCCESS)
            // What was not looked at does not count.
            for _ in 0..<3 { try seek(track) }
            try push(track)
            for _ in 0..<3 { try seek(track) }
            try push(track, 30)
            #expect(track.output.samples.map(\.bytes) == [Media.bytes(20), Media.bytes(30)])
            #expect(notary.count == 0)
            try seek(track)
            try push(track, 40)
            #expect(notary.waitUntilAsked())
            #expect(track.output.samples.count == 2)
            notary.end()
            #expect(track.output.wait(samples: 3))
            try seek(track)
            try push(track, 50)
            #expect(track.output.wait(samples: 4))
            #expect(notary.count == 1)
        }

        /// As with steps, which only the sink sees.
        @Test func moreThanAPrerollNeedsANote() throws {
            let (open, notary) = (try OpenSession(), Notary())
            try rental(notary, in: open)
            let track = try harness(open)
            #expect(track.setState(GST_STATE_PAUSED) == GST_STATE_CHANGE_SUCCESS)
            for _ in 0..<PlayedKeys.sampleLimit { try push(track) }
            #expect(track.output.samples.count == PlayedKeys.sampleLimit)
            #expect(notary.count == 0)
            try push(track)
            #expect(notary.waitUntilAsked())
            #expect(track.output.samples.count == PlayedKeys.sampleLimit)
            notary.end(.leaseExpired("the disk is full"))
            #expect(try track.bus.nextError().text.contains("the disk is full"))
            #expect(track.output.samples.count == PlayedKeys.sampleLimit)
        }

        /// What a pipeline has in its properties is no license.
        @Test func ownKeysNeedNoNote() throws {
            let (open, notary) = (try OpenSession(), Notary())
            try rental(notary, in: open)
            let track = try Harness("latchkeycencdec", Media.keysProperty, context: open.context)
            track.start(caps: Media.bareVideo)
            try push(track)
            #expect(track.output.samples.count == 1)
            #expect(notary.count == 0)
        }
    }
}
