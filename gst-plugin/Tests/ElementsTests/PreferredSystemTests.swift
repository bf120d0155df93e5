// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import LatchkeyKeySystems
import Latchkey
import LatchkeyKeySession
import LatchkeyProtection
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// A demuxer that finds several systems in a file asks which one to name (`drm-preferred-decryption-system-id`).
    @Suite struct PreferredSystemTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private static var path: String {
            URL(fileURLWithPath: #filePath).deletingLastPathComponent()
                .appendingPathComponent("../../../Tests/Corpus/shaka-cbcs-alldrm/video.mp4").standardizedFileURL.path
        }

        private final class Source: ResourceLoader {
            let name = "source"
            let keySystems: Set<KeySystem>?
            init(_ keySystems: Set<KeySystem>?) { self.keySystems = keySystems }
            func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool { false }
        }

        /// The system in the caps of a file with the boxes of Common, PlayReady and Widevine, in this order.
        private func system(
            _ loaders: [any ResourceLoader], isAttached: Bool = true, answered: String? = nil
        ) throws -> String? {
            let playback = try LaunchedPipeline(
                "filesrc location=\(Self.path) ! qtdemux ! fakesink name=out", recorded: ["out"])
            let type = "drm-preferred-decryption-system-id"
            if let answered, let context = Context(type: type, persistent: true) {
                context.withPointer { context in
                    var value = GValue()
                    ek_value_init(&value, ek_type_string())
                    g_value_set_string(&value, answered)
                    gst_structure_take_value(
                        gst_context_writable_structure(context), "decryption-system-id", &value)
                }
                ElementReference(playback.pipeline).set(context)
            }
            let session = KeySession(loaders: loaders)
            if isAttached { Latchkey.attach(session, to: playback.pipeline) }
            #expect(try playback.play().type == "eos")
            let caps = try #require(playback.recorders["out"]?.caps.first)
            return try #require(caps.split(separator: "protection-system=(string)").dropFirst().first)
                .split(whereSeparator: { ",;".contains($0) }).first.map(String.init)
        }

        @Test func theSystemThatHasAKeySourceIsNamed() throws {
            #expect(try system([Source([.playReady])]) == ProtectionSystem.playReady.uuid)
            #expect(try system([Source([.clearKey])]) == ProtectionSystem.common.uuid)
            #expect(try system([Source([.fairPlay]), Source([.playReady])]) == ProtectionSystem.playReady.uuid)
            #expect(try system([Source(nil), Source([.playReady])]) == ProtectionSystem.playReady.uuid)
            #expect(try system([Source(nil)]) == ProtectionSystem.common.uuid)
            // Loaders are asked in order.
            #expect(try system([Source([.playReady]), Source([.clearKey])]) == ProtectionSystem.playReady.uuid)
            #expect(try system([Source([.clearKey]), Source([.playReady])]) == ProtectionSystem.common.uuid)
        }

        @Test func withoutASourceGStreamerChooses() throws {
            let stock = try system([], isAttached: false)
            #expect(try system([]) == stock)
            #expect(try system([Source([.fairPlay])]) == stock)
        }

        @Test func theApplicationsOwnAnswerStays() throws {
            #expect(
                try system([Source([.clearKey])], answered: ProtectionSystem.playReady.uuid)
                    == ProtectionSystem.playReady.uuid)
        }
    }
}
