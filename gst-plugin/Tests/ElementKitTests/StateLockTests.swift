// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import Synchronization
import Testing

/// What is done to a pipeline while its state stays as it is.
@Suite struct StateLockTests {
    private final class Pipeline: @unchecked Sendable {
        // SAFETY: GStreamer's elements may be used on all threads.
        let outer: UnsafeMutablePointer<GstElement>
        let child: UnsafeMutablePointer<GstElement>

        init() throws {
            TestProcess.prepare
            guard let outer = gst_pipeline_new(nil), let child = gst_element_factory_make("identity", nil) else {
                throw TestFailure("no pipeline")
            }
            gst_object_ref_sink(outer)
            gst_bin_add(UnsafeMutableRawPointer(outer).assumingMemoryBound(to: GstBin.self), child)
            (self.outer, self.child) = (outer, child)
        }

        deinit {
            gst_element_set_state(outer, GST_STATE_NULL)
            gst_object_unref(outer)
        }
    }

    /// Whether another thread gets the lock that state changes take.
    private static func isLocked(_ element: UnsafeMutablePointer<GstElement>) async -> Bool {
        let address = UInt(bitPattern: element)
        return await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                guard let element = UnsafeMutablePointer<GstElement>(bitPattern: address) else { return }
                let isFree = g_rec_mutex_trylock(&element.pointee.state_lock) != 0
                if isFree { g_rec_mutex_unlock(&element.pointee.state_lock) }
                continuation.resume(returning: !isFree)
            }
        }
    }

    @Test func atOnceWhereNobodyChangesTheState() async throws {
        let pipeline = try Pipeline()
        let caller = pthread_self()
        let thread = Mutex<pthread_t?>(nil)
        ElementReference(pipeline.child).whileStateStays { thread.withLock { $0 = pthread_self() } }
        #expect(thread.withLock { $0 } == caller)
        #expect(await !Self.isLocked(pipeline.outer))
    }

    @Test func behindAChangeThatIsUnderWay() async throws {
        let pipeline = try Pipeline()
        let (calls, continuation) = AsyncStream.makeStream(of: Bool.self)
        let isChanging = Mutex(true)
        // Another thread's change of state, as far as locks show it.
        let locked = DispatchSemaphore(value: 0)
        let end = DispatchSemaphore(value: 0)
        Thread.detachNewThread {
            g_rec_mutex_lock(&pipeline.outer.pointee.state_lock)
            locked.signal()
            end.wait()
            isChanging.withLock { $0 = false }
            g_rec_mutex_unlock(&pipeline.outer.pointee.state_lock)
        }
        await withCheckedContinuation { done in
            Thread.detachNewThread {
                locked.wait()
                ElementReference(pipeline.child).whileStateStays {
                    continuation.yield(isChanging.withLock { $0 })
                    continuation.finish()
                }
                // The caller is not held up.
                done.resume()
            }
        }
        end.signal()
        var seen: [Bool] = []
        for await wasChanging in calls { seen.append(wasChanging) }
        #expect(seen == [false])
    }
}
