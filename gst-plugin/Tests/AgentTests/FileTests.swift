// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import Foundation
import LatchkeyProtection
import LatchkeyTestSupport
import Synchronization
import Testing

@testable import Latchkey

/// MP4 and PIFF files: the `moov` box wherever it is.
@Suite struct FileTests {
    private let url = "https://media.example/a.mp4"

    private func box(_ type: String, _ body: [UInt8] = []) -> [UInt8] {
        let size = UInt32(8 + body.count)
        return (0..<4).map { UInt8(truncatingIfNeeded: size >> (24 - 8 * $0)) } + Array(type.utf8) + body
    }

    private var movie: [UInt8] {
        let handler = box("hdlr", Array(repeating: 0, count: 8) + Array("soun".utf8) + Array(repeating: 0, count: 13))
        // "deu", as five bits a letter.
        let header = box("mdhd", Array(repeating: 0, count: 20) + [0x10, 0xB5, 0, 0])
        return box("moov", box("trak", track + box("mdia", header + handler)))
    }

    /// With the track_ID 7.
    private var track: [UInt8] { box("tkhd", Array(repeating: 0, count: 15) + [7] + Array(repeating: 0, count: 68)) }

    private func inspect(_ bytes: [UInt8]) async throws(AgentError) -> InspectedContent {
        let source = ContentSource(transport: StubTransport([url: bytes]))
        return try await ContentInspector(source: source).inspect(url, .mp4)
    }

    @Test(arguments: [0, 8, 65_520, 65_528, 65_529, 65_535, 65_536, 200_000])
    func findsTheMovieBehindMedia(_ size: Int) async throws {
        let media = box("mdat", Array(repeating: 7, count: size))
        for bytes in [box("ftyp") + media + movie, box("ftyp") + movie + media, movie] {
            let content = try await inspect(bytes)
            #expect(content.audioTrackNames == ["deu"])
            #expect(content.audioTrackIDs == [7])
        }
    }

    @Test(arguments: [("deu", false), ("fin", true)])
    func anAudioTrackThatIsNotThereIsInTheLog(name: String, isTold: Bool) async throws {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).mp4")
        try Data(box("ftyp") + movie).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        let lines = Mutex<[AgentLogMessage]>([])
        // Other tests log meanwhile.
        let watch = AgentLog.watch { line in
            if line.text.contains("audio track “\(name)”") { lines.withLock { $0.append(line) } }
        }
        // Without the settings of the environment, which tests of elements change meanwhile.
        var configuration = Agent.Configuration()
        configuration.configurationFile = "/dev/null"
        let agent = Agent(contentURL: file.absoluteString, type: .mp4, configuration: configuration)
        agent.selectedAudioTrack = name
        _ = try await agent.core.inspect(agent.core.session())
        withExtendedLifetime(watch) {}
        #expect(lines.withLock { $0.map(\.level) } == (isTold ? [.warning] : []))
    }

    @Test func aLargeMovieIsFetchedWhole() async throws {
        let large = box("moov", Array(movie.dropFirst(8)) + box("free", Array(repeating: 0, count: 300_000)))
        #expect(try await inspect(box("ftyp") + large).audioTrackNames == ["deu"])
    }

    @Test func whatHasNoMovieIsInvalid() async throws {
        let start = box("ftyp")
        var endless = [UInt8](repeating: 0, count: 108)
        endless.replaceSubrange(4..<8, with: Array("mdat".utf8))
        var short = box("free")
        short[3] = 4
        var overflowing = [UInt8](repeating: 0xFF, count: 16)
        overflowing.replaceSubrange(0..<8, with: [0, 0, 0, 1] + Array("free".utf8))
        let files: [[UInt8]] = [
            [], [0], start, start + box("mdat"), endless, start + Array(movie.prefix(40)), box("RIFF"), start + short,
            box("moov"), overflowing,
        ]
        for bytes in files {
            do throws(AgentError) {
                _ = try await inspect(bytes)
                Issue.record("\(bytes.prefix(16)) is taken for a file")
            } catch {
                #expect(error.code == .invalidContent, "\(error)")
            }
        }
    }

    @Test func anyBytesComeToAnEnd() async {
        var generator = SeededGenerator(seed: 7)
        for _ in 0..<300 {
            var bytes = box("ftyp") + box("free", Array(repeating: 0, count: 40)) + movie
            for _ in 0..<3 {
                bytes[Int.random(in: 0..<bytes.count, using: &generator)] = .random(in: 0 ... .max, using: &generator)
            }
            let transport = StubTransport([url: bytes])
            _ = try? await ContentInspector(source: ContentSource(transport: transport)).inspect(url, .mp4)
            #expect(transport.requests.count < 10)
        }
    }

    @Test(arguments: [
        ("skd://key", "invalid URL: skd://key: only http and https are supported"),
        ("file://movie.mp4", "invalid URL: file://movie.mp4: files are at file:///PATH, with three slashes"),
    ])
    func whatIsWrongWithAURLIsSaidOnce(_ url: String, _ text: String) async {
        let source = ContentSource(transport: CurlTransport.shared)
        do throws(AgentError) {
            _ = try await source.whole(url, limit: 8)
            Issue.record("\(url) was read")
        } catch {
            #expect(error.description == text)
        }
    }

    @Test func readsLocalFiles() async throws {
        let transport = StubTransport([:])
        let inspector = ContentInspector(source: ContentSource(transport: transport))
        for (path, code) in [
            ("file:///nonexistent/a.mp4", AgentError.Code.unreachable), ("file:///", .invalidURL),
            ("file://elsewhere/a.mp4", .serverError),
        ] {
            do throws(AgentError) {
                _ = try await inspector.inspect(path, .mp4)
                Issue.record("\(path) is a file")
            } catch {
                #expect(error.code == code, "\(path): \(error)")
            }
        }
    }
}
