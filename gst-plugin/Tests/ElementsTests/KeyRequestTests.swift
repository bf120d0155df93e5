// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Latchkey
import LatchkeyKeySession
import LatchkeyProtection
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// What starts a request, which loaders are asked, and what the messages say.
    @Suite struct KeyRequestTests {
        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private static let forEver: [(String, FieldValue)] = [("key-timeout", .uint(0))]

        // MARK: Messages

        @Test func theRequestMessageSaysWhatIsNeeded() throws {
            let url = "http://127.0.0.1:9/license?token=secret"
            let harness = try Harness(
                "latchkeycencdec",
                Self.forEver + [("license-url", .string(url)), ("key-system", .string("fairplay"))],
                context: try OpenSession().context)
            let pssh = Media.pssh("94ce86fb-07ff-4f43-adb8-93d2fa968ca2", [Media.keyID])
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.protectionEvent("94ce86fb-07ff-4f43-adb8-93d2fa968ca2", pssh)))
            let request = try harness.bus.next(element: "latchkey-key-request")
            #expect(request.number("request-id") ?? 0 > 0)
            #expect(request.string("key-system") == "fairplay")
            #expect(request.strings("key-ids") == [Media.keyIDText])
            #expect(request.bytes("init-data") == pssh)
            #expect(request.string("init-data-origin") == "isobmff/moov")
            // The query may hold a credential, and messages are logged.
            #expect(request.string("suggested-url") == "http://127.0.0.1:9/license")
            #expect(!harness.bus.all().contains { $0.description.contains("secret") })
            #expect(request.bytes("challenge") == [])
            #expect(request.number("renewal") == 0)
        }

        @Test func aClearKeyRequestCarriesItsChallenge() throws {
            let harness = try Harness(
                "latchkeyclearkeydec", Self.forEver, context: try OpenSession().context)
            harness.start(caps: Media.video)
            #expect(harness.push(try Media.sample([1]).makeBuffer()) == .ok)
            let request = try harness.bus.next(element: "latchkey-key-request")
            #expect(request.string("key-system") == "clearkey")
            let challenge = String(decoding: try #require(request.bytes("challenge")), as: UTF8.self)
            #expect(challenge.contains(Media.base64URL(Media.keyID)), "\(challenge)")
        }

        @Test func mediaWithoutAKeyIDIsAskedForToo() throws {
            let harness = try Harness("latchkeycencdec", Self.forEver)
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample(Media.bytes(20), keyID: nil).makeBuffer()) == .ok)
            let request = try harness.bus.next(element: "latchkey-key-request")
            #expect(request.strings("key-ids") == [])
            #expect(request.string("key-system") == "unknown")
            let id = try #require(request.number("request-id"))
            #expect(harness.element.emit("key-response", [.uint64(id), .bytes(Media.key), .string(nil)]))
            #expect(harness.output.wait(samples: 1))
            #expect(harness.output.samples.map(\.bytes) == [Media.bytes(20)])
        }

        @Test func theOtherMessagesNameTheRequestAndTheKeys() throws {
            let harness = try Harness("latchkeycencdec", Self.forEver)
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample([1]).makeBuffer()) == .ok)
            let request = try harness.bus.next(element: "latchkey-key-request")
            let id = try #require(request.number("request-id"))
            #expect(harness.element.emit("key-response", [.uint64(id), .bytes(Media.key), .string(nil)]))
            let usable = try harness.bus.next(element: "latchkey-key-usable")
            #expect(usable.number("request-id") == id)
            #expect(usable.strings("key-ids") == [Media.keyIDText])
            #expect(usable.number("elapsed") ?? 0 > 0)
            #expect(harness.output.wait(samples: 1))
            #expect(
                harness.push(
                    try Media.sample([1], keyID: Media.otherKeyID, key: Media.otherKey).makeBuffer()) == .ok)
            let second = try harness.bus.next(element: "latchkey-key-request")
            let secondID = try #require(second.number("request-id"))
            #expect(harness.element.emit("key-response", [.uint64(secondID), .bytes(nil), .string("no")]))
            let failed = try harness.bus.next(element: "latchkey-key-failed")
            #expect(failed.number("request-id") == secondID)
            #expect(failed.strings("key-ids") == [Media.otherKeyIDText])
            #expect(failed.string("reason") == "denied: the application says: no")
            _ = try harness.bus.nextError()
            // No message carries a key, in whatever form.
            for message in harness.bus.all() {
                for text in [Media.hex(Media.key), Media.base64URL(Media.key)] {
                    #expect(!message.description.contains(text))
                }
                #expect(message.bytes("init-data")?.isEmpty ?? true)
            }
        }

        // MARK: Protection events

        @Test func protectionEventsOfSeveralSystemsMakeOneRequest() throws {
            let harness = try Harness("latchkeycencdec", Self.forEver)
            harness.start(caps: Media.bareVideo)
            for _ in 0..<3 {
                for system in [Media.commonSystem, Media.playReadySystem, Media.widevineSystem] {
                    #expect(
                        harness.push(try Media.protectionEvent(system, Media.pssh(system, [Media.keyID], data: [1]))))
                }
            }
            #expect(harness.push(try Media.sample(Media.bytes(8)).makeBuffer()) == .ok)
            let request = try harness.bus.next(element: "latchkey-key-request")
            let id = try #require(request.number("request-id"))
            #expect(harness.element.emit("key-response", [.uint64(id), .bytes(Media.key), .string(nil)]))
            #expect(harness.output.wait(samples: 1))
            #expect(harness.bus.count(element: "latchkey-key-request") == 1)
        }

        @Test func aFactoryAsksForItsOwnSystemOnly() throws {
            let harness = try Harness("latchkeyclearkeydec", Self.forEver)
            harness.start(caps: Media.video)
            let playReady = Media.pssh(Media.playReadySystem, [Media.otherKeyID])
            #expect(harness.push(try Media.protectionEvent(Media.playReadySystem, playReady)))
            #expect(harness.bus.count(element: "latchkey-key-request") == 0)
            let common = Media.pssh(Media.commonSystem, [Media.keyID])
            #expect(harness.push(try Media.protectionEvent(Media.commonSystem, common)))
            let request = try harness.bus.next(element: "latchkey-key-request")
            #expect(request.strings("key-ids") == [Media.keyIDText])
        }

        @Test func noRequestForKeysThatAreThere() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.bareVideo)
            let pssh = Media.pssh(Media.commonSystem, [Media.keyID])
            #expect(harness.push(try Media.protectionEvent(Media.commonSystem, pssh)))
            #expect(harness.push(try Media.sample([1]).makeBuffer()) == .ok)
            #expect(harness.bus.count(element: "latchkey-key-request") == 0)
        }

        @Test func initializationDataThatCannotBeReadIsHarmless() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.bareVideo)
            let good = Media.pssh(Media.commonSystem, [Media.otherKeyID])
            let hostile: [[UInt8]] = [[], [0], Array(good.dropLast()), [0xff, 0xff, 0xff, 0xff] + good.dropFirst(4)]
            for data in hostile {
                for system in [Media.commonSystem, "unspecified-system-id", "not-a-uuid"] {
                    #expect(harness.push(try Media.protectionEvent(system, data, origin: "")))
                }
            }
            #expect(harness.push(try Media.sample(Media.bytes(5)).makeBuffer()) == .ok)
            #expect(harness.output.samples.map(\.bytes) == [Media.bytes(5)])
        }

        @Test func aStreamThatNamesEverNewDataDoesNotFillTheMemory() throws {
            let harness = try Harness("latchkeycencdec", Media.keysProperty)
            harness.start(caps: Media.bareVideo)
            for index in 0..<200 {
                let data = Media.pssh(Media.commonSystem, [Media.keyID], data: [UInt8(index)])
                #expect(harness.push(try Media.protectionEvent(Media.commonSystem, data)))
            }
            #expect(harness.push(try Media.sample([9]).makeBuffer()) == .ok)
            #expect(harness.output.samples.map(\.bytes) == [[9]])
        }

        // MARK: One session

        @Test func twoElementsOfOneSessionAskOnce() throws {
            let open = try OpenSession()
            let harnesses = try (0..<2).map { _ in try Harness("latchkeycencdec", Self.forEver, context: open.context) }
            for harness in harnesses {
                harness.start(caps: Media.bareVideo)
                #expect(harness.push(try Media.sample(Media.bytes(30)).makeBuffer()) == .ok)
            }
            let request = try harnesses[0].bus.next(element: "latchkey-key-request")
            let id = try #require(request.number("request-id"))
            // The application may answer through any of them.
            #expect(harnesses[1].element.emit("key-response", [.uint64(id), .bytes(Media.key), .string(nil)]))
            for harness in harnesses {
                #expect(harness.output.wait(samples: 1))
                #expect(harness.output.samples.map(\.bytes) == [Media.bytes(30)])
            }
            #expect(harnesses.map { $0.bus.count(element: "latchkey-key-request") } == [1, 0])
        }

        @Test func theFirstElementSharesItsSessionThroughAContext() throws {
            let first = try Harness("latchkeycencdec")
            let context = try #require(
                ElementReference(first.element).context(type: SharedSession.contextType))
            let second = try Harness("latchkeycencdec", context: context)
            let sessions = try [first, second].map {
                try #require(Decryptor.implementation(of: $0.element)?.currentSession)
            }
            #expect(sessions[0] === sessions[1])
            _ = try first.bus.next { $0.type == "have-context" }
        }

        @Test func theElementsOfOnePipelineShareASession() throws {
            let pipeline = try #require(gst_pipeline_new(nil))
            gst_object_ref_sink(pipeline)
            defer { gst_object_unref(pipeline) }
            var elements: [UnsafeMutablePointer<GstElement>] = []
            for factory in ["latchkeycencdec", "latchkeyclearkeydec", "latchkeyfairplaydec"] {
                let element = try #require(gst_element_factory_make(factory, nil))
                // One of them inside a bin of its own.
                let bin = try #require(gst_bin_new(nil))
                gst_bin_add(UnsafeMutableRawPointer(bin).assumingMemoryBound(to: GstBin.self), element)
                gst_bin_add(UnsafeMutableRawPointer(pipeline).assumingMemoryBound(to: GstBin.self), bin)
                elements.append(element)
            }
            #expect(gst_element_set_state(pipeline, GST_STATE_PAUSED) == GST_STATE_CHANGE_SUCCESS)
            let sessions = try elements.map { try #require(Decryptor.implementation(of: $0)?.currentSession) }
            #expect(sessions.allSatisfy { $0 === sessions[0] })
            #expect(gst_element_set_state(pipeline, GST_STATE_NULL) == GST_STATE_CHANGE_SUCCESS)
        }

        @Test func keysOfTheSessionWorkWithEveryFactory() throws {
            let open = try OpenSession()
            let session = open.session
            session.install([try #require(KeyID(Media.keyID)): try #require(ContentKey(Media.key))])
            for (factory, system) in [
                ("latchkeyfairplaydec", "94ce86fb-07ff-4f43-adb8-93d2fa968ca2"),
                ("latchkeyplayreadydec", Media.playReadySystem), ("latchkeyclearkeydec", Media.commonSystem),
                ("latchkeycencdec", Media.widevineSystem),
            ] {
                let harness = try Harness(factory, context: open.context)
                harness.start(caps: "\(Media.bareVideo), protection-system=\(system)")
                #expect(harness.push(try Media.protectionEvent(system, Media.pssh(system, [Media.keyID]))))
                #expect(harness.push(try Media.sample(Media.bytes(12)).makeBuffer()) == .ok)
                #expect(harness.output.samples.map(\.bytes) == [Media.bytes(12)], "\(factory)")
                #expect(harness.bus.count(element: "latchkey-key-request") == 0)
            }
        }

        @Test func oldKeysStayAtARotation() throws {
            let open = try OpenSession()
            let session = open.session
            let harness = try Harness("latchkeycencdec", context: open.context)
            harness.start(caps: Media.bareVideo)
            session.install([try #require(KeyID(Media.keyID)): try #require(ContentKey(Media.key))])
            #expect(harness.push(try Media.sample([1]).makeBuffer()) == .ok)
            session.install([try #require(KeyID(Media.otherKeyID)): try #require(ContentKey(Media.otherKey))])
            let rotated = Media.sample([2], keyID: Media.otherKeyID, key: Media.otherKey)
            #expect(harness.push(try rotated.makeBuffer()) == .ok)
            #expect(harness.push(try Media.sample([3]).makeBuffer()) == .ok)
            #expect(harness.output.samples.map(\.bytes) == [[1], [2], [3]])
        }

        @Test func aClosedSessionClosesItsKeys() throws {
            let open = try OpenSession()
            let session = open.session
            let harness = try Harness("latchkeycencdec", context: open.context)
            harness.start(caps: Media.bareVideo)
            session.install([try #require(KeyID(Media.keyID)): try #require(ContentKey(Media.key))])
            #expect(harness.push(try Media.sample([1]).makeBuffer()) == .ok)
            session.close(.denied("over"))
            #expect(harness.push(try Media.sample([2]).makeBuffer()) == .error)
            #expect(try harness.bus.nextError().text.contains("session closed"))
            #expect(harness.output.samples.map(\.bytes) == [[1]])
        }
    }
}
