// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import ElementTestSupport
import Synchronization
import Testing

@testable import Latchkey

/// What an agent keeps of the pipelines that it is attached to.
@Suite struct AttachmentTests {
    init() { TestProcess.prepare }

    private func count(_ agent: Agent) -> Int { agent.core.guarded.withLock { $0.attachments.count } }

    @Test func aPipelineThatIsGoneIsForgotten() throws {
        let agent = Agent(contentURL: "https://media.example/a.mp4", type: .mp4)
        for _ in 0..<3 {
            let pipeline = try #require(gst_pipeline_new(nil))
            gst_object_ref_sink(pipeline)
            try agent.attach(to: pipeline)
            #expect(count(agent) == 1)
            // Its bus lets go of what it has posted.
            for state in [GST_STATE_READY, GST_STATE_NULL] { gst_element_set_state(pipeline, state) }
            gst_object_unref(pipeline)
            #expect(count(agent) == 0)
        }
    }

    /// Nothing tells of the end of one: it stays until the agent ends.
    @Test func anElementAloneStays() throws {
        let agent = Agent(contentURL: "https://media.example/a.mp4", type: .mp4)
        let element = try #require(gst_element_factory_make("fakesink", nil))
        gst_object_ref_sink(element)
        defer { gst_object_unref(element) }
        try agent.attach(to: element)
        #expect(count(agent) == 1)
    }
}
