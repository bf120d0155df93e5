// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

@testable import LatchkeyHTTP

/// What prints, and bytes from outside.
struct TextTests {
    @Test(arguments: [
        ("http://me:pw@host:81/a/@b?token=x#y", "http://host:81/a/@b"),
        ("https://[::1]:8443/a?b", "https://[::1]:8443/a"),
        ("skd://user:pw@key-1?x", "skd://key-1"),
        ("license.example/a?token=x", "license.example/a"),
        ("http://me:p/w@host/a", "http://…"),
        ("me:pw@host", "…"),
        ("http:me:pw@host/a", "…"),
        ("http:/me:pw@host/a", "…"),
        ("http:///me:pw@host/a", "http://…"),
        ("HTTPS:///me:pw@host/a?b", "HTTPS://…"),
        ("http:///host/a?token=x", "http:///host/a"),
        ("http://me:p?w@host/a", "http://…"),
        ("http://me:p#w@host/a", "http://…"),
        ("skd:https://me:pw@host/a", "…"),
        ("/home/me@host/clip.mp4", "/home/me@host/clip.mp4"),
        ("data:text/plain;base64,c2VjcmV0", "data:…"),
        ("http://host/a\u{1B}[2J\nforged", "http://host/a [2J forged"),
        ("file:///home/me@host/clip@2x.mp4?a#b", "file:///home/me@host/clip@2x.mp4"),
        ("file://me:pw@host/clip.mp4", "file://host/clip.mp4"),
        ("", ""),
    ])
    func urlsPrintWithoutSecrets(_ url: String, _ printed: String) {
        #expect(URIReference.printable(url) == printed)
        #expect(HTTPRequest(url: url).printableURL == printed)
    }

    @Test func longURLsAreCut() {
        #expect(URIReference.printable("http://host/" + String(repeating: "a", count: 1_000)).count == 256)
    }

    @Test func errorsPrintKindURLAndDetail() {
        let error = HTTPError.refused("http://me:pw@host/a?b", "nobody there")
        #expect(error.description == "no connection: http://host/a: nobody there")
        #expect(error.shortDescription == "no connection")
        #expect(HTTPError.cancelled("").description == "cancelled")
        #expect(!HTTPError.cancelled("").isSameKind(as: error))
        #expect(error.isConnectionFailure && !HTTPError.tls("").isConnectionFailure)
        #expect(error.isTemporary && HTTPError.tls("").isTemporary)
        for lasting in [HTTPError.untrusted(""), .redirect(""), .tooManyRedirects(""), .invalidURL(""), .other("")] {
            #expect(!lasting.isTemporary && !lasting.isConnectionFailure)
        }
    }

    @Test func requestsAndResponsesPrintNoSecrets() {
        let token = HTTPHeader(name: "Authorization", value: "s3cret")
        let request = HTTPRequest(url: "http://s3cret@host/?s3cret", headers: [token], body: Array("s3cret".utf8))
        let response = HTTPResponse(
            status: 200, headers: [token], body: Array("s3cret".utf8), url: "http://host/?s3cret")
        for value in [token, request, response] as [any Sendable] {
            var dumped = ""
            dump(value, to: &dumped)
            for text in ["\(value)", String(reflecting: value), dumped] {
                #expect(!text.contains("s3cret") && !text.contains("115"), "\(text)")
            }
        }
        #expect("\(token)" == "Authorization: <redacted>")
        #expect("\(request)" == "GET http://host/")
        #expect("\(response)" == "200 from http://host/, 6 bytes")
    }

    @Test func linesOfAHead() {
        var head = ResponseHead()
        for line in ["HTTP/1.1 200 OK", "A:  b \r\n", " c\r\n", "no colon", "D:", "\r\n", "Late: e\r\n"] {
            let isTaken = head.receive(Array(line.utf8))
            #expect(isTaken)
        }
        #expect(head.headers == [HTTPHeader(name: "A", value: "b c"), HTTPHeader(name: "D", value: "")])
    }

    @Test func aHeadIsBounded() {
        var head = ResponseHead()
        let fits = head.receive([UInt8](repeating: 0x61, count: ResponseHead.maximumSize))
        let isOneTooMany = !head.receive([0x61])
        #expect(fits && isOneTooMany)
    }

    @Test func randomBytesNeverTrap() {
        var generator = Generator(state: 1)
        let alphabet = Array(":@/?#[]% \r\n\t\0aA1.é".utf8) + Array("HTTP/1.1".utf8)
        for _ in 0..<2_000 {
            let bytes = (0..<Int.random(in: 0...40, using: &generator)).map { _ in
                alphabet.randomElement(using: &generator) ?? 0
            }
            var head = ResponseHead()
            let fits = head.receive(bytes)
            #expect(fits && head.headers.count <= 1)
            let text = String(decoding: bytes, as: UTF8.self)
            #expect(!URIReference.printable("http://me:s3cret@" + text).contains("s3cret"))
            if let url = try? HTTPURL("http://host/" + text), let target = try? url.resolving(text) {
                #expect(target.scheme == "http" || target.scheme == "https")
            }
        }
    }

    /// SplitMix64: the same numbers in each run.
    private struct Generator: RandomNumberGenerator {
        var state: UInt64

        mutating func next() -> UInt64 {
            state &+= 0x9E37_79B9_7F4A_7C15
            var value = state
            value = (value ^ (value >> 30)) &* 0xBF58_476D_1CE4_E5B9
            value = (value ^ (value >> 27)) &* 0x94D0_49BB_1331_11EB
            return value ^ (value >> 31)
        }
    }
}
