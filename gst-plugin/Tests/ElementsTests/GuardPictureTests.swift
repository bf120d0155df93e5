// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import Latchkey
import LatchkeyKeySession
import LatchkeyOutputs
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// The application's picture in the place of the video, and modes that change while it plays.
    @Suite struct GuardPictureTests {
        /// Grey, of the screen's proportions.
        static let wide =
            "iVBORw0KGgoAAAANSUhEUgAAABAAAAAMCAIAAADkharWAAAAE0lEQVR42mNoIBEwjGoY1YAdAADVoiAQZgwMaAAAAABJRU5ErkJggg=="
        /// Grey, and a square.
        static let square =
            "iVBORw0KGgoAAAANSUhEUgAAAAgAAAAICAIAAABLbSncAAAAD0lEQVR42mNowAEYhpYEAILzYAEllbNjAAAAAElFTkSuQmCC"
        static let grey: UInt8 = 126

        init() {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
        }

        private func picture(_ text: String) throws -> AlternativePicture {
            try AlternativePicture([UInt8](try #require(Data(base64Encoded: text))))
        }

        static let alternative: OutputDecision = {
            var decision = GuardTests.blocked
            decision.showsAlternative = true
            return decision
        }()

        @Test(arguments: ["I420", "NV12", "Y42B"]) func thePictureTakesThePlaceOfTheVideo(_ format: String) throws {
            let screen = try GuardTests.Screen(format: format)
            AlternativePicture.set(try picture(Self.wide), of: screen.outputGuard.reference)
            _ = screen.set(GST_STATE_PLAYING)
            #expect(screen.shows(GuardTests.white, 3, from: 0), "\(screen.state)")
            screen.outputGuard.obey(Self.alternative)
            let closed = screen.frames.all.count
            #expect(screen.shows(Self.grey, 5, from: closed), "\(screen.state)")
            #expect(screen.frames.all[closed...].allSatisfy { $0.luma == Self.grey }, "\(screen.state)")
            // What only the license forbids stays black, and what is allowed comes back.
            screen.outputGuard.obey(GuardTests.blocked)
            let blocked = screen.frames.all.count
            #expect(screen.shows(GuardTests.black, 3, from: blocked), "\(screen.state)")
            screen.outputGuard.obey(.allow)
            #expect(screen.shows(GuardTests.white, 3, from: blocked), "\(screen.state)")
        }

        @Test func aPictureMayComeAndGoWhileItIsShown() throws {
            let screen = try GuardTests.Screen()
            _ = screen.set(GST_STATE_PLAYING)
            #expect(screen.shows(GuardTests.white, 3, from: 0), "\(screen.state)")
            screen.outputGuard.obey(Self.alternative)
            // Without one it is white, as the video of this test is: the counters tell that nothing passes.
            let passed = screen.outputGuard.counters.withLock { $0.passed }
            #expect(screen.shows(GuardTests.white, 3, from: screen.frames.all.count), "\(screen.state)")
            #expect(screen.outputGuard.counters.withLock { $0.passed } == passed)
            AlternativePicture.set(try picture(Self.wide), of: screen.outputGuard.reference)
            #expect(screen.shows(Self.grey, 3, from: screen.frames.all.count), "\(screen.state)")
            AlternativePicture.set(nil, of: screen.outputGuard.reference)
            let gone = screen.frames.all.count
            #expect(screen.shows(GuardTests.white, 3, from: gone), "\(screen.state)")
            #expect(screen.outputGuard.counters.withLock { $0.passed } == passed)
        }

        /// The first byte is in the left border then.
        @Test func aPictureKeepsItsProportions() throws {
            let caps = try #require(Caps("video/x-raw,format=GRAY8,width=320,height=240,framerate=0/1"))
            guard let frame = try picture(Self.square).picture.frame(caps),
                let bytes = frame.withBytesOfFirstMemory({ Array($0) })
            else { throw TestFailure("no frame") }
            #expect(bytes.count == 320 * 240)
            let row = bytes[(120 * 320)..<(121 * 320)]
            let lit = row.indices.filter { row[$0] > 100 }
            #expect(row.first.map { $0 < 20 } == true && (236...244).contains(lit.count), "\(lit.count)")
            #expect(lit.first.map { (36...44).contains($0 - row.startIndex) } == true)
        }

        @Test func whatIsNoPictureIsRefused() {
            for bytes in [[], Array("no picture at all".utf8), Array(repeating: 0, count: 100)] as [[UInt8]] {
                #expect(throws: PipelineError.self) { try AlternativePicture(bytes) }
            }
            #expect(throws: PipelineError.self) { try AlternativePicture(file: "/nowhere/picture.png") }
        }

        @Test func aFileMayBeNamed() throws {
            let path = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID()).png").path
            try #require(Data(base64Encoded: Self.wide)).write(to: URL(fileURLWithPath: path))
            defer { try? FileManager.default.removeItem(atPath: path) }
            let screen = try GuardTests.Screen()
            screen.outputGuard.reference.pointer.setProperty("alternative-image", .string(path))
            #expect(screen.outputGuard.picture.withLock { $0 } != nil)
            screen.outputGuard.reference.pointer.setProperty("alternative-image", .string("/nowhere/picture.png"))
            #expect(screen.outputGuard.picture.withLock { $0 } == nil)
        }

        /// Protected content without a rule, on a digital output: the application's mode alone decides.
        @Test func anotherModeCountsAtOnce() throws {
            let session = KeySession()
            let keyID = KeyID(high: 1, low: 2)
            session.install([keyID: try #require(ContentKey(Array(repeating: 7, count: 16)))])
            let screen = try GuardTests.Screen()
            Latchkey.attach(session, to: screen.launched.pipeline)
            #expect(screen.outputGuard.set(.outputs([Output(name: "HDMI-A-1", kind: .digital)])))
            AlternativePicture.set(try picture(Self.wide), of: screen.outputGuard.reference)
            _ = screen.set(GST_STATE_PLAYING)
            #expect(session.beginUse(of: keyID, for: .video, by: 1) == nil)
            #expect(screen.shows(GuardTests.white, 3, from: 0), "\(screen.state)")
            func set(_ mode: String) -> Int {
                screen.outputGuard.reference.pointer.setProperty("hdmi-mode", .string(mode))
                return screen.frames.all.count
            }
            let alternative = set("alternative")
            #expect(screen.shows(Self.grey, 3, from: alternative), "\(screen.state)")
            #expect(screen.frames.all[alternative...].allSatisfy { $0.luma == Self.grey }, "\(screen.state)")
            let audioOnly = set("audio-only")
            #expect(screen.shows(GuardTests.black, 3, from: audioOnly), "\(screen.state)")
            #expect(screen.shows(GuardTests.white, 3, from: set("allow")), "\(screen.state)")
            // No mode: the one before stays.
            #expect(screen.shows(GuardTests.white, 3, from: set("nonsense")), "\(screen.state)")
            let disabled = set("disable")
            #expect(screen.shows(GuardTests.black, 3, from: disabled), "\(screen.state)")
            #expect(session.beginUse(of: keyID, for: .video, by: 2) != nil)
        }
    }
}
