// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyViewingSession
import Testing

@testable import LatchkeyElements
@testable import LatchkeyKeySession

extension ElementTests {
    /// What goes wrong at the end of a viewing session, when nobody listens to its pipeline any more.
    @Suite struct UntoldNoticeTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        @Test func theNextPipelineTells() throws {
            let element = try #require(gst_element_factory_make("latchkeycencdec", nil))
            gst_object_ref_sink(element)
            // It has no bus: as good as one of a pipeline at NULL.
            let notice = ViewingNotice(.teardownError, .init(.unknown, status: 500, code: "4000", message: "no time"))
            ElementReference(element).post(notice)
            gst_object_unref(element)

            let harness = try Harness("latchkeycencdec")
            let message = try harness.bus.next(element: "latchkey-session-teardown-error")
            #expect(message.description.contains("http-status=(uint)500"))
            #expect(message.string("code") == "4000")
            #expect(message.string("message") == "no time")

            // Once.
            let other = try Harness("latchkeycencdec")
            #expect(other.bus.count(element: "latchkey-session-teardown-error") == 0)
        }
    }
}
