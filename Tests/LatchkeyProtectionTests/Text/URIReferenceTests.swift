// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite struct URIReferenceTests {
    /// RFC 3986, 5.4.1 and 5.4.2, with the strict reading of `http:g`.
    @Test(arguments: [
        ("g:h", "g:h"), ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"), ("g/", "http://a/b/c/g/"),
        ("/g", "http://a/g"), ("//g", "http://g"), ("?y", "http://a/b/c/d;p?y"), ("g?y", "http://a/b/c/g?y"),
        ("#s", "http://a/b/c/d;p?q#s"), ("g#s", "http://a/b/c/g#s"), ("g?y#s", "http://a/b/c/g?y#s"),
        (";x", "http://a/b/c/;x"), ("g;x", "http://a/b/c/g;x"), ("g;x?y#s", "http://a/b/c/g;x?y#s"),
        ("", "http://a/b/c/d;p?q"), (".", "http://a/b/c/"), ("./", "http://a/b/c/"), ("..", "http://a/b/"),
        ("../", "http://a/b/"), ("../g", "http://a/b/g"), ("../..", "http://a/"), ("../../", "http://a/"),
        ("../../g", "http://a/g"), ("../../../g", "http://a/g"), ("../../../../g", "http://a/g"),
        ("/./g", "http://a/g"), ("/../g", "http://a/g"), ("g.", "http://a/b/c/g."), (".g", "http://a/b/c/.g"),
        ("g..", "http://a/b/c/g.."), ("..g", "http://a/b/c/..g"), ("./../g", "http://a/b/g"),
        ("./g/.", "http://a/b/c/g/"), ("g/./h", "http://a/b/c/g/h"), ("g/../h", "http://a/b/c/h"),
        ("g;x=1/./y", "http://a/b/c/g;x=1/y"), ("g;x=1/../y", "http://a/b/c/y"), ("g?y/./x", "http://a/b/c/g?y/./x"),
        ("g?y/../x", "http://a/b/c/g?y/../x"), ("g#s/./x", "http://a/b/c/g#s/./x"),
        ("g#s/../x", "http://a/b/c/g#s/../x"), ("http:g", "http:g"),
    ])
    func examplesOfTheStandard(reference: String, expected: String) {
        let base = URIReference("http://a/b/c/d;p?q")
        #expect(URIReference.resolve(reference, against: base) == expected)
    }

    @Test(arguments: [
        "skd://asset/../%2F?cid=ä=b c", "skd:{content}", "data:text/plain;base64,AA==", "urn:uuid:1/../2",
        "https://cdn/a/../b?x=%2F#f", "HTTP://cdn//a//b",
    ])
    func absoluteURIsStayAsTheyAre(uri: String) {
        #expect(URIReference.resolve(uri, against: URIReference("https://cdn.example/a/b")) == uri)
    }

    @Test(arguments: [
        ("a b.ts", "http://h/p/a%20b.ts"), ("ä.ts", "http://h/p/%C3%A4.ts"), ("a%20b.ts", "http://h/p/a%20b.ts"),
        ("a|b`\"<>\\^{}.ts", "http://h/p/a%7Cb%60%22%3C%3E%5C%5E%7B%7D.ts"), ("a?b=c|d", "http://h/p/a?b=c%7Cd"),
        ("http://h/ü", "http://h/%C3%BC"), ("a:b/c", "a:b/c"), ("./a:b", "http://h/p/a:b"), ("x//y", "http://h/p/x//y"),
        ("1a:b", "http://h/p/1a:b"), (":b", "http://h/p/:b"),
    ])
    func whatNoURLMayHoldIsEncoded(reference: String, expected: String) {
        #expect(URIReference.resolve(reference, against: URIReference("http://h/p/q")) == expected)
    }

    @Test func basesWithoutAPath() {
        #expect(URIReference.resolve("a.ts", against: URIReference("http://h")) == "http://h/a.ts")
        #expect(URIReference.resolve("?x", against: URIReference("http://h?y")) == "http://h?x")
        #expect(URIReference.resolve("a/../b", against: URIReference("file:x/y")) == "file:x/b")
        #expect(URIReference.resolve("../../b", against: URIReference("x")) == "b")
    }

    @Test(arguments: [
        ("https://User:secret@CDN.example/a?b", "https://cdn.example:443"), ("http://h:8080", "http://h:8080"),
        ("http://h:/x", "http://h:80"), ("http://[::1]/x", "http://[::1]:80"),
        ("https://[2001:DB8::1]:8443", "https://[2001:db8::1]:8443"),
    ])
    func origins(url: String, expected: String) {
        #expect(URIReference(url).origin == expected)
    }

    @Test(arguments: ["skd://a", "data:,x", "ftp://h/", "http:a", "http:///x", "//h/a", "a"])
    func whatHasNoOrigin(url: String) {
        #expect(URIReference(url).origin == nil)
        #expect(!URIReference(url).isHTTP)
    }

    @Test func messagesShowNoSecrets() {
        #expect(URIReference("https://u:p@h/a?token=1#x").printable == "https://h/a")
        #expect(URIReference("data:text/plain;base64,c2VjcmV0").printable == "data:…")
        #expect(URIReference("http://h/\u{1B}[0m\n").printable == "http://h/ [0m ")
        #expect(URIReference("http://h/" + String(repeating: "a", count: 999)).printable.count == 256)
    }

    @Test(arguments: [UInt64(1), 2])
    func takingApartLosesNothing(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        let pieces = ["a", "/", "..", ".", "?", "#", ":", "//", "@", "http", "skd", "%", "ü", "[", "]", " ", "{"]
        for _ in 0..<3000 {
            let text = (0..<Int.random(in: 0...12, using: &generator)).compactMap { _ in
                pieces.randomElement(using: &generator)
            }.joined()
            #expect(URIReference(text).text == text)
            let resolved = URIReference.resolve(text, against: URIReference("http://h/a/b"))
            #expect(URIReference(resolved).scheme != nil)
            #expect(URIReference.resolve(resolved, against: URIReference("https://other/")) == resolved)
        }
    }
}
