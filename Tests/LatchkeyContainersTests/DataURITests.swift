// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyTestSupport
import Testing

@Suite struct DataURITests {
    @Test(arguments: [
        ("data:,abc", "abc"), ("data:text/plain,a%20b%2C", "a b,"), ("DATA:text/plain;charset=x,%41", "A"),
        ("data:;base64,Zm9v", "foo"), ("data:application/octet-stream;base64,Zm8%3D", "fo"),
        ("data:;BASE64,Zm8=", "fo"), ("data:x;base64,Z%0Am9v", "foo"), ("data:x/y;base64,Zm8", "fo"), ("data:,", ""),
    ])
    func reads(uri: String, text: String) {
        #expect(DataURI.isOne(uri))
        #expect(DataURI(uri)?.bytes == Array(text.utf8))
    }

    @Test(arguments: [
        "", "data", "data:", "data:abc", "http://a/data:,x", "data:;base64,Z", "data:;base64,Zm9v!", "data:,%4",
        "data:,%zz", "\u{7}data:,x",
    ])
    func refuses(uri: String) {
        #expect(DataURI(uri) == nil)
    }

    @Test func readsNoMoreThanItSays() {
        let size = DataURI.maximumSize - 6
        #expect(DataURI("data:," + String(repeating: "a", count: size))?.bytes.count == size)
        #expect(DataURI("data:," + String(repeating: "a", count: size + 1)) == nil)
    }

    @Test func whateverStandsThereDoesNotTrap() {
        var generator = SeededGenerator(seed: 12)
        let pieces = ["data:", ",", ";base64", "%", "%4", "%41", "=", "Zg", "\u{0}", "é", " "]
        for _ in 0..<2000 {
            let uri = (0..<Int.random(in: 0...8, using: &generator))
                .compactMap { _ in pieces.randomElement(using: &generator) }.joined()
            let bytes = DataURI("data:" + uri)?.bytes
            #expect((bytes?.count ?? 0) <= uri.utf8.count)
        }
    }

    @Test func printsWithoutItsBytes() throws {
        let uri = try #require(DataURI("data:,secret"))
        #expect("\(uri) \(String(reflecting: uri))".contains("secret") == false)
    }
}
