// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import Latchkey
import LatchkeyTestSupport
import Testing

extension ElementTests {
    /// `latchkeyisodec` behind a source that pushes and can be sent elsewhere: a demuxer reads anywhere.
    @Suite struct PushedRangesTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements() && ElementType.register(PushedFile.factory))
        }

        private static let corpus = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Tests/Corpus").standardizedFileURL

        /// Clear media: what is read is the file.
        private static func clear(_ size: Int) -> [UInt8] {
            var generator = SeededGenerator(seed: 7)
            let block = generator.bytes(4099)
            let head: [UInt8] = [0, 0, 0, 16] + Array("ftypisom".utf8) + [0, 0, 0, 0]
            let length = withUnsafeBytes(of: UInt32(size - 16).bigEndian) { Array($0) }
            return head + length + Array("mdat".utf8)
                + (0..<size - 24).map { block[$0 % block.count] ^ UInt8(truncatingIfNeeded: $0 / block.count) }
        }

        /// The source, the decryptor, and a reader in the demuxer's place.
        private final class Reader: @unchecked Sendable {
            // SAFETY: everything is set up in `init`; pads and elements are thread-safe.
            let pipeline: LaunchedPipeline
            let source: PushedFile
            private let decryptor: UnsafeMutablePointer<GstElement>
            private let pad: UnsafeMutablePointer<GstPad>

            init(
                _ properties: String = "", of element: String = "latchkeyisodec", recorded: [String] = [],
                _ body: (inout PushedFile.Settings) -> Void
            ) throws {
                pipeline = try LaunchedPipeline(
                    "pushedfile name=s ! \(element) name=d \(properties)", recorded: recorded)
                let bin = UnsafeMutableRawPointer(pipeline.pipeline).assumingMemoryBound(to: GstBin.self)
                guard let element = gst_bin_get_by_name(bin, "s"), let decryptor = gst_bin_get_by_name(bin, "d"),
                    let source = PushedFile.implementation(of: element),
                    let pad = gst_element_get_static_pad(decryptor, "src")
                else { throw TestFailure("no elements") }
                // The pipeline keeps it.
                gst_object_unref(element)
                self.source = source
                self.decryptor = decryptor
                self.pad = pad
                source.change { settings in
                    body(&settings)
                    settings.announcedSize = settings.announcedSize ?? settings.file.count
                }
            }

            deinit {
                stop()
                gst_object_unref(pad)
                gst_object_unref(decryptor)
            }

            /// Whether the decryptor can be read anywhere. That is asked before bytes come, as in players.
            func start() -> Bool {
                gst_element_set_state(pipeline.pipeline, GST_STATE_PAUSED)
                #expect(source.waitForBegin())
                let isRead = gst_pad_activate_mode(pad, GST_PAD_MODE_PULL, 1) != 0
                source.release()
                return isRead
            }

            func stop() {
                gst_element_set_state(pipeline.pipeline, GST_STATE_NULL)
                source.stop()
            }

            func read(_ offset: Int, _ count: Int) -> (flow: GstFlowReturn, bytes: [UInt8]) {
                var buffer: UnsafeMutablePointer<GstBuffer>?
                let flow = gst_pad_get_range(pad, guint64(offset), guint(count), &buffer)
                return (flow, buffer.map { Buffer(owning: $0).copyBytes() } ?? [])
            }

            func flush(_ isStart: Bool) {
                gst_pad_send_event(pad, isStart ? gst_event_new_flush_start() : gst_event_new_flush_stop(1))
            }

            func error() throws -> String { try pipeline.bus.next { $0.type == "error" }.text }
        }

        /// Nobody reads anywhere: where the source cannot be sent to the movie behind it, the media waits for that.
        @Test(arguments: [nil, "none", "bytes"])
        func mediaInFrontOfItsMovieIsDecryptedInOrder(acceptRanges: String?) throws {
            let path = Self.corpus.appendingPathComponent("ffmpeg-cenc-progressive/media.mp4")
            let keys = try Self.keys("ffmpeg-cenc-progressive")
            let whole = try LaunchedPipeline(
                "filesrc location=\"\(path.path)\" ! latchkeyisodec keys=\(keys) ! fakesink name=out", recorded: ["out"]
            )
            #expect(try whole.play().type == "eos")
            let expected = whole.bytes("out")
            let file = Array(try Data(contentsOf: path))
            #expect(expected.count == file.count && expected != file)

            let reader = try Reader("keys=\(keys) ! fakesink name=out", recorded: ["out"]) {
                $0.file = file
                $0.isSeekable = acceptRanges != nil
                $0.acceptRanges = acceptRanges
            }
            gst_element_set_state(reader.pipeline.pipeline, GST_STATE_PLAYING)
            #expect(reader.source.waitForBegin())
            reader.source.release()
            let end = try reader.pipeline.bus.next { $0.type == "error" || $0.type == "eos" }
            #expect(end.type == "eos", "\(end)")
            #expect(reader.pipeline.bytes("out") == expected)
            #expect(reader.source.places.isEmpty == (acceptRanges != "bytes"))
        }

        private static func keys(_ name: String) throws -> String {
            struct Case: Decodable {
                struct Key: Decodable { let kid, key: String }
                struct Track: Decodable { let keys: [Key]? }
                let tracks: [Track]
            }
            let data = try Data(contentsOf: corpus.appendingPathComponent("\(name)/case.json"))
            let pairs = try JSONDecoder().decode(Case.self, from: data).tracks.flatMap { $0.keys ?? [] }
            return pairs.map { "\($0.kid):\($0.key)" }.joined(separator: ",")
        }

        @Test(arguments: [1, 3, 5])
        func anyRangeIsRead(seed: Int) throws {
            let file = Self.clear(5_000_000)
            let reader = try Reader {
                $0.file = file
                $0.blockSize = seed * 20_001
            }
            #expect(reader.start())
            var generator = SeededGenerator(seed: UInt64(seed))
            for _ in 0..<60 {
                let offset = Int.random(in: 0..<file.count, using: &generator)
                let count = Int.random(in: 1...300_000, using: &generator)
                let (flow, bytes) = reader.read(offset, count)
                #expect(flow == GST_FLOW_OK && bytes == Array(file[offset...].prefix(count)))
            }
            #expect(reader.read(file.count, 10).flow == GST_FLOW_EOS)
            #expect(!reader.source.places.isEmpty)
        }

        @Test func whatComesInOrderNeedsNoSeek() throws {
            let file = Self.clear(3_000_000)
            let reader = try Reader { $0.file = file }
            #expect(reader.start())
            for start in stride(from: 0, to: file.count, by: 100_000) {
                #expect(reader.read(start, 100_000).bytes == Array(file[start...].prefix(100_000)))
            }
            #expect(reader.source.places.isEmpty)
        }

        /// What a queue in front has is then told as a level, and does not lie here.
        @Test func theSourceIsHeldUp() throws {
            let reader = try Reader {
                $0.file = Self.clear(3_000_000)
                $0.blockSize = 1_000_000
            }
            #expect(reader.start())
            #expect(reader.read(0, 2_100_000).bytes.count == 2_100_000)
            // The third block does not fit as a whole.
            #expect(reader.source.waitUntil { $0 == 2_000_000 })
            reader.stop()
            #expect(reader.source.position == 2_000_000)
        }

        @Test func whoDoesNotSaySoIsNotReadAnywhere() throws {
            let cases: [(inout PushedFile.Settings) -> Void] = [
                { $0.isSeekable = false }, { $0.announcedSize = 0 }, { $0.acceptRanges = "none" },
            ]
            for body in cases {
                let reader = try Reader {
                    $0.file = Self.clear(100_000)
                    body(&$0)
                }
                #expect(!reader.start())
            }
            let reader = try Reader {
                $0.file = Self.clear(100_000)
                $0.acceptRanges = "bytes"
            }
            #expect(reader.start())
            #expect(reader.read(50_000, 10).flow == GST_FLOW_OK)
        }

        /// Without a player that made the source, the demuxer of WebM gets its bytes as without the element.
        @Test func theRelayOfWebMLeavesSourcesOfPipelinesAlone() throws {
            let file = Self.clear(100_000)
            let alone = try Reader(of: "latchkeywebmrelay") {
                $0.file = file
                $0.acceptRanges = "bytes"
            }
            #expect(!alone.start())

            let reader = try Reader("! fakesink name=out", of: "latchkeywebmrelay", recorded: ["out"]) {
                $0.file = file
                $0.acceptRanges = "bytes"
            }
            gst_element_set_state(reader.pipeline.pipeline, GST_STATE_PLAYING)
            #expect(reader.source.waitForBegin())
            reader.source.release()
            #expect(try reader.pipeline.bus.next { $0.type == "error" || $0.type == "eos" }.type == "eos")
            #expect(reader.pipeline.bytes("out") == file && reader.source.places.isEmpty)
            #expect(!reader.pipeline.bus.all().contains { $0.type == "have-context" }, "it made a session")
        }

        @Test func aFlushEndsTheWaitForBytes() throws {
            let file = Self.clear(1_000_000)
            let reader = try Reader {
                $0.file = file
                $0.stallsAt = 100_000
            }
            #expect(reader.start())
            #expect(reader.read(0, 1000).flow == GST_FLOW_OK)
            let thread = TestThread { #expect(reader.read(200_000, 1000).flow == GST_FLOW_FLUSHING) }
            #expect(reader.source.waitUntil { $0 == 100_000 })
            reader.flush(true)
            thread.join()
            reader.flush(false)
            reader.source.resume()
            #expect(reader.read(200_000, 1000).bytes == Array(file[200_000..<201_000]))
            #expect(reader.source.places.isEmpty)
        }

        @Test func aStopEndsTheWaitForBytes() throws {
            let reader = try Reader {
                $0.file = Self.clear(1_000_000)
                $0.stallsAt = 100_000
            }
            #expect(reader.start())
            let thread = TestThread { #expect(reader.read(200_000, 1000).flow == GST_FLOW_FLUSHING) }
            #expect(reader.source.waitUntil { $0 == 100_000 })
            reader.stop()
            thread.join()
        }

        @Test(arguments: [false, true])
        func theWaitForAKeyEndsAsElsewhere(isStopped: Bool) throws {
            let path = Self.corpus.appendingPathComponent("bento4-piff-ctr-ismv/media.ismv")
            let file = Array(try Data(contentsOf: path))
            let reader = try Reader("key-timeout=0") { $0.file = file }
            #expect(reader.start())
            let place = try #require(file.firstRange(of: Array("mdat".utf8))).lowerBound
            #expect(reader.read(0, 16).bytes == Array(file[..<16]))
            let thread = TestThread { #expect(reader.read(place + 4, 1000).flow == GST_FLOW_FLUSHING) }
            _ = try reader.pipeline.bus.next { $0.name == "latchkey-key-request" }
            if isStopped { reader.stop() } else { reader.flush(true) }
            thread.join()
            guard !isStopped else { return }
            reader.flush(false)
            #expect(reader.read(0, 16).bytes == Array(file[..<16]))
        }

        @Test func anEndTooEarlyIsAnError() throws {
            let reader = try Reader {
                $0.file = Self.clear(1_000_000)
                $0.endsAt = 300_000
            }
            #expect(reader.start())
            #expect(reader.read(100_000, 100_000).flow == GST_FLOW_OK)
            #expect(reader.read(250_000, 100_000).flow == GST_FLOW_ERROR)
            #expect(try reader.error() == "The source cannot be read: it ends at byte 300000 of 1000000.")
        }

        @Test func aFileThatGotShorterEnds() throws {
            let file = Self.clear(300_000)
            let reader = try Reader {
                $0.file = file
                $0.announcedSize = 1_000_000
            }
            #expect(reader.start())
            reader.source.change { $0.announcedSize = 300_000 }
            #expect(reader.read(250_000, 100_000).bytes == Array(file[250_000...]))
            #expect(reader.read(300_000, 10).flow == GST_FLOW_EOS)
        }

        @Test func aRefusedSeekIsNamed() throws {
            let reader = try Reader {
                $0.file = Self.clear(5_000_000)
                $0.takesSeeks = false
            }
            #expect(reader.start())
            #expect(reader.read(3_000_000, 10).flow == GST_FLOW_ERROR)
            #expect(try reader.error() == "The source cannot be read: it does not go on at byte 3000000.")
        }

        @Test func aWrongPlaceIsNamed() throws {
            let reader = try Reader {
                $0.file = Self.clear(5_000_000)
                $0.error = 5
            }
            #expect(reader.start())
            #expect(reader.read(3_000_000, 10).flow == GST_FLOW_ERROR)
            let text = "The source cannot be read: it goes on at byte 3000005, and not where it was sent."
            #expect(try reader.error() == text)
        }

        @Test func timeInsteadOfBytesIsNamed() throws {
            let reader = try Reader {
                $0.file = Self.clear(1_000_000)
                $0.countsInTime = true
            }
            #expect(reader.start())
            #expect(reader.read(0, 10).flow == GST_FLOW_ERROR)
            #expect(try reader.error() == "The source cannot be read: it counts in time, not in bytes.")
        }

        /// Stops at any moment, with both threads wherever they are.
        @Test func anyMomentIsGoodForAStop() throws {
            let file = Self.clear(2_000_000)
            for round in 0..<30 {
                let reader = try Reader {
                    $0.file = file
                    $0.blockSize = 30_000
                }
                #expect(reader.start())
                let thread = TestThread {
                    var generator = SeededGenerator(seed: UInt64(round))
                    while true {
                        let offset = Int.random(in: 0..<file.count, using: &generator)
                        let (flow, bytes) = reader.read(offset, 50_000)
                        guard flow == GST_FLOW_OK else {
                            #expect(flow == GST_FLOW_FLUSHING)
                            return
                        }
                        #expect(bytes == Array(file[offset...].prefix(50_000)))
                    }
                }
                #expect(reader.source.waitUntil { $0 > round * 10_000 })
                reader.stop()
                thread.join()
            }
        }
    }
}
