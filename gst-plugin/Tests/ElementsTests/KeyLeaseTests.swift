// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Dispatch
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

extension ElementTests {
    @Suite struct KeyLeaseTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        /// Takes its time to write down that a key is played.
        private final class Notary: ResourceLoader {
            let name = "notary"
            let isWritten = Mutex(false)
            func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool { false }
            func finishNotingPlays() async {
                try? await Task.sleep(for: .milliseconds(50))
                isWritten.withLock { $0 = true }
            }
        }

        /// The process may end right behind the stop, and a license must not begin anew for that.
        @Test func aStopWaitsUntilTheFirstPlayIsWrittenDown() async throws {
            let open = try OpenSession()
            let keyID = try #require(KeyID(Media.keyID))
            let key = try #require(ContentKey(Media.key))
            let notary = Notary()
            open.session.addLoader(notary)
            open.session.install([keyID: key], terms: KeyTerms())
            let harness = try Harness("latchkeycencdec", context: open.context)
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample(Media.bytes(20)).makeBuffer()) == .ok)
            #expect(harness.output.samples.count == 1)
            let start = MonotonicTime.now
            // On a thread of its own: tasks need theirs.
            let change = await withCheckedContinuation { continuation in
                DispatchQueue.global().async { continuation.resume(returning: harness.setState(GST_STATE_READY)) }
            }
            #expect(change == GST_STATE_CHANGE_SUCCESS)
            // A stop waits for two seconds at most. On a busy machine, tasks may get no thread for so long.
            let hasWaited = MonotonicTime.now - start >= 2_000_000_000
            #expect(notary.isWritten.withLock { $0 } || hasWaited)
            #expect(open.session.unwrittenPlays.isEmpty || hasWaited)
        }

        /// The next sample may come when the session has ended the lease and has told nobody yet.
        @Test func theEndOfALeaseIsToldOnceAndBeforeTheErrorThatFollows() throws {
            let open = try OpenSession()
            let keyID = try #require(KeyID(Media.keyID))
            let key = try #require(ContentKey(Media.key))
            let sample = try Media.sample(Media.bytes(20))
            let state = Mutex<(harness: Harness?, result: FlowResult?)>((nil, nil))
            // Hears of it before the decryptor, which begins to observe later.
            let observation = open.session.observe { event in
                guard case .expired(_, _, wasInUse: true) = event else { return }
                guard let harness = state.withLock({ $0.harness }), let buffer = try? sample.makeBuffer() else {
                    return
                }
                let result = harness.push(buffer)
                state.withLock { $0.result = result }
            }
            defer { observation.cancel() }
            let harness = try Harness("latchkeycencdec", context: open.context)
            state.withLock { $0.harness = harness }
            defer { state.withLock { $0.harness = nil } }
            // And this one after the decryptor.
            let last = open.session.observe { event in
                guard case .expired = event, let harness = state.withLock({ $0.harness }) else { return }
                gst_bus_post(harness.bus.pointer, gst_message_new_application(nil, gst_structure_new_empty("told")))
            }
            defer { last.cancel() }
            harness.start(caps: Media.bareVideo)
            // The first sample comes within the lease.
            open.session.install([keyID: key], terms: KeyTerms(lease: .seconds(2)))
            #expect(harness.push(try sample.makeBuffer()) == .ok)
            #expect(harness.output.samples.map(\.bytes) == [Media.bytes(20)])

            let isOfTheEnd = { (message: BusMessage) in
                message.type == "error" || message.name == "latchkey-key-expired"
            }
            let first = try harness.bus.next(where: isOfTheEnd)
            #expect(first.name == "latchkey-key-expired", "\(first)")
            #expect(first.strings("key-ids") == [Media.keyIDText])
            let second = try harness.bus.next(where: isOfTheEnd)
            #expect(second.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(second)")
            #expect(second.text.contains("lease"), "\(second)")
            _ = try harness.bus.next { $0.name == "told" }
            #expect(state.withLock { $0.result } == .error)
            #expect(harness.bus.count(element: "latchkey-key-expired") == 1)
        }

        /// Queues behind the element may hold decrypted media for long, and no sample comes meanwhile.
        @Test func aKeyIsRenewedAsLongAsItsSamplesAreTheLastOnes() throws {
            let open = try OpenSession()
            let keyID = try #require(KeyID(Media.keyID))
            let key = try #require(ContentKey(Media.key))
            let renewals = Atomic(0)
            let isRenewed = DispatchSemaphore(value: 0)
            // A renewal has a fifth of the lease.
            let terms = KeyTerms(lease: .milliseconds(Int64(250 * TestProcess.patience)))
            open.session.addLoader(
                CallbackLoader { request in
                    request.finishLoading(with: .limited(.keys([keyID: key]), terms))
                    if request.isRenewal, renewals.wrappingAdd(1, ordering: .relaxed).newValue == 3 {
                        isRenewed.signal()
                    }
                    return true
                })
            let harness = try Harness("latchkeycencdec", context: open.context)
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample(Media.bytes(20)).makeBuffer()) == .ok)
            #expect(isRenewed.wait(timeout: .now() + .nanoseconds(Int(TestProcess.deadline))) == .success)
            #expect(harness.bus.count(element: "latchkey-key-expired") == 0)
        }
    }
}
