// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyTestSupport
import Testing

@Suite struct XMLElementTests {
    private func read(_ text: String, _ limits: XMLLimits = .exchange) throws(FormatError) -> XMLElement {
        try XMLElement(reading: Array(text.utf8), limits: limits)
    }

    @Test func readsATree() throws {
        let root = try read(
            "<?xml version='1.0'?><!-- c --><a:r xmlns:a='u' xmlns='d' b='1 &amp; 2' a:c='&#60;'> x<?p i?>y<s/>"
                + "<![CDATA[<z>]]>&lt;&#x41;<!-- d --></a:r>")
        #expect(root.localName == "r" && root.prefix == "a" && root.namespace == "u")
        #expect(root[attribute: "b"] == "1 & 2" && root[attribute: "c"] == nil)
        #expect(root.attributes.last == XMLElement.Attribute("c", "<", prefix: "a", namespace: "u"))
        #expect(root.declarations == [.init(prefix: "a", uri: "u"), .init(uri: "d")])
        #expect(root.text == " xy<z><A" && root.trimmedText == "xy<z><A")
        #expect(root.children == [XMLElement("s", namespace: "d")])
        #expect(root.first("s") != nil && root.descendant("s", "t") == nil)
    }

    /// The examples of the recommendation's sections 3.3 and 3.4, as far as they need no document type.
    @Test func writesCanonicalXML() throws {
        let elements = try read(
            """
            <doc><e1   />
            <e3   name = "elem3"   id="elem3"   />
            <e5 a:attr="out" b:attr="sorted" attr2="all" attr="I'm" xmlns:b="http://www.ietf.org" \
            xmlns:a="http://www.w3.org" xmlns="http://example.org"/>
            <e6 xmlns="" xmlns:a="http://www.w3.org"><e7 xmlns="http://www.ietf.org"><e8 xmlns="" \
            xmlns:a="http://www.w3.org"/></e7></e6>
            </doc>
            """)
        let expected = """
            <doc><e1></e1>
            <e3 id="elem3" name="elem3"></e3>
            <e5 xmlns="http://example.org" xmlns:a="http://www.w3.org" xmlns:b="http://www.ietf.org" attr="I'm" \
            attr2="all" b:attr="sorted" a:attr="out"></e5>
            <e6 xmlns:a="http://www.w3.org"><e7 xmlns="http://www.ietf.org"><e8 xmlns=""></e8></e7></e6>
            </doc>
            """
        #expect(elements.canonicalText == expected)
        let characters = try read(
            "<doc>First&#x0d;&#10;<value>&#x32;</value><compute expr='value>\"0\" &amp;&amp; value&lt;\"10\" ?\"valid\":"
                + "\"error\"'>v&lt;\"1\"</compute><t a='&#x9;&#xa;&#xD;'/></doc>")
        #expect(
            characters.canonicalText
                == "<doc>First&#xD;\n<value>2</value><compute expr=\"value>&quot;0&quot; &amp;&amp; value&lt;&quot;10&quot; "
                + "?&quot;valid&quot;:&quot;error&quot;\">v&lt;\"1\"</compute><t a=\"&#x9;&#xA;&#xD;\"></t></doc>")
    }

    @Test(arguments: [
        "", " ", "x", "<a>", "<a></b>", "<a b='1' b='2'/>", "<a>&x;</a>", "<a b='&x;'/>", "<a/><b/>", "<a>\u{1}</a>",
        "<x:a/>", "<a b=1/>", "<a><![CDATA[</a>", "<a>&#0;</a>", "<!-- <a/>", "<a b='<'/>",
    ])
    func refusesWhatIsNotWellFormed(text: String) {
        let error = #expect(throws: FormatError.self) { try read(text) }
        #expect(error?.isSameKind(as: .malformed("")) == true)
    }

    @Test(arguments: [
        "<!DOCTYPE a><a/>", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
        "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>",
        "<!DOCTYPE a [<!ENTITY % x SYSTEM 'http://localhost/'>%x;]><a/>",
    ])
    func refusesDocumentTypes(text: String) {
        let error = #expect(throws: FormatError.self) { try read(text) }
        #expect(error?.isSameKind(as: .unsupported("")) == true)
    }

    @Test func refusesInvalidText() {
        for bytes in [
            Array("<a>".utf8) + [0xFF] + Array("</a>".utf8), [0x3C, 0, 0x61, 0, 0, 0xD8], [0xFF, 0xFE, 0x3C, 0],
        ] {
            #expect(throws: FormatError.self) { try XMLElement(reading: bytes, limits: .exchange) }
        }
    }

    @Test func refusesWhatGoesBeyondTheLimits() {
        func isTooLarge(_ text: String, _ limits: XMLLimits = .exchange) {
            let error = #expect(throws: FormatError.self) { try read(text, limits) }
            #expect(error?.isSameKind(as: .tooLarge("")) == true)
        }
        func nested(_ depth: Int) -> String {
            String(repeating: "<a>", count: depth) + String(repeating: "</a>", count: depth)
        }
        isTooLarge(nested(33))
        isTooLarge(nested(100_000))
        isTooLarge("<a>" + String(repeating: "<b/>", count: 4096) + "</a>")
        isTooLarge("<a " + (0..<65).map { "b\($0)='x>' " }.joined() + "/>")
        isTooLarge("<a " + (0..<200_000).map { "xmlns:b\($0)='x' " }.joined() + "/>")
        isTooLarge("<a>" + String(repeating: " ", count: 65536) + "</a>", .header)
        #expect(throws: Never.self) { try read(nested(32)) }
        #expect(throws: Never.self) { try read("<a " + (0..<64).map { "b\($0)='=' " }.joined() + "/>") }
    }

    /// Each is short and keeps within the number of elements.
    @Test func refusesWhatIsManyThings() throws {
        let limits = XMLLimits(size: 1 << 20, elements: 100, markup: 1000)
        let encoded = Array("<a>".utf8) + [0xFC] + Array(repeating: UInt8(ascii: "<"), count: 1001)
        for bytes in ["<?a?>", "<!---->", "<![CDATA[]]>"].map({
            Array(("<a>" + String(repeating: $0, count: 1000) + "</a>").utf8)
        }) + [
            Array(
                ("<a>" + String(repeating: "<b c='' d='' e='' f='' g='' h='' i='' j='' k='' l=''/>", count: 99)
                    + "</a>").utf8), encoded,
        ] {
            let error = #expect(throws: FormatError.self) { try XMLElement(reading: bytes, limits: limits) }
            #expect(error?.isSameKind(as: .tooLarge("")) == true)
        }
        let text = "<a>\(String(repeating: "<!---->", count: 999))</a>"
        #expect(try XMLElement(reading: Array(text.utf8), limits: limits).nodes.isEmpty)
    }

    @Test func refusesAHundredMebibytesAtOnce() {
        let bytes = [UInt8](repeating: UInt8(ascii: "<"), count: 100 << 20)
        let error = #expect(throws: FormatError.self) { try XMLElement(reading: bytes, limits: .exchange) }
        #expect(error?.isSameKind(as: .tooLarge("")) == true)
    }

    @Test func findsTheBytesOfAnElement() throws {
        let document = "<x><!-- <s/> --><![CDATA[<s/>]]><p:s a='>' b=\"</s>\"><t><u/></t> e</p:s ><v/></x>"
        let bytes = try XMLElement.bytes(ofElement: "s", in: Array(document.utf8))
        #expect(String(decoding: bytes, as: UTF8.self) == "<p:s a='>' b=\"</s>\"><t><u/></t> e</p:s >")
        #expect(
            String(decoding: try XMLElement.bytes(ofElement: "v", in: Array(document.utf8)), as: UTF8.self) == "<v/>")
        for text in ["<x/>", "<s/><s/>", "<s><s/></s>", "<s><s></s></s>", "<s", "", "<"] {
            #expect(throws: FormatError.self) { try XMLElement.bytes(ofElement: "s", in: Array(text.utf8)) }
        }
    }

    @Test(arguments: [UInt64(1), 2, 3]) func damagedDocumentsThrowOrAreReadAndNeverTrap(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        let tests = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        let sources = try ["challenge.xml", "header-4.3.xml"].map { name in
            Array(try Data(contentsOf: tests.appending(path: "LatchkeyKeySystemsTests/Golden/PlayReady/\(name)")))
        }
        var readCount = 0
        for _ in 0..<500 {
            let bytes = random.mutate(sources.randomElement(using: &random) ?? [])
            _ = try? XMLElement.bytes(ofElement: "LA", in: bytes)
            guard let element = try? XMLElement(reading: bytes, limits: .exchange) else { continue }
            readCount += 1
            let again = try XMLElement(reading: Array(element.canonicalText.utf8), limits: .exchange)
            #expect(again.canonicalText == element.canonicalText)
        }
        #expect(readCount > 20)
    }
}
