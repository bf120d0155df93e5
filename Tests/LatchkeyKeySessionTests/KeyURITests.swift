// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import Testing

@Suite("Key URIs and content identifiers")
struct KeyURITests {
    struct Case: Sendable, CustomTestStringConvertible {
        let uri: String
        let rule: ContentIdentifierRule
        let expected: String?

        init(_ uri: String, _ rule: ContentIdentifierRule, _ expected: String?) {
            self.uri = uri
            self.rule = rule
            self.expected = expected
        }

        var testDescription: String { "\(rule) \(uri)" }
    }

    static let cases = [
        Case("skd:movie-1", .afterScheme, "movie-1"),
        Case("skd://movie-1", .afterScheme, "movie-1"),
        Case("SKD:movie-1", .afterScheme, "movie-1"),
        Case("skd:///movie-1", .afterScheme, "/movie-1"),
        Case("skd://a/b==?c=d#e", .afterScheme, "a/b==?c=d#e"),
        Case("skd://föö/漢字%2F%zz=", .afterScheme, "föö/漢字%2F%zz="),
        Case("skd://fo\u{308}o", .afterScheme, "fo\u{308}o"),
        Case("skd:", .afterScheme, nil),
        Case("movie-1", .afterScheme, "movie-1"),
        Case("", .keyURI, nil),
        Case("skd://x?y", .keyURI, "skd://x?y"),
        Case("skd://x?y?z", .beforeQuery, "x"),
        Case("skd://x?y?z", .query, "y?z"),
        Case("skd://x?", .query, nil),
        Case("skd://x", .query, nil),
        Case("skd:https://ent.example/sees?cid=a%2Fb%3D", .queryParameter("cid"), "a/b="),
        Case("skd://ent.example?x=cid&cid=a+b==&cid=2", .queryParameter("cid"), "a+b=="),
        Case("skd://ent.example?cid", .queryParameter("cid"), nil),
        Case("skd://ent.example?cid=%C3%BC%E6%BC%A2", .queryParameter("cid"), "ü漢"),
        Case("skd://ent.example?cid=%C3", .queryParameter("cid"), nil),
        Case("skd://ent.example?cid=%4", .queryParameter("cid"), nil),
        Case("skd://ent.example?cid=%zz", .queryParameter("cid"), nil),
        Case("skd://ent.example?acid=1", .queryParameter("cid"), nil),
        Case("skd://me:pw@host.example:80/x?y", .host, "host.example"),
        Case("skd:///x", .host, nil),
        Case("skd://host/a/b?c/d", .lastPathComponent, "b"),
        Case("skd://host/a/", .lastPathComponent, nil),
        Case("skd://host", .lastPathComponent, "host"),
        Case("skd://fps;a;b;", .afterLast(";"), nil),
        Case("skd://fps;a;b", .afterLast(";"), "b"),
        Case("skd://fps", .afterLast(";"), nil),
        Case("skd://fps", .afterLast(""), nil),
        Case("skd://a::b", .afterLast("::"), "b"),
        Case("skd://NzA5/Q==", .base64Text, "NzA5/Q=="),
        Case("skd://NzA5/Q=", .base64Text, nil),
        Case("skd://movie-one", .base64Text, nil),
        Case("skd://Y29udGVudA==?x", .base64Decoded(.beforeQuery), "content"),
        Case("skd://!!!?x", .base64Decoded(.beforeQuery), nil),
        Case("skd://x", .base64Decoded(.query), nil),
        Case("skd://a/FairPlay/FairPlay", .replacing("FairPlay", parameter: "pid"), "skd://a/P-1/P-1"),
        Case("skd://a", .replacing("", parameter: "pid"), "skd://a"),
        Case("skd://a", .replacing("a", parameter: "none"), nil),
        Case("skd://a", .fixed("known"), "known"),
        Case("skd://a/b", .firstOf([.query, .base64Text, .lastPathComponent]), "b"),
        Case("skd://a/b?c", .firstOf([.query, .lastPathComponent]), "c"),
        Case("skd://a", .firstOf([]), nil),
    ]

    @Test(arguments: cases) func rules(_ expected: Case) {
        let found = expected.rule.contentIdentifier(in: KeyURI(expected.uri), parameters: ["pid": "P-1"])
        #expect(found == expected.expected.map { Array($0.utf8) })
    }

    @Test func anIdentifierNeedBeNoText() {
        let rule = ContentIdentifierRule.base64Decoded(.beforeQuery)
        #expect(rule.contentIdentifier(in: KeyURI("skd://_wA=")) == [0xFF, 0x00])
    }

    @Test(
        arguments: [
            ("skd://host/path?t=a/b==", "https://host/path?t=a/b=="),
            ("skd:host/path", "https://host/path"),
            ("skd:https://host/path?cid=1", "https://host/path?cid=1"),
            ("skd:http://host/path", "http://host/path"),
            ("skd://HTTPS://host/path", "HTTPS://host/path"),
            ("skd://host/a b/ü%20\"", "https://host/a%20b/%C3%BC%20%22"),
            ("skd://", nil), ("skd:", nil), ("skd:///path", nil), ("skd:https:///path", nil), ("skd://?x", nil),
        ] as [(String, String?)]) func theURLThatAKeyURIIs(uri: String, url: String?)
    {
        #expect(KeyURI(uri).url(scheme: "https") == url)
    }

    @Test func logsGetNoQueryAndNoControlCharacters() {
        #expect(KeyURI("skd://a/b?token=secret").printable == "skd://a/b")
        #expect(KeyURI("skd:http://a/b?token=secret").printable == "skd:http://a/b")
        #expect(!KeyURI("skd://me:secret@host/a").printable.contains("secret"))
        #expect(!KeyURI("skd:https://me:secret@host/a").printable.contains("secret"))
        #expect(KeyURI("skd://a\nb\u{7}").printable == "skd://a b ")
        #expect(KeyURI("skd://" + String(repeating: "x", count: 400)).printable.count == 256)
        #expect(KeyURI("DATA:text/plain;charset=UTF-16;base64,AAAA@BBBB").printable == "data:…")
    }
}
