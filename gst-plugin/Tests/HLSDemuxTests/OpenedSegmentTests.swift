// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyManifests
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

/// Segments with METHOD=AES-128 whose end is no PKCS#7 padding.
@Suite struct OpenedSegmentTests {
    private static let vector: [UInt8] = [UInt8](repeating: 9, count: 16)

    /// Starts of media, each a number of blocks.
    private static let media: [String: [UInt8]] = [
        "ts": [UInt8]([[0x47, 0x1F, 0xFF, 0x10], [UInt8](repeating: 0xFF, count: 184)].joined()).repeated(4),
        "mp4": [0, 0, 0, 16] + Array("styp".utf8) + [UInt8](repeating: 1, count: 8)
            + [0, 0, 0, 1] + Array("mdat".utf8) + [0, 0, 0, 0, 0, 0, 0, 32] + [UInt8](repeating: 0, count: 16),
        "id3": Array("ID3".utf8) + [UInt8](repeating: 0x40, count: 29),
        "adts": [0xFF, 0xF1, 0x50, 0x80, 0x01, 0x1F, 0xFC, 0x21].repeated(4),
        "vtt": Array("WEBVTT\n\n".utf8) + Array("00:00.0\n".utf8),
    ]

    /// `named`: the size of a byte range, behind which there may be `behind`, which is encrypted otherwise.
    private func open(
        _ clear: [UInt8], key: [UInt8]? = nil, named: Int? = nil, behind: [UInt8] = [], pieces: Int = .max
    ) throws -> [UInt8] {
        let right = try #require(ContentKey([UInt8](repeating: 3, count: 16)))
        let used = try #require(key.map { ContentKey($0) } ?? right)
        let bytes = try AES.cbc(.encrypt, key: right, iv: Self.vector, clear) + behind
        let vector = try #require(InitializationVector(Self.vector))
        let range = named.flatMap { HLSByteRange(offset: 0, length: UInt64($0)) }
        var segment = OpenedSegment(try SegmentCipher(key: used, initializationVector: vector), range: range)
        var result: [UInt8] = []
        var rest = bytes[...]
        while !rest.isEmpty {
            result += try segment.decrypt(Array(rest.prefix(pieces)))
            rest = rest.dropFirst(pieces)
        }
        return try result + segment.finish()
    }

    @Test(arguments: media.keys.sorted(), [1, 15, 16, 100, Int.max])
    func whatBeginsAsMediaIsKept(_ name: String, pieces: Int) throws {
        let clear = try #require(Self.media[name])
        #expect(clear.count.isMultiple(of: 16))
        #expect(try open(clear, pieces: pieces) == clear)
        // PKCS#7 comes first.
        #expect(try open(clear + [UInt8](repeating: 16, count: 16), pieces: pieces) == clear)
    }

    private struct Answer: HTTPTransport {
        let body: [UInt8]

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            HTTPResponse(status: 200, body: body, url: request.url)
        }
    }

    /// Some packagers leave init segments so. There is no key here.
    @Test func anInitSegmentMayBeClearAllTheSame() async throws {
        let clear: [UInt8] = [0, 0, 0, 8] + Array("ftyp".utf8) + [0, 0, 0, 8] + Array("moov".utf8)
        let presentation = HLSPresentation(
            origin: HLSOrigin(transport: Answer(body: clear)),
            keys: HLSKeys(session: KeySession(), timeout: .seconds(1)), keyFormats: [.identity])
        let decryption = HLSSegmentDecryption(
            key: HLSKey(method: .aes128, uri: "https://a.test/k"),
            initializationVector: InitializationVector(high: 0, low: 0))
        let section = HLSInitSegment(url: "https://a.test/i.mp4", decryption: decryption, protection: .unchanged)
        let answer = try await presentation.initSegment(section, LoopbackRequest(path: "i"))
        #expect(answer.status == 200 && answer.body == clear)
    }

    /// Gives no range that ends behind the file.
    private struct StrictServer: HTTPTransport {
        let file: [UInt8]

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            let field = request.headers.first { $0.name == "Range" }?.value ?? ""
            guard case .closed(let range)? = LoopbackRange(field), range.upperBound < file.count else {
                return HTTPResponse(status: 416, url: request.url)
            }
            let place = "bytes \(range.lowerBound)-\(range.upperBound)/\(file.count)"
            return HTTPResponse(
                status: 206, headers: [HTTPHeader(name: "Content-Range", value: place)], body: Array(file[range]),
                url: request.url)
        }
    }

    /// A block of padding may be behind a byte range, and is asked for with it. A live segment is not left out for that.
    @Test(arguments: [true, false]) func aServerMayRefuseARangeThatEndsBehindTheFile(isLive: Bool) async throws {
        let clear = try #require(Self.media["ts"])
        let key = try #require(ContentKey([UInt8](repeating: 3, count: 16)))
        let segment = try AES.cbc(.encrypt, key: key, iv: Self.vector, clear + Self.padding)
        let presentation = HLSPresentation(
            origin: HLSOrigin(transport: StrictServer(file: segment + segment)),
            keys: HLSKeys(session: KeySession(), timeout: .seconds(30)), keyFormats: [.identity])
        try presentation.open { _ in }
        defer { presentation.close() }
        presentation.state.withLock { $0.absent = AbsentSegments() }
        let text = """
            #EXTM3U
            #EXT-X-TARGETDURATION:2
            #EXT-X-KEY:METHOD=AES-128,URI="data:;base64,AwMDAwMDAwMDAwMDAwMDAw==",IV=0x\(Hex.encode(Self.vector))
            #EXTINF:2,
            #EXT-X-BYTERANGE:\(segment.count)@0
            a.ts
            #EXTINF:2,
            #EXT-X-BYTERANGE:\(segment.count)
            a.ts
            \(isLive ? "" : "#EXT-X-ENDLIST")
            """
        let rewriting = try presentation.rewrite(Array(text.utf8), from: "https://a.test/v.m3u8")
        #expect(rewriting.resources.count == 2)
        for resource in rewriting.resources {
            let name = try #require(presentation.table.knownName(of: resource))
            let answer = await presentation.answer(LoopbackRequest(path: name))
            #expect(answer.status == 200 && answer.body == clear)
        }
    }

    /// The same of an init segment that is a part of a file.
    @Test func aServerMayRefuseMoreThanAnInitSegment() async throws {
        let clear: [UInt8] = [0, 0, 0, 8] + Array("ftyp".utf8) + [0, 0, 0, 8] + Array("moov".utf8)
        let key = try #require(ContentKey([UInt8](repeating: 3, count: 16)))
        let file = try AES.cbc(.encrypt, key: key, iv: Self.vector, clear + Self.padding)
        let presentation = HLSPresentation(
            origin: HLSOrigin(transport: StrictServer(file: file)),
            keys: HLSKeys(session: KeySession(), timeout: .seconds(30)), keyFormats: [.identity])
        let decryption = HLSSegmentDecryption(
            key: HLSKey(method: .aes128, uri: "data:;base64,AwMDAwMDAwMDAwMDAwMDAw=="),
            initializationVector: InitializationVector(Self.vector))
        let section = HLSInitSegment(
            url: "https://a.test/a.mp4", byteRange: HLSByteRange(offset: 0, length: UInt64(file.count)),
            decryption: decryption, protection: .unchanged)
        let answer = try await presentation.initSegment(section, LoopbackRequest(path: "i"))
        #expect(answer.status == 200 && answer.body == clear)
    }

    private static let padding = [UInt8](repeating: 16, count: 16)

    /// A byte range of whole blocks, whose padding is behind it. Its last bytes look like padding.
    @Test(arguments: media.keys.sorted(), [1, 15, 16, 17, 100, Int.max])
    func aByteRangeOfTheClearSizeKeepsItsLastBytes(_ name: String, pieces: Int) throws {
        for end: [UInt8] in [[1], [2, 2], [UInt8](repeating: 16, count: 16)] {
            let clear = try #require(Self.media[name]) + [UInt8](repeating: 0x21, count: 16 - end.count % 16) + end
            #expect(clear.count.isMultiple(of: 16))
            #expect(try open(clear + Self.padding, named: clear.count, pieces: pieces) == clear)
        }
    }

    /// A byte range of what is encrypted, with the next segment behind it, or the end of the file.
    @Test(arguments: [1, 15, 16, 17, 100, Int.max], [0, 1, 15, 16])
    func aByteRangeOfTheEncryptedSizeHasItsPadding(pieces: Int, behind: Int) throws {
        let next = Array([UInt8](repeating: 0x5A, count: 16).prefix(behind))
        let media = try #require(Self.media["ts"])
        for count in 1...16 {
            let clear = media + [UInt8](repeating: 0xFF, count: 16 - count)
            let padded = clear + [UInt8](repeating: UInt8(count), count: count)
            #expect(try open(padded, named: padded.count, behind: next, pieces: pieces) == clear)
        }
        // Without any.
        #expect(try open(media, named: media.count, behind: next, pieces: pieces) == media)
    }

    /// What is behind a byte range does not make up for padding that is wrong, nor for a part of it that is missing.
    @Test func whatIsBehindAByteRangeIsNoPartOfIt() {
        let clear = [UInt8](repeating: 0, count: 64)
        let next = [UInt8](repeating: 0x5A, count: 16)
        #expect(throws: DecryptionError.paddingInvalid(size: 64)) { try open(clear, named: 64, behind: next) }
        #expect(throws: DecryptionError.paddingInvalid(size: 60)) { try open(clear, named: 60, behind: next) }
        #expect(throws: DecryptionError.paddingInvalid(size: 64)) { try open(clear, named: 80) }
    }

    @Test(arguments: media.keys.sorted())
    func aWrongKeyIsTold(_ name: String) throws {
        let clear = try #require(Self.media[name])
        for byte in UInt8(10)..<20 {
            #expect(throws: DecryptionError.paddingInvalid(size: clear.count)) {
                try open(clear, key: [UInt8](repeating: byte, count: 16))
            }
        }
    }

    @Test func whatIsNoMediaNeedsPadding() {
        #expect(throws: DecryptionError.self) { try open([UInt8](repeating: 0, count: 64)) }
        // One sync word alone is no proof.
        #expect(throws: DecryptionError.self) { try open([0xFF, 0xF1] + [UInt8](repeating: 0, count: 62)) }
        #expect(throws: DecryptionError.self) { try open([0x47] + [UInt8](repeating: 0, count: 63)) }
    }

    /// A parser would take zeros for a box without end.
    @Test(arguments: 1...15) func zerosBehindTheLastBoxAreLeftOut(count: Int) throws {
        let whole = try #require(Self.media["mp4"])
        let size = UInt8(32 - count)
        let box = [0, 0, 0, size] + Array("free".utf8) + [UInt8](repeating: 0, count: Int(size) - 8)
        for pieces in [1, 16, 100] {
            #expect(try open(whole + box + [UInt8](repeating: 0, count: count), pieces: pieces) == whole + box)
        }
        // Behind a box that is not all there, they are its own.
        let cut = [0, 0, 0, 33] + box.dropFirst(4)
        #expect(
            try open(whole + cut + [UInt8](repeating: 0, count: count)) == whole + cut
                + [UInt8](repeating: 0, count: count))
    }

    @Test func zerosBehindTextAreLeftOut() throws {
        for text in ["WEBVTT\n", "WEBVTT\n\n00:00.000 --> 00:01.000\na\n"] {
            let clear = Array(text.utf8)
            #expect(try open(clear + [UInt8](repeating: 0, count: 16 - clear.count % 16)) == clear)
        }
    }

    @Test func boxSizesThatAreNoneDoNotTrap() throws {
        let start = [0, 0, 0, 16] + Array("styp".utf8) + [UInt8](repeating: 1, count: 8)
        for header: [UInt8] in [
            [0, 0, 0, 1, 1, 1, 1, 1] + [UInt8](repeating: 0xFF, count: 8),
            [0, 0, 0, 1, 1, 1, 1, 1] + [0, 0, 0, 0, 0, 0, 0, 3],
            [0, 0, 0, 0] + Array("mdat".utf8) + [UInt8](repeating: 0, count: 8),
            [0, 0, 0, 7] + Array("mdat".utf8) + [UInt8](repeating: 0, count: 8), [UInt8](repeating: 0, count: 16),
        ] {
            let clear = start + header + [UInt8](repeating: 0, count: 16)
            #expect(try open(clear) == clear)
        }
    }
}

extension [UInt8] {
    fileprivate func repeated(_ count: Int) -> [UInt8] { (0..<count).flatMap { _ in self } }
}
