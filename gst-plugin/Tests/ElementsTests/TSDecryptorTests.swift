// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyKeySession
import LatchkeyProtection
import Testing

@testable import LatchkeyElements
@testable import LatchkeyContainers

extension ElementTests {
    /// latchkeytsdec among the elements around it: keys, waits, segments, what it refuses.
    @Suite struct TSDecryptorTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private static let type = "application/x-latchkey-ts"

        /// A segment of the corpus: encrypted, and as it must come out.
        private struct Segment {
            let encrypted: [UInt8]
            let clear: [UInt8]
            let key: [UInt8]
            let vector: [UInt8]

            func note(_ keyID: [UInt8] = Media.keyID, withVector: Bool = true) -> SegmentKey {
                SegmentKey(
                    keyID: KeyID(keyID), initializationVector: withVector ? InitializationVector(vector) : nil)
            }
        }

        private func segment(_ name: String = "hls-ts-sampleaes-skd-aac", _ file: String = "v_1.ts") throws -> Segment {
            let item = try #require(SampleAESCase(name))
            let encrypted = try SampleAESCase.read("\(name)/\(file)")
            let key = try #require(Hex.decode(item.key)), vector = try #require(Hex.decode(item.iv(ofSegment: 0)))
            let harness = try Harness(
                "latchkeytsdec", [("keys", .string("*:\(item.key):\(Media.hex(vector))"))])
            harness.start(caps: Self.type)
            #expect(harness.push(encrypted) == .ok)
            #expect(harness.pushEndOfStream())
            let clear = harness.output.samples.flatMap(\.bytes)
            try #require(!clear.isEmpty && clear != encrypted)
            return Segment(encrypted: encrypted, clear: clear, key: key, vector: vector)
        }

        private func output(_ harness: Harness) -> [UInt8] { harness.output.samples.flatMap(\.bytes) }

        /// What a note leaves behind: null packets.
        private static let nullPackets: [UInt8] = (0..<5).flatMap { _ in
            [0x47, 0x1F, 0xFF, 0x10] + [UInt8](repeating: 0xFF, count: 184)
        }

        /// A harness with a segment that waits for its key.
        private func waiting(
            _ segment: Segment, _ properties: [(String, FieldValue)] = [("key-timeout", .uint(0))]
        ) throws -> (Harness, UInt64) {
            let harness = try Harness("latchkeytsdec", properties)
            harness.start(caps: Self.type)
            #expect(harness.push(segment.note().transportStreamPackets()) == .ok)
            #expect(harness.push(segment.encrypted) == .ok)
            let request = try harness.bus.next(element: "latchkey-key-request")
            #expect(request.strings("key-ids") == [Media.keyIDText])
            return (harness, try #require(request.number("request-id")))
        }

        private func answer(_ harness: Harness, _ id: UInt64, _ bytes: [UInt8]?, _ error: String? = nil) -> Bool {
            harness.element.emit("key-response", [.uint64(id), .bytes(bytes), .string(error)])
        }

        // MARK: Pieces

        /// Players bring whole segments.
        @Test(arguments: [187, 1000, 10_000])
        func aLargeBufferIsTakenInPieces(size: Int) throws {
            let segment = try segment()
            let key = "*:\(Media.hex(segment.key)):\(Media.hex(segment.vector))"
            let harness = try Harness("latchkeytsdec", [("keys", .string(key))])
            try #require(TSDecryptor.implementation(of: harness.element)).pieceSize = size
            harness.start(caps: Self.type)
            #expect(harness.push(segment.encrypted) == .ok)
            #expect(harness.pushEndOfStream())
            let isRight = output(harness) == segment.clear
            #expect(isRight)
            #expect(harness.output.samples.count > 1)
        }

        /// What a download puts together has several memories.
        @Test(arguments: [64, 1000, 1 << 20])
        func aBufferOfSeveralMemoriesIsOneStream(size: Int) throws {
            let segment = try segment()
            let key = "*:\(Media.hex(segment.key)):\(Media.hex(segment.vector))"
            let harness = try Harness("latchkeytsdec", [("keys", .string(key))])
            try #require(TSDecryptor.implementation(of: harness.element)).pieceSize = size
            harness.start(caps: Self.type)
            let buffer = Buffer()
            let bytes = segment.encrypted
            let ends = [0, 100, bytes.count / 3, bytes.count / 2, bytes.count - 1, bytes.count]
            for (start, end) in zip(ends, ends.dropFirst()) {
                guard let part = Buffer(copying: bytes[start..<end]) else { throw TestFailure("no memory") }
                let pointer = part.release()
                buffer.withPointer { whole in
                    guard let memory = gst_buffer_get_memory(pointer, 0) else { return }
                    gst_buffer_append_memory(whole, memory)
                }
                gst_buffer_unref(pointer)
            }
            #expect(buffer.size == bytes.count)
            #expect(harness.push(buffer) == .ok)
            #expect(harness.pushEndOfStream())
            let isRight = output(harness) == segment.clear
            #expect(isRight)
        }

        /// Tables and other units come behind the unit whose key is missing.
        @Test(arguments: [187, 1000, 10_000])
        func aLargeBufferWaitsForItsKeyInPieces(size: Int) throws {
            let segment = try segment()
            let harness = try Harness("latchkeytsdec", [("key-timeout", .uint(0))])
            try #require(TSDecryptor.implementation(of: harness.element)).pieceSize = size
            harness.start(caps: Self.type)
            let note = segment.note().transportStreamPackets()
            #expect(harness.push(note + segment.encrypted + note + segment.encrypted) == .ok)
            let request = try harness.bus.next(element: "latchkey-key-request")
            // In front of the first encrypted unit there may be something clear, and no more than that goes on.
            #expect(output(harness).count < segment.clear.count)
            #expect(answer(harness, try #require(request.number("request-id")), segment.key))
            #expect(harness.pushEndOfStream())
            #expect(harness.output.wait(event: "eos"))
            let isRight = output(harness) == Self.nullPackets + segment.clear + Self.nullPackets + segment.clear
            #expect(isRight)
        }

        @Test func aFlushForgetsThePiecesThatWait() throws {
            let segment = try segment()
            let harness = try Harness("latchkeytsdec", [("key-timeout", .uint(0))])
            try #require(TSDecryptor.implementation(of: harness.element)).pieceSize = 1000
            harness.start(caps: Self.type)
            let note = segment.note().transportStreamPackets()
            #expect(harness.push(note + segment.encrypted) == .ok)
            let request = try harness.bus.next(element: "latchkey-key-request")
            #expect(harness.push(try Event.flushStart()))
            #expect(harness.push(try Event.flushStop()))
            #expect(harness.push(try Event.segment()))
            harness.output.clear()
            #expect(answer(harness, try #require(request.number("request-id")), segment.key))
            #expect(harness.push(note + segment.encrypted) == .ok)
            #expect(harness.pushEndOfStream())
            #expect(harness.output.wait(event: "eos"))
            let isRight = output(harness) == Self.nullPackets + segment.clear
            #expect(isRight)
        }

        // MARK: Keys

        @Test func theKeyIsAskedForAndWaitedForInTheBackground() throws {
            let segment = try segment()
            let (harness, request) = try waiting(segment)
            // More comes, and the end, while the key is missing.
            #expect(harness.push(segment.note().transportStreamPackets()) == .ok)
            #expect(harness.push(segment.encrypted) == .ok)
            #expect(harness.pushEndOfStream())
            #expect(output(harness) == Self.nullPackets)
            #expect(answer(harness, request, segment.key))
            #expect(harness.output.wait(event: "eos"))
            #expect(output(harness) == Self.nullPackets + segment.clear + Self.nullPackets + segment.clear)
            #expect(try harness.bus.next(element: "latchkey-key-usable").strings("key-ids") == [Media.keyIDText])
            #expect(harness.bus.count(element: "latchkey-key-request") == 1)
        }

        @Test func theNoteAloneStartsTheRequest() throws {
            let segment = try segment()
            let harness = try Harness("latchkeytsdec", [("key-timeout", .uint(0))])
            harness.start(caps: Self.type)
            #expect(harness.push(segment.note().transportStreamPackets()) == .ok)
            _ = try harness.bus.next(element: "latchkey-key-request")
            #expect(output(harness) == Self.nullPackets)
        }

        @Test func anIVMayComeWithTheKey() throws {
            let segment = try segment()
            let line = Array("\(Media.keyIDText) \(Media.hex(segment.key)) \(Media.hex(segment.vector))".utf8)
            let harness = try Harness("latchkeytsdec", [("key-timeout", .uint(0))])
            harness.start(caps: Self.type)
            #expect(harness.push(segment.note(withVector: false).transportStreamPackets()) == .ok)
            let request = try #require(try harness.bus.next(element: "latchkey-key-request").number("request-id"))
            #expect(answer(harness, request, line))
            #expect(harness.push(segment.encrypted) == .ok)
            #expect(harness.pushEndOfStream())
            #expect(harness.output.wait(event: "eos"))
            #expect(output(harness) == Self.nullPackets + segment.clear)
        }

        @Test func aMissingIVIsNamed() throws {
            let segment = try segment()
            let harness = try Harness("latchkeytsdec", [("keys", .string("*:\(Media.hex(segment.key))"))])
            harness.start(caps: Self.type)
            #expect(harness.push(segment.encrypted) == .error)
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT), "\(error)")
            #expect(error.text.contains("initialization vector"), "\(error)")
            #expect(error.debug.contains("the third item of the line"), "\(error)")
            #expect(harness.output.samples.isEmpty)
        }

        @Test(arguments: ["skd://ts-0042", "*"])
        func aURINamesTheKeyByHand(subject: String) throws {
            let segment = try segment()
            let entry = "\(subject):\(Media.hex(segment.key)):\(Media.hex(segment.vector))"
            let harness = try Harness(
                "latchkeytsdec", [("key-uri", .string("skd://ts-0042")), ("keys", .string(entry))])
            harness.start(caps: Self.type)
            #expect(harness.push(segment.encrypted) == .ok)
            #expect(harness.pushEndOfStream())
            #expect(output(harness) == segment.clear)
        }

        @Test func aURIOfAnotherKeyIsNoKey() throws {
            let segment = try segment()
            let entry = "skd://other:\(Media.hex(segment.key)):\(Media.hex(segment.vector))"
            let harness = try Harness(
                "latchkeytsdec",
                [("key-uri", .string("skd://ts-0042")), ("keys", .string(entry)), ("key-timeout", .uint(30))])
            harness.start(caps: Self.type)
            #expect(harness.push(segment.encrypted) == .ok)
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY))
            // The KID was made for the URI, and says nothing to anybody.
            #expect(error.text.hasPrefix("No key for skd://ts-0042:"), "\(error)")
            #expect(harness.output.samples.isEmpty)
        }

        @Test func aLoaderHearsTheURI() throws {
            let segment = try segment()
            let line = "skd://ts-0042 \(Media.hex(segment.key)) \(Media.hex(segment.vector))"
            let keys = try StaticKeys.parse(file: Array(line.utf8), name: "keys")
            let session = KeySession(loaders: [StaticKeyLoader(keys)])
            let shared = SharedSession(session, ControlSettings())
            // A context does not keep it.
            defer { withExtendedLifetime(shared) {} }
            let context = try #require(SharedSession.context(for: shared))
            let harness = try Harness("latchkeytsdec", [("key-uri", .string("skd://ts-0042"))], context: context)
            harness.start(caps: Self.type)
            #expect(harness.push(segment.encrypted) == .ok)
            #expect(harness.pushEndOfStream())
            #expect(harness.output.wait(event: "eos"))
            #expect(output(harness) == segment.clear)
        }

        // MARK: Ends of the wait

        @Test func aDenialFailsTheStream() throws {
            let (harness, request) = try waiting(segment())
            #expect(answer(harness, request, nil, "not in this country"))
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
            #expect(error.text.contains(Media.keyIDText) && error.text.contains("not in this country"), "\(error)")
            _ = try harness.bus.next(element: "latchkey-key-failed")
            #expect(output(harness) == Self.nullPackets)
        }

        @Test func theDeadlineFailsTheStream() throws {
            let harness = try Harness("latchkeytsdec", [("key-timeout", .uint(60))])
            harness.start(caps: Self.type)
            #expect(harness.push(try segment().encrypted) == .ok)
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
        }

        @Test func aStopWhileTheKeyIsMissingIsQuick() throws {
            let (harness, _) = try waiting(segment())
            let start = MonotonicTime.now
            #expect(harness.setState(GST_STATE_NULL) == GST_STATE_CHANGE_SUCCESS)
            let elapsed = Double(MonotonicTime.now - start) / 1e6
            #expect(elapsed < 200 * TestProcess.patience, "\(elapsed) ms")
        }

        @Test func aFlushForgetsWhatWaited() throws {
            let segment = try segment()
            let (harness, request) = try waiting(segment)
            harness.output.clear()
            #expect(harness.push(try Event.flushStart()))
            #expect(harness.push(try Event.flushStop()))
            #expect(harness.push(try Event.segment()))
            #expect(answer(harness, request, segment.key))
            #expect(harness.push(segment.encrypted) == .ok)
            #expect(harness.pushEndOfStream())
            #expect(harness.output.wait(event: "eos"))
            // The note of before still holds; the bytes of before are gone.
            #expect(output(harness) == segment.clear)
        }

        @Test func aFlushInTheMiddleOfAUnitLeavesNothingOfIt() throws {
            let segment = try segment()
            let harness = try Harness(
                "latchkeytsdec", [("keys", .string("*:\(Media.hex(segment.key)):\(Media.hex(segment.vector))"))])
            harness.start(caps: Self.type)
            #expect(harness.push(Array(segment.encrypted.prefix(188 * 7 + 50))) == .ok)
            #expect(harness.push(try Event.flushStart()))
            #expect(harness.push(try Event.flushStop()))
            #expect(harness.push(try Event.segment()))
            harness.output.clear()
            #expect(harness.push(segment.encrypted) == .ok)
            #expect(harness.pushEndOfStream())
            #expect(output(harness) == segment.clear)
        }

        // MARK: Segments

        @Test func segmentsMayHaveAKeyEach() throws {
            let (first, second) = (try segment(), try segment("hls-ts-sampleaes-3drm-eac3"))
            let keys = "\(Media.keyIDText):\(Media.hex(first.key)),\(Media.otherKeyIDText):\(Media.hex(second.key))"
            let harness = try Harness("latchkeytsdec", [("keys", .string(keys))])
            harness.start(caps: Self.type)
            var expected: [UInt8] = []
            for round in 0..<40 {
                let segment = round % 2 == 0 ? first : second
                let note = segment.note(round % 2 == 0 ? Media.keyID : Media.otherKeyID)
                #expect(harness.push(note.transportStreamPackets()) == .ok)
                #expect(harness.push(segment.encrypted) == .ok)
                expected += Self.nullPackets + segment.clear
            }
            #expect(harness.pushEndOfStream())
            let isSame = output(harness) == expected
            #expect(isSame)
        }

        @Test func clearSegmentsGoThroughBothWays() throws {
            let segment = try segment()
            let harness = try Harness(
                "latchkeytsdec", [("keys", .string("\(Media.keyIDText):\(Media.hex(segment.key))"))])
            harness.start(caps: Self.type)
            let clear = SegmentKey(keyID: nil)
            // An advertisement in front, one behind; the last has not even the clear stream types.
            let parts: [(SegmentKey?, [UInt8], [UInt8])] = [
                (nil, segment.clear, segment.clear), (segment.note(), segment.encrypted, segment.clear),
                (clear, segment.clear, segment.clear), (segment.note(), segment.encrypted, segment.clear),
            ]
            var expected: [UInt8] = []
            for (note, bytes, result) in parts {
                if let note {
                    #expect(harness.push(note.transportStreamPackets()) == .ok)
                    expected += Self.nullPackets
                }
                #expect(harness.push(bytes) == .ok)
                expected += result
            }
            #expect(harness.pushEndOfStream())
            let isSame = output(harness) == expected
            #expect(isSame)
        }

        @Test func clearStreamsAskForNothing() throws {
            for (name, file) in [("hls-ts-sampleaes-skd-aac", "v_1.ts"), ("hls-packed-aac-sampleaes", "a_1.aac")] {
                let clear = try segment(name, file).clear
                let harness = try Harness("latchkeytsdec")
                harness.start(caps: Self.type)
                #expect(harness.push(clear) == .ok)
                #expect(harness.pushEndOfStream())
                #expect(output(harness) == clear)
                #expect(harness.bus.count(element: "latchkey-key-request") == 0)
            }
        }

        @Test func timesAndDiscontinuitiesStayWithTheirBytes() throws {
            let segment = try segment()
            let harness = try Harness(
                "latchkeytsdec", [("keys", .string("*:\(Media.hex(segment.key)):\(Media.hex(segment.vector))"))])
            harness.start(caps: "video/mpegts, systemstream=true")
            for round in 0..<3 {
                for (index, start) in stride(from: 0, to: segment.encrypted.count, by: 1316).enumerated() {
                    let piece = segment.encrypted[start..<min(start + 1316, segment.encrypted.count)]
                    guard let buffer = Buffer(copying: piece) else { throw TestFailure("no memory") }
                    buffer.withPointer { pointer in
                        guard index == 0 else { return }
                        pointer.pointee.pts = GstClockTime(round) * 1_000_000_000
                        if round == 2 { _ = gst_buffer_set_flags(pointer, GST_BUFFER_FLAG_DISCONT) }
                    }
                    #expect(harness.push(buffer) == .ok)
                }
            }
            #expect(harness.pushEndOfStream())
            let isSame = output(harness) == segment.clear + segment.clear + segment.clear
            #expect(isSame)
            var offset = 0
            var found: [Int: UInt64] = [:]
            var discontinuities: [Int] = []
            for sample in harness.output.samples {
                if sample.presentationTime != UInt64.max { found[offset] = sample.presentationTime }
                if sample.flags & GST_BUFFER_FLAG_DISCONT.rawValue != 0 { discontinuities.append(offset) }
                offset += sample.bytes.count
            }
            #expect(found == [0: 0, segment.clear.count: 1_000_000_000, 2 * segment.clear.count: 2_000_000_000])
            #expect(discontinuities.filter { $0 > 0 } == [2 * segment.clear.count])
        }

        // MARK: Caps

        @Test func playersPlugItForOneTypeOnly() throws {
            let harness = try Harness("latchkeytsdec")
            let template = try harness.sinkPad { pad in
                gst_pad_get_pad_template_caps(pad).map { Caps(owning: $0).description } ?? ""
            }
            #expect(template == Self.type)
        }

        static let offers: [(String, Bool)] = [
            (type, true), ("video/mpegts, systemstream=true, packetsize=188", true), ("application/x-id3", true),
            ("audio/mpeg, mpegversion=4, stream-format=adts, framed=false, rate=48000, channels=2", true),
            ("audio/x-ac3, rate=48000", true), ("audio/x-eac3", true),
            ("video/x-h264", false), ("audio/mpeg, mpegversion=1, layer=3", false), ("video/quicktime", false),
        ]

        @Test(arguments: offers)
        func itTakesByHandWhatItKnows(caps: String, isTaken: Bool) throws {
            let harness = try Harness("latchkeytsdec")
            let caps = try #require(Caps(caps))
            let accepted = try harness.sinkPad { pad in caps.withPointer { gst_pad_query_accept_caps(pad, $0) != 0 } }
            #expect(accepted == isTaken)
            let possible = try harness.sinkPad { pad in Caps(owning: gst_pad_query_caps(pad, nil)) }
            #expect(possible.canIntersect(caps) == isTaken)
        }

        @Test func parsebinPlugsIt() throws {
            let item = try #require(SampleAESCase("hls-ts-sampleaes-skd-aac"))
            let playback = try LaunchedPipeline(
                "filesrc location=\(item.path("v_1.ts")) ! queue ! \(Self.type) ! parsebin name=bin ! video/x-h264 "
                    + "! fakesink name=sink", recorded: ["sink"])
            gst_element_set_state(playback.pipeline, GST_STATE_PLAYING)
            let request = try playback.bus.next(element: "latchkey-key-request")
            #expect(request.source.hasPrefix("latchkeytsdec"))
            let bin = UnsafeMutableRawPointer(playback.pipeline).assumingMemoryBound(to: GstBin.self)
            let element = try #require(gst_bin_get_by_name(bin, request.source))
            defer { gst_object_unref(element) }
            let line = "* \(item.key) \(item.iv(ofSegment: 0))"
            let id = try #require(request.number("request-id"))
            #expect(element.emit("key-response", [.uint64(id), .bytes(Array(line.utf8)), .string(nil)]))
            let end = try playback.bus.next { $0.type == "error" || $0.type == "eos" }
            #expect(end.type == "eos", "\(end)")
            #expect(playback.recorders["sink"]?.samples.count == 25)
        }

        // MARK: What is no stream

        @Test(arguments: [1, 300, 70_000])
        func otherBytesAreRefusedByName(size: Int) throws {
            let harness = try Harness("latchkeytsdec")
            harness.start(caps: Self.type)
            _ = harness.push(Media.bytes(size).map { $0 & 0x3F })
            _ = harness.pushEndOfStream()
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT), "\(error)")
            #expect(error.text.contains("neither a transport stream nor packed audio"), "\(error)")
            #expect(harness.output.samples.isEmpty)
        }

        @Test func nothingAtAllEnds() throws {
            let harness = try Harness("latchkeytsdec")
            harness.start(caps: Self.type)
            #expect(harness.pushEndOfStream())
            #expect(harness.output.wait(event: "eos"))
            #expect(harness.bus.all().allSatisfy { $0.type != "error" })
        }
    }
}
