// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import Latchkey
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// Everything that a pipeline makes goes with it: decryptors, sessions, keys.
    @Suite struct LifetimeTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private static let file = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
            .appendingPathComponent("../../../Tests/Corpus/shaka-cenc-iv8-h264-aac/video.mp4").standardizedFileURL.path

        private static let keys: String = {
            let list = URL(fileURLWithPath: file).deletingLastPathComponent().appendingPathComponent("case.json")
            struct Case: Decodable {
                struct Key: Decodable { let kid, key: String }
                let keys: [Key]
            }
            guard let data = try? Data(contentsOf: list), let read = try? JSONDecoder().decode(Case.self, from: data)
            else { return "" }
            return read.keys.map { "\($0.kid):\($0.key)" }.joined(separator: ",")
        }()

        /// What is expected to go. Thread-safe.
        private final class Witness: Sendable {
            private struct Weak: @unchecked Sendable {
                // SAFETY: read and written under the mutex only.
                weak var object: AnyObject?
            }
            private let objects = Mutex<[Weak]>([])

            func watch(_ object: AnyObject?) {
                let entry = Weak(object: object)
                objects.withLock { $0.append(entry) }
            }

            var count: Int { objects.withLock { $0.count } }
            var alive: Int { objects.withLock { list in list.count { $0.object != nil } } }

            /// A task that asks loaders may hold a session for a moment longer.
            func allGo() -> Bool {
                let end = MonotonicTime.now + TestProcess.deadline
                while alive > 0, MonotonicTime.now < end { sched_yield() }
                return alive == 0
            }
        }

        private func watch(_ witness: Witness, _ elements: [UnsafeMutablePointer<GstElement>]) {
            for element in elements {
                let decryptor = Decryptor.implementation(of: element)
                witness.watch(decryptor)
                witness.watch(decryptor?.currentSession)
                witness.watch(decryptor?.currentSources)
            }
        }

        @Test func aHarnessLeavesNothingBehind() throws {
            let witness = Witness()
            do {
                let harness = try Harness("latchkeycencdec", [("key-timeout", .uint(0))])
                harness.start(caps: Media.bareVideo)
                // A sample that waits for its key, and a request that nobody answers.
                #expect(harness.push(try Media.sample([1]).makeBuffer()) == .ok)
                _ = try harness.bus.next(element: "latchkey-key-request")
                watch(witness, [harness.element])
                #expect(witness.alive == 3)
            }
            #expect(witness.allGo())
        }

        @Test func aKeyGoesWithItsSession() throws {
            let witness = Witness()
            do {
                let harness = try Harness("latchkeycencdec", [("key-timeout", .uint(0))])
                harness.start(caps: Media.bareVideo)
                #expect(harness.push(try Media.sample([1]).makeBuffer()) == .ok)
                let request = try harness.bus.next(element: "latchkey-key-request")
                let id = try #require(request.number("request-id"))
                #expect(harness.element.emit("key-response", [.uint64(id), .bytes(Media.key), .string(nil)]))
                #expect(harness.output.wait(samples: 1))
                let session = try #require(Decryptor.implementation(of: harness.element)?.currentSession)
                guard case .usable(let key) = session.status(of: KeyID(Media.keyID)) else {
                    throw TestFailure("the key is not there")
                }
                witness.watch(key)
                watch(witness, [harness.element])
            }
            #expect(witness.allGo())
        }

        /// Some stock elements leak the contexts that they get.
        @Test(arguments: [false, true]) func aLeakedContextDoesNotKeepTheSession(_ isAttached: Bool) throws {
            let witness = Witness()
            var leaked: Context?
            do {
                let pipeline = Pipeline(try Pipeline.launch("latchkeycencdec name=decryptor key-timeout=0"))
                let element = try #require(
                    Pipeline.isBin(pipeline.pointer)
                        ? Pipeline.element("decryptor", in: pipeline.pointer) : pipeline.reference)
                if isAttached {
                    let session = KeySession()
                    Latchkey.attach(session, to: pipeline.pointer)
                    witness.watch(session)
                }
                // The same again after a stop: the pipeline owns it, and no element has to.
                for _ in 0..<2 {
                    #expect(pipeline.setState(.paused))
                    witness.watch(Decryptor.implementation(of: element.pointer)?.currentSession)
                    #expect(pipeline.setState(.null))
                }
                leaked = element.context(type: SharedSession.contextType)
                #expect(witness.alive == witness.count && witness.count > 1)
            }
            #expect(leaked != nil)
            #expect(witness.allGo())
            // A pipeline that gets it makes a session of its own.
            let harness = try Harness("latchkeycencdec", context: leaked)
            #expect(Decryptor.implementation(of: harness.element)?.currentSession != nil)
        }

        /// Who shares a session by its context may outlive the pipeline that made it.
        @Test func aSharedSessionStaysWithThoseThatShareIt() throws {
            var first: Harness? = try Harness("latchkeycencdec")
            let context = ElementReference(try #require(first).element).context(type: SharedSession.contextType)
            let second = try Harness("latchkeycencdec", context: context)
            let session = Decryptor.implementation(of: second.element)?.currentSession
            first = nil
            #expect(second.setState(GST_STATE_NULL) == GST_STATE_CHANGE_SUCCESS)
            #expect(second.setState(GST_STATE_PLAYING) == GST_STATE_CHANGE_SUCCESS)
            let again = Decryptor.implementation(of: second.element)?.currentSession
            #expect(session != nil && again === session)
        }

        @Test func fiftyCyclesOfAPipeline() throws {
            #expect(!Self.keys.isEmpty)
            let witness = Witness()
            do {
                let playback = try FilePlayback(
                    Self.file, demuxer: "qtdemux", properties: [("keys", .string(Self.keys))],
                    onDecryptor: { witness.watch(Decryptor.implementation(of: $0)) })
                var counts: Set<Int> = []
                for cycle in 0..<50 {
                    playback.setState(GST_STATE_PLAYING)
                    // Every other cycle ends in the middle.
                    if cycle.isMultiple(of: 2) {
                        #expect(try playback.waitForEnd().type == "eos")
                        counts.insert(playback.tracks.last?.output.samples.count ?? 0)
                    }
                    playback.setState(GST_STATE_NULL)
                    playback.removeTracks()
                }
                #expect(counts.count == 1 && counts.first ?? 0 > 20, "\(counts)")
                #expect(witness.count >= 25)
            }
            #expect(witness.allGo())
        }

        @Test func fiftyCyclesWithAKeyThatNeverComes() throws {
            let witness = Witness()
            do {
                let harness = try Harness("latchkeycencdec", [("key-timeout", .uint(0))])
                for _ in 0..<50 {
                    harness.start(caps: Media.bareVideo)
                    #expect(harness.push(try Media.sample([1]).makeBuffer()) == .ok)
                    witness.watch(Decryptor.implementation(of: harness.element)?.currentSources)
                    #expect(harness.setState(GST_STATE_NULL) == GST_STATE_CHANGE_SUCCESS)
                    #expect(harness.setState(GST_STATE_PLAYING) == GST_STATE_CHANGE_SUCCESS)
                }
                watch(witness, [harness.element])
                // One session for all of it, and one request.
                #expect(harness.bus.count(element: "latchkey-key-request") == 1)
            }
            #expect(witness.allGo())
        }

        @Test func thirtyTwoPipelinesAtOnce() throws {
            let witness = Witness()
            do {
                // A half has its keys; the other half asks, and is stopped while it waits.
                let playbacks = try (0..<32).map { index in
                    try FilePlayback(
                        Self.file, demuxer: "qtdemux",
                        properties: index.isMultiple(of: 2)
                            ? [("keys", .string(Self.keys))] : [("key-timeout", .uint(0))],
                        onDecryptor: { witness.watch(Decryptor.implementation(of: $0)) })
                }
                for playback in playbacks { playback.setState(GST_STATE_PLAYING) }
                for (index, playback) in playbacks.enumerated() {
                    if index.isMultiple(of: 2) {
                        #expect(try playback.waitForEnd().type == "eos")
                    } else {
                        _ = try playback.bus.next(element: "latchkey-key-request")
                    }
                }
                let sessions = playbacks.flatMap(\.decryptors).compactMap {
                    Decryptor.implementation(of: $0)?.currentSession
                }
                #expect(Set(sessions.map(ObjectIdentifier.init)).count == 32)
                for session in sessions { witness.watch(session) }
                for playback in playbacks { playback.setState(GST_STATE_NULL) }
                let counts = playbacks.enumerated().filter { $0.offset.isMultiple(of: 2) }.map {
                    $0.element.tracks.last?.output.samples.count ?? 0
                }
                #expect(Set(counts).count == 1 && counts.first ?? 0 > 20, "\(counts)")
                for playback in playbacks.enumerated() where !playback.offset.isMultiple(of: 2) {
                    #expect(playback.element.tracks.last?.output.samples.isEmpty == true)
                }
                #expect(witness.count == 64)
            }
            #expect(witness.allGo())
        }
    }
}
