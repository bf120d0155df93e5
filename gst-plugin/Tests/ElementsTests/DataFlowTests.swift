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
    /// What waits for a key is not lost to what happens around it.
    @Suite struct DataFlowTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private func waiting() throws -> (Harness, UInt64) {
            let harness = try Harness("latchkeycencdec", [("key-timeout", .uint(0))])
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample(Media.bytes(64)).makeBuffer()) == .ok)
            let request = try harness.bus.next(element: "latchkey-key-request")
            return (harness, try #require(request.number("request-id")))
        }

        private func giveKey(_ harness: Harness, _ request: UInt64) -> Bool {
            harness.element.emit("key-response", [.uint64(request), .bytes(Media.key), .string(nil)])
        }

        @Test func aSessionThatIsClosedBeforeTheStartFailsTheStreamOnce() throws {
            let session = KeySession()
            session.close(.denied("the viewing session ended"))
            let shared = SharedSession(session, ControlSettings())
            // A context does not keep it.
            defer { withExtendedLifetime(shared) {} }
            let context = try #require(SharedSession.context(for: shared))
            let harness = try Harness("latchkeycencdec", [("key-timeout", .uint(0))], context: context)
            harness.start(caps: Media.bareVideo)
            _ = harness.push(try Media.sample([1, 2]).makeBuffer())
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
            #expect(error.text.contains("the viewing session ended"), "\(error)")
            #expect(harness.bus.count(element: "latchkey-key-failed") <= 1)
        }

        @Test func capsThatWaitSurviveAFlush() throws {
            let (harness, request) = try waiting()
            #expect(harness.change(caps: Media.bareVideo + ", width=640"))
            #expect(harness.push(try Event.flushStart()))
            #expect(harness.push(try Event.flushStop()))
            #expect(harness.push(try Event.segment()))
            #expect(giveKey(harness, request))
            #expect(harness.push(try Media.sample(Media.bytes(9)).makeBuffer()) == .ok)
            #expect(harness.output.wait(samples: 1))
            // The sample of before the flush is gone, and the new one is decrypted under the new caps.
            #expect(harness.output.samples.map(\.bytes) == [Media.bytes(9)])
            let decryptor = try #require(Decryptor.implementation(of: harness.element))
            #expect(decryptor.sourcePad.currentCaps?.description.contains("width=(int)640") == true)
        }

        private static let isSelected = Atomic<Bool>(false)

        @Test func aStreamThatIsNotSelectedGoesOnWhenItIs() throws {
            let (harness, request) = try waiting()
            gst_pad_set_chain_function_full(
                harness.pointer.pointee.sinkpad,
                { _, _, buffer in
                    if let buffer { _ = Buffer(owning: buffer) }
                    return DataFlowTests.isSelected.load(ordering: .relaxed) ? GST_FLOW_OK : GST_FLOW_NOT_LINKED
                }, nil, nil)
            #expect(harness.push(try Media.sample(Media.bytes(5)).makeBuffer()) == .ok)
            #expect(giveKey(harness, request))
            #expect(harness.output.wait(samples: 2))
            Self.isSelected.store(true, ordering: .relaxed)
            // The queue may still be at its last sample; from then on the result is downstream's.
            let end = MonotonicTime.now + TestProcess.deadline
            var result = FlowResult.notLinked
            while result == .notLinked, MonotonicTime.now < end {
                result = harness.push(try Media.sample(Media.bytes(7)).makeBuffer())
            }
            #expect(result == .ok)
            #expect(harness.pushEndOfStream())
            #expect(!harness.bus.all().contains { $0.type == "error" })
        }
    }
}
