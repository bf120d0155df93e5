// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import LatchkeyHTTP
import LatchkeyKeySession
import Synchronization
import Testing

@testable import LatchkeyElements

/// Segments whose length the origin does not tell, as they come through the relay.
@Suite(.timeLimit(.minutes(8)))
struct RelayedLengthTests {
    typealias World = RelayTests.World
    static let media = RelayTests.media

    private static func response(_ body: [UInt8] = media, tag: String? = "1", range: String? = nil) -> HTTPResponse {
        let fields = [
            tag.map { HTTPHeader(name: "ETag", value: $0) },
            range.map { HTTPHeader(name: "Content-Range", value: "bytes \($0)") },
        ]
        return HTTPResponse(
            status: range == nil ? 200 : 206, headers: fields.compactMap(\.self), body: body, url: RelayTests.url)
    }

    /// The rest of it as a part of known and of unknown length, and all of it from a server without ranges.
    @Test(arguments: ["700-4999/5000", "700-4999/*", nil]) func aBrokenOneGoesOnWhereItWas(_ range: String?)
        async throws
    {
        let rest = range == nil ? Self.response() : Self.response(Array(Self.media[700...]), range: range)
        let world = World(.broken(Self.response(), 700), .failure(.refused(RelayTests.url)), .response(rest))
        let fetched = try await world.fetch()
        #expect(fetched.bytes == Self.media && fetched.isWhole && fetched.announced == nil)
        #expect(world.script.ranges == [nil, "bytes=700-", "bytes=700-"])
        #expect(world.notices == ["no network", "done 200 5000"])
    }

    /// All of it was there but the last chunk.
    @Test(arguments: [("bytes */5000", true), ("bytes */5001", false), ("", false)])
    func nothingIsLeftOfIt(_ range: String, _ isWhole: Bool) async throws {
        let end = HTTPResponse(
            status: 416, headers: [HTTPHeader(name: "Content-Range", value: range)], url: RelayTests.url)
        let world = World(.broken(Self.response(), 5000), .response(end), limit: .seconds(20))
        let fetched = try await world.fetch()
        #expect(fetched.bytes == Self.media && fetched.isWhole == isWhole)
    }

    /// Nothing tells whether a later answer is of the same resource but what is in it: all of it comes again.
    @Test(arguments: [nil, "W/\"1\""]) func aBrokenOneWithoutATagIsCompared(_ tag: String?) async throws {
        let broken = Self.response(tag: tag)
        let world = World(
            .broken(broken, 700), .broken(broken, 500), .broken(broken, 701), .failure(.refused(RelayTests.url)),
            .response(broken))
        let fetched = try await world.fetch()
        #expect(fetched.bytes == Self.media && fetched.isWhole)
        #expect(world.script.ranges == [nil, nil, nil, nil, nil])
        #expect(world.notices == ["no network", "no network", "done 200 5000"])
    }

    @Test(arguments: [
        response(media.map { $0 &+ 1 }, tag: nil), response(Array(media[..<600]), tag: nil), response([], tag: nil),
        response([7] + media[1...], tag: nil), response(Array(media[700...]), tag: nil, range: "700-4999/5000"),
    ])
    func anotherOneWithoutATagIsNotTaken(_ other: HTTPResponse) async throws {
        let world = World(.broken(Self.response(tag: nil), 700), .response(other))
        let fetched = try await world.fetch()
        #expect(fetched.bytes == Array(Self.media[..<700]) && !fetched.isWhole)
    }

    /// One with a length too, where its tag tells nothing of its bytes.
    @Test func aBrokenOneWithAWeakTagIsCompared() async throws {
        let weak = RelayTests.response(Self.media, tag: "W/\"1\"")
        let world = World(.broken(weak, 700), .response(weak))
        let fetched = try await world.fetch(range: "bytes=600-")
        #expect(fetched.status == 206 && fetched.bytes == Array(Self.media[600...]) && fetched.isWhole)
        #expect(world.script.ranges == ["bytes=600-", "bytes=600-"])
    }

    /// Where nothing new ever comes, that is an outage.
    @Test(arguments: ["1", nil]) func oneThatBreaksEachTimeEndsAtLast(_ tag: String?) async throws {
        let world = World(.broken(Self.response(tag: tag), 1000), limit: .seconds(20))
        let fetched = try await world.fetch()
        #expect(!fetched.isWhole && world.time.elapsed <= .seconds(40))
    }

    @Test(arguments: [
        response(Array(media[700...]), tag: "2", range: "700-4999/5000"), response(tag: "2"), response(tag: nil),
        response(Array(media[701...]), range: "701-4999/5000"), response(Array(media[..<600])), response([]),
    ])
    func theRestOfAnotherOneIsNotTaken(_ other: HTTPResponse) async throws {
        let world = World(.broken(Self.response(), 700), .response(other))
        let fetched = try await world.fetch()
        #expect(fetched.bytes == Array(Self.media[..<700]) && !fetched.isWhole)
        #expect(world.notices == ["no network", "changed"])
    }

    @Test func anOutageThatLastsTooLongEndsIt() async throws {
        let world = World(
            .broken(Self.response(), 700), .failure(.refused(RelayTests.url)), limit: .seconds(20))
        let fetched = try await world.fetch()
        #expect(fetched.bytes == Array(Self.media[..<700]) && !fetched.isWhole)
        #expect(world.time.elapsed == .seconds(20))
        #expect(world.notices == ["no network", "lost"])
    }

    /// The field tells what the missing length does not.
    @Test func aPartOfKnownPlaceHasALength() async throws {
        let part = Self.response(Array(Self.media[1000..<3000]), range: "1000-2999/5000")
        let fetched = try await World(.response(part)).fetch(range: "bytes=1000-2999")
        #expect(fetched.status == 206 && fetched.announced == 2000 && fetched.bytes == Array(Self.media[1000..<3000]))
        let open = Self.response(Array(Self.media[1000...]), range: "1000-/*")
        let rest = try await World(.response(open)).fetch(range: "bytes=1000-")
        #expect(rest.status == 206 && rest.announced == nil && rest.bytes == Array(Self.media[1000...]))
    }
}

extension HLSDemuxTests {
    /// The same with the stock demuxers.
    @Suite(.timeLimit(.minutes(3))) struct ChunkedTests {}
}

extension HLSDemuxTests.ChunkedTests {
    private static let names = ["hls-ts-sampleaes-identity-aac", "dash-cenc-static-live", "smooth-piff-ctr"]

    /// The media of a presentation, without lengths. The first answer for one segment, whose path is `broken`, breaks off in
    /// the middle, and later ones too where `isLost`.
    private struct Presentation {
        let media: CorpusCase
        let manifest: String
        let broken: String
        let origin: Origin

        private final class Log: Sendable { let asked = Mutex<[String]>([]) }
        private let log: Log

        init(_ name: String, hasTag: Bool, isLost: Bool = false) throws {
            let (media, log) = (try CorpusCase(name), Log())
            let (manifest, broken) =
                switch name.prefix(3) {
                case "hls": ("master.m3u8", "v_2.ts")
                case "das": ("stream.mpd", "v_2.m4s")
                default: ("Manifest", "QualityLevels(200000)/Fragments(video=10000000)")
                }
            (self.media, self.log, self.manifest, self.broken) = (media, log, manifest, broken)
            origin = try Origin(media.folder) { request in
                let path = request.path.removingPercentEncoding ?? ""
                guard !path.hasSuffix(".m3u8"), path != manifest, let bytes = try? media.bytes(path) else { return nil }
                let isFirst = log.asked.withLock { asked in
                    defer { asked.append(path) }
                    return !asked.contains(path)
                }
                var headers = hasTag ? [HTTPHeader(name: "ETag", value: "\"\(path)\"")] : []
                var left = bytes[...]
                if hasTag, case .from(let first) = request.range {
                    left = left.dropFirst(first)
                    let range = "bytes \(first)-\(bytes.count - 1)/\(bytes.count)"
                    headers.append(HTTPHeader(name: "Content-Range", value: range))
                }
                let status = left.count < bytes.count ? 206 : 200
                let breaks = path == broken && (isFirst || isLost)
                if breaks { left = left.prefix(isFirst ? left.count / 2 : 0) }
                return LoopbackResponse(status: status, headers: headers, stream: Self.stream(left, breaks: breaks))
            }
        }

        private static func stream(_ bytes: ArraySlice<UInt8>, breaks: Bool) -> LoopbackStream {
            let left = Mutex(bytes)
            return LoopbackStream(length: nil) { () async throws(LoopbackStream.Broken) in
                let piece = left.withLock { left in
                    defer { left = left.dropFirst(1009) }
                    return Array(left.prefix(1009))
                }
                if piece.isEmpty, breaks { throw LoopbackStream.Broken() }
                return piece.isEmpty ? nil : piece
            }
        }

        func playback(_ limit: UInt32) throws -> HLSPlayback {
            let playback = try HLSPlayback(
                origin, manifest, session: KeySession(loaders: [StaticKeyLoader(media.keys)]))
            playback.onDemuxer { $0.setProperty("outage-limit", .uint(limit)) }
            return playback
        }

        var brokenCount: Int { log.asked.withLock { $0.count { $0 == broken } } }
    }

    /// The stock demuxers read what comes in chunks; a connection that breaks within one is mended, with and without a
    /// field that tells the resource from another.
    @Test(arguments: names, [true, false]) func playback(_ name: String, _ hasTag: Bool) throws {
        let presentation = try Presentation(name, hasTag: hasTag)
        let playback = try presentation.playback(60_000)
        let end = try playback.play()
        #expect(end.type == "eos", "\(end)")
        #expect(try playback.frames == presentation.media.frames("video"))
        #expect(presentation.brokenCount == 2)
    }

    /// GStreamer 1.22's demuxers make nothing good of a segment that breaks off: that is an error of this element.
    @Test(arguments: names, [true, false]) func aSegmentThatIsLostEndsByName(_ name: String, _ hasTag: Bool) throws {
        let presentation = try Presentation(name, hasTag: hasTag, isLost: true)
        let playback = try presentation.playback(500)
        let error = try playback.play()
        #expect(error.type == "error" && error.isResourceError(GST_RESOURCE_ERROR_OPEN_READ), "\(error)")
        let text = error.text.removingPercentEncoding ?? ""
        #expect(text.contains(presentation.origin.url(presentation.broken)), "\(error)")
        playback.waitUntilFetched()
    }
}
