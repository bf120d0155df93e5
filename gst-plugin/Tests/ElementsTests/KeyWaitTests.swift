// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeyGStreamerCheck
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// The wait for a key, and all that can end it.
    @Suite struct KeyWaitTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        /// Waits for ever: what ends the wait must be what the test does.
        private static let forEver: [(String, FieldValue)] = [("key-timeout", .uint(0))]

        private func answer(_ harness: Harness, _ request: BusMessage, _ bytes: [UInt8]) throws -> Bool {
            let id = try #require(request.number("request-id"))
            return harness.element.emit("key-response", [.uint64(id), .bytes(bytes), .string(nil)])
        }

        private func deny(_ harness: Harness, _ request: BusMessage, _ reason: String) throws -> Bool {
            let id = try #require(request.number("request-id"))
            return harness.element.emit("key-response", [.uint64(id), .bytes(nil), .string(reason)])
        }

        /// A harness in which one sample waits for its key.
        private func waiting(_ properties: [(String, FieldValue)] = forEver) throws -> (Harness, BusMessage) {
            let harness = try Harness("latchkeycencdec", properties)
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample(Media.bytes(64)).makeBuffer()) == .ok)
            return (harness, try harness.bus.next(element: "latchkey-key-request"))
        }

        // MARK: Answers

        static let answers: [(name: String, bytes: [UInt8])] = [
            ("the key's 16 bytes", Media.key),
            ("a license", Media.license([(Media.keyID, Media.key)])),
            (
                "a license with more keys",
                Media.license([(Media.otherKeyID, Media.otherKey), (Media.keyID, Media.key)])
            ),
            ("a license behind white space", Array(" \n".utf8) + Media.license([(Media.keyID, Media.key)])),
            ("a keys file's line", Array("\(Media.keyIDText) \(Media.hex(Media.key))\n".utf8)),
            ("a keys file", Array("# comment\r\n\r\n\(Media.keyIDText) \(Media.hex(Media.key))\r\n".utf8)),
            ("a star line", Array("* \(Media.hex(Media.key))".utf8)),
        ]

        @Test(arguments: answers)
        func everyFormOfAnswerBringsTheKey(name: String, bytes: [UInt8]) throws {
            let (harness, request) = try waiting()
            #expect(harness.output.samples.isEmpty)
            #expect(try answer(harness, request, bytes))
            #expect(harness.output.wait(samples: 1))
            #expect(harness.output.samples.map(\.bytes) == [Media.bytes(64)])
            // The queue is empty again: the next sample goes straight through.
            #expect(harness.push(try Media.sample(Media.bytes(9)).makeBuffer()) == .ok)
            #expect(harness.output.wait(samples: 2))
            #expect(harness.output.samples.last?.bytes == Media.bytes(9))
        }

        static let refusals: [(name: String, bytes: [UInt8], reason: String)] = [
            ("the key of another KID", Media.license([(Media.otherKeyID, Media.otherKey)]), "key not in response"),
            ("a license without keys", Media.license([]), "key not in response"),
            ("15 bytes", [UInt8](repeating: 1, count: 15), "invalid configuration"),
            ("JSON that is no license", Array("{]".utf8), "malformed response"),
            ("nothing", [], "key not in response"),
        ]

        @Test(arguments: refusals)
        func anAnswerWithoutTheKeyEndsTheWait(name: String, bytes: [UInt8], reason: String) throws {
            let (harness, request) = try waiting()
            _ = try answer(harness, request, bytes)
            let failed = try harness.bus.next(element: "latchkey-key-failed")
            #expect(failed.number("request-id") == request.number("request-id"))
            #expect(failed.strings("key-ids") == [Media.keyIDText])
            #expect(failed.string("reason")?.contains(reason) == true, "\(failed)")
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
            #expect(error.text.contains(Media.keyIDText) && error.text.contains(reason), "\(error)")
            #expect(harness.output.samples.isEmpty)
        }

        /// The session tells one observer after the other. Whoever looks in between knows the key's fate already.
        @Test func theMessageComesBeforeTheError() throws {
            let open = try OpenSession()
            let decryptor = Mutex<Decryptor?>(nil)
            let observation = open.session.observe { event in
                guard case .failed = event, let decryptor = decryptor.withLock({ $0 }) else { return }
                let end = MonotonicTime.now + 200_000_000
                decryptor.monitor.withLock {
                    decryptor.flow.keyEvents += 1
                    decryptor.monitor.broadcast()
                    while !decryptor.flow.isFailureReported, MonotonicTime.now < end {
                        decryptor.monitor.wait(microseconds: 10_000)
                    }
                }
            }
            defer { observation.cancel() }
            let harness = try Harness("latchkeycencdec", Self.forEver, context: open.context)
            decryptor.withLock { $0 = Decryptor.implementation(of: harness.element) }
            defer { decryptor.withLock { $0 = nil } }
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample(Media.bytes(64)).makeBuffer()) == .ok)
            let request = try harness.bus.next(element: "latchkey-key-request")
            #expect(try deny(harness, request, "not subscribed"))
            _ = try harness.bus.nextError()
            let told = harness.bus.all().filter { $0.name == "latchkey-key-failed" || $0.type == "error" }
            #expect(told.map(\.type) == ["element", "error"])
        }

        @Test func aDenialEndsTheWait() throws {
            let (harness, request) = try waiting()
            #expect(try deny(harness, request, "not subscribed"))
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
            #expect(error.text.contains("denied") && error.text.contains("not subscribed"), "\(error)")
            // Upstream hears of it with a next sample, not always the first one: the message comes before the result.
            let end = MonotonicTime.now + TestProcess.deadline
            var result = FlowResult.ok
            while result == .ok, MonotonicTime.now < end {
                result = harness.push(try Media.sample([1]).makeBuffer())
            }
            #expect(result == .error)
            #expect(harness.output.samples.isEmpty)
        }

        @Test func theFirstAnswerCounts() throws {
            let (harness, request) = try waiting()
            #expect(try answer(harness, request, Media.key))
            #expect(harness.output.wait(samples: 1))
            _ = try answer(harness, request, Media.otherKey)
            _ = try deny(harness, request, "too late")
            #expect(harness.push(try Media.sample(Media.bytes(64)).makeBuffer()) == .ok)
            #expect(harness.output.wait(samples: 2))
            #expect(harness.output.samples.map(\.bytes) == [Media.bytes(64), Media.bytes(64)])
            #expect(!harness.bus.all().contains { $0.type == "error" })
        }

        @Test func anAnswerToNoRequestIsRefused() throws {
            let (harness, request) = try waiting()
            let id = try #require(request.number("request-id"))
            for wrong in [0, id &+ 1_000_000, .max] {
                #expect(!harness.element.emit("key-response", [.uint64(wrong), .bytes(Media.key), .string(nil)]))
            }
            #expect(!harness.element.emit("key-response", [.uint64(id), .bytes(nil), .string(nil)]))
            #expect(harness.output.samples.isEmpty)
        }

        // MARK: Deadlines

        /// A task asks the loaders. If none takes the request, no more than a third of this time is waited.
        private static let untaken = ("key-timeout", FieldValue.uint(UInt32(900 * TestProcess.patience)))

        @Test func theDeadlineEndsTheWait() throws {
            let (harness, _) = try waiting([Self.untaken])
            let warning = try harness.bus.next { $0.type == "warning" || $0.type == "error" }
            #expect(warning.type == "warning" && warning.text.contains(Media.keyIDText), "\(warning)")
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
            #expect(error.text.contains(Media.keyIDText) && error.text.contains("no loader"), "\(error)")
            #expect(harness.output.samples.isEmpty)
        }

        @Test func aKeyServerWithoutACertificateIsNamedAtTheDeadline() throws {
            let (harness, _) = try waiting([
                Self.untaken, ("key-system", .string("fairplay")),
                ("license-url", .string("http://127.0.0.1:1/")),
            ])
            let error = try harness.bus.nextError()
            #expect(error.text.contains("[fairplay]"), "\(error)")
        }

        @Test func aLoaderThatNeverAnswersHasTheWholeDeadline() throws {
            let open = try OpenSession()
            open.session.addLoader(CallbackLoader { _ in true })
            let harness = try Harness("latchkeycencdec", [("key-timeout", .uint(60))], context: open.context)
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample([1, 2]).makeBuffer()) == .ok)
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
            #expect(error.text.contains("timed out"), "\(error)")
            #expect(!harness.bus.all().contains { $0.type == "warning" })
        }

        @Test func aKeyAfterTheDeadlineStillCounts() throws {
            let (harness, request) = try waiting([("key-timeout", .uint(3))])
            #expect(try harness.bus.nextError().isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY))
            #expect(try answer(harness, request, Media.key))
            #expect(harness.push(try Event.flushStart()))
            #expect(harness.push(try Event.flushStop()))
            #expect(harness.push(try Event.segment()))
            #expect(harness.push(try Media.sample(Media.bytes(7)).makeBuffer()) == .ok)
            #expect(harness.output.wait(samples: 1))
            #expect(harness.output.samples.map(\.bytes) == [Media.bytes(7)])
        }

        @Test func aClosedSessionEndsTheWait() throws {
            let (harness, _) = try waiting()
            let decryptor = try #require(Decryptor.implementation(of: harness.element))
            decryptor.currentSession?.close(.denied("the viewing session ended"))
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
            #expect(error.text.hasPrefix("Playback ends: session closed"), "\(error)")
        }

        /// A buffer that is on its way then does not come after the flush, and what comes next has a segment.
        @Test func theEndOfPlaybackTakesWhatIsOnItsWay() throws {
            let (harness, request) = try waiting()
            #expect(try answer(harness, request, Media.key))
            #expect(harness.waitAndPull() == Media.bytes(64))
            let decryptor = try #require(Decryptor.implementation(of: harness.element))
            let (output, arrivals) = (harness.output, StreamRecorder())
            output.clear()
            arrivals.attach(to: harness.pointer.pointee.sinkpad)
            PadReference(sharing: decryptor.sourcePad.pointer).probeBuffers { buffer in
                #expect(arrivals.wait(event: "flush-start"))
                return buffer
            }
            let upstream = TestThread {
                if let buffer = try? Media.sample(Media.bytes(9)).makeBuffer() { _ = harness.push(buffer) }
            }
            #expect(output.wait(samples: 1))
            decryptor.endPlayback(.sessionClosed("the viewing session is lost"))
            upstream.join()
            #expect(arrivals.order == ["flush-start", "flush-stop", "segment"])
            #expect(harness.pull() == nil)
        }

        /// Whatever is wrong with a key of a session that is over: the end of the session is the error.
        @Test func aKeyOfAClosedSessionFailsForItsEnd() throws {
            let (harness, _) = try waiting()
            let decryptor = try #require(Decryptor.implementation(of: harness.element))
            decryptor.currentSession?.close(.sessionClosed("the viewing session is lost"))
            #expect(decryptor.report(.key(nil, .denied("403"))) == .error)
            let error = try harness.bus.nextError()
            #expect(error.text.hasPrefix("Playback ends: session closed: the viewing session is lost"), "\(error)")
        }

        /// A stop of a bin around the element may be why a sample fails.
        @Test func whatFailsInAStopIsNoError() throws {
            let (harness, request) = try waiting()
            let decryptor = try #require(Decryptor.implementation(of: harness.element))
            var broken = Media.sample(Media.bytes(64))
            broken.vector = nil
            #expect(harness.push(try broken.makeBuffer()) == .ok)
            #expect(harness.pushEndOfStream())
            let bin = try #require(gst_bin_new(nil))
            gst_object_ref_sink(bin)
            defer { gst_object_unref(bin) }
            let pad = PadReference(sharing: decryptor.sourcePad.pointer)
            func waits(while condition: () -> Bool) -> Bool {
                let deadline = MonotonicTime.now + UInt64(TestProcess.deadline)
                return decryptor.monitor.withLock {
                    while condition(), MonotonicTime.now < deadline { decryptor.monitor.wait(microseconds: 1000) }
                    return !condition()
                }
            }
            // The stop begins between the two samples.
            let hold = pad.holdBuffers()
            #expect(try answer(harness, request, Media.key))
            #expect(waits { gst_pad_is_blocking(pad.pointer) == 0 })
            // The bin itself would take the links to the harness apart.
            #expect(gst_object_set_parent(ek_as_object(harness.element), ek_as_object(bin)) != 0)
            defer { gst_object_unparent(ek_as_object(harness.element)) }
            hold.remove()
            #expect(waits { decryptor.flow.isTaskActive })
            #expect(harness.waitAndPull() == Media.bytes(64))
            #expect(decryptor.monitor.withLock { decryptor.flow.result } == .flushing)
            #expect(!harness.bus.all().contains { $0.type == "error" })
            #expect(!harness.output.order.contains("eos"))
        }

        /// Nor is it one on upstream's thread, which waits for no key.
        @Test func whatFailsOnUpstreamsThreadInAStopIsNoError() throws {
            let harness = try Harness("latchkeycencdec", Self.forEver)
            harness.start(caps: Media.bareVideo)
            let bin = try #require(gst_bin_new(nil))
            gst_object_ref_sink(bin)
            defer { gst_object_unref(bin) }
            var broken = Media.sample(Media.bytes(64))
            broken.vector = nil
            // The bin itself would take the links to the harness apart.
            #expect(gst_object_set_parent(ek_as_object(harness.element), ek_as_object(bin)) != 0)
            #expect(harness.push(try broken.makeBuffer()) == .flushing)
            gst_object_unparent(ek_as_object(harness.element))
            #expect(!harness.bus.all().contains { $0.type == "error" })
            // Without a stop it is.
            #expect(harness.push(try broken.makeBuffer()) == .error)
            #expect(harness.bus.all().contains { $0.type == "error" })
        }

        // MARK: Order

        @Test func everythingKeepsItsPlaceWhileASampleWaits() throws {
            let (harness, request) = try waiting()
            let before = harness.output.order
            #expect(!before.contains("sample"))
            #expect(harness.push(try Event.tags()))
            #expect(harness.push(try Media.sample([1]).makeBuffer()) == .ok)
            #expect(harness.push(try Event.gap(at: 40_000_000)))
            #expect(harness.change(caps: "\(Media.bareVideo), width=99"))
            #expect(harness.push([2]) == .ok)
            #expect(harness.push(try Event.segment()))
            #expect(harness.push(try Media.sample([3]).makeBuffer()) == .ok)
            #expect(harness.pushEndOfStream())
            #expect(harness.output.order == before)
            #expect(try answer(harness, request, Media.key))
            #expect(harness.output.wait(event: "eos"))
            #expect(
                Array(harness.output.order.dropFirst(before.count)) == [
                    "sample", "tag", "sample", "gap", "caps", "sample", "segment", "sample", "eos",
                ])
            #expect(harness.output.samples.map(\.bytes) == [Media.bytes(64), [1], [2], [3]])
            #expect(harness.output.caps.last?.contains("width=(int)99") == true)
        }

        @Test func theEndComesAfterAFailureToo() throws {
            let (harness, request) = try waiting()
            #expect(harness.pushEndOfStream())
            #expect(try deny(harness, request, "no"))
            #expect(try harness.bus.nextError().isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY))
            #expect(harness.output.wait(event: "eos"))
            #expect(harness.output.samples.isEmpty)
        }

        // MARK: Flush and stop

        @Test func aFlushEndsTheWaitAndDropsTheSamples() throws {
            let (harness, request) = try waiting()
            #expect(harness.push(try Media.sample([1]).makeBuffer()) == .ok)
            #expect(harness.change(caps: "\(Media.bareVideo), width=77"))
            #expect(harness.push(try Event.flushStart()))
            #expect(harness.push([2]) == .flushing)
            #expect(harness.push(try Event.flushStop()))
            #expect(harness.push(try Event.segment()))
            // The caps that waited with the samples are not lost with them.
            let source = try #require(gst_element_get_static_pad(harness.element, "src"))
            defer { gst_object_unref(source) }
            let caps = try #require(gst_pad_get_current_caps(source).map { Caps(owning: $0) })
            #expect(caps.description.contains("width=(int)77"))
            #expect(try answer(harness, request, Media.key))
            #expect(harness.push(try Media.sample([3]).makeBuffer()) == .ok)
            #expect(harness.output.wait(samples: 1))
            #expect(harness.output.samples.map(\.bytes) == [[3]])
        }

        @Test func aFlushWhileWaitingDoesNotAskAgain() throws {
            let (harness, request) = try waiting()
            for _ in 0..<5 {
                #expect(harness.push(try Event.flushStart()))
                #expect(harness.push(try Event.flushStop()))
                #expect(harness.push(try Event.segment()))
                #expect(harness.push(try Media.sample([4, 5]).makeBuffer()) == .ok)
            }
            #expect(try answer(harness, request, Media.key))
            #expect(harness.output.wait(samples: 1))
            #expect(harness.output.samples.map(\.bytes) == [[4, 5]])
            #expect(harness.bus.count(element: "latchkey-key-request") == 1)
        }

        @Test(arguments: [GST_STATE_READY, GST_STATE_NULL])
        func aStopEndsTheWaitAtOnce(state: GstState) throws {
            let (harness, _) = try waiting()
            let start = MonotonicTime.now
            #expect(harness.setState(state) == GST_STATE_CHANGE_SUCCESS)
            let milliseconds = Double(MonotonicTime.now - start) / 1e6
            #expect(milliseconds < 200 * TestProcess.patience)
        }

        @Test func afterAStopItStartsAnew() throws {
            let (harness, request) = try waiting()
            #expect(harness.setState(GST_STATE_READY) == GST_STATE_CHANGE_SUCCESS)
            #expect(harness.setState(GST_STATE_PLAYING) == GST_STATE_CHANGE_SUCCESS)
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample([1]).makeBuffer()) == .ok)
            // The request of the first run is still open: its answer belongs to the session.
            #expect(try answer(harness, request, Media.key))
            #expect(harness.output.wait(samples: 1))
            #expect(harness.output.samples.map(\.bytes) == [[1]])
            #expect(harness.bus.count(element: "latchkey-key-request") == 1)
        }
    }
}
