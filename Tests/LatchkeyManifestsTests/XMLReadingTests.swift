// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import Testing

/// Which documents are read, and what the others are refused as.
@Suite struct XMLReadingTests {
    enum Encoding: CaseIterable {
        case utf8, markedUTF8, utf16LE, markedUTF16LE, utf16BE, markedUTF16BE

        func bytes(_ text: String) -> [UInt8] {
            func units(_ text: String) -> [(UInt8, UInt8)] {
                text.utf16.map { (UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)) }
            }
            return switch self {
            case .utf8: Array(text.utf8)
            case .markedUTF8: [0xEF, 0xBB, 0xBF] + text.utf8
            case .utf16LE: units(text).flatMap { [$0, $1] }
            case .markedUTF16LE: [0xFF, 0xFE] + units(text).flatMap { [$0, $1] }
            case .utf16BE: units(text).flatMap { [$1, $0] }
            case .markedUTF16BE: [0xFE, 0xFF] + units(text).flatMap { [$1, $0] }
            }
        }
    }

    enum Refusal {
        case malformed, tooLarge, unsupported

        var error: FormatError {
            switch self {
            case .malformed: .malformed("")
            case .tooLarge: .tooLarge("")
            case .unsupported: .unsupported("")
            }
        }
    }

    private func read(_ bytes: [UInt8], _ limits: XMLLimits = .exchange) throws(FormatError) -> XMLElement {
        try XMLElement(reading: bytes, limits: limits)
    }

    private func read(_ text: String, _ limits: XMLLimits = .exchange) throws(FormatError) -> XMLElement {
        try read(Array(text.utf8), limits)
    }

    private func isRefused(_ bytes: [UInt8], _ limits: XMLLimits = .exchange, as refusal: Refusal) {
        let error = #expect(throws: FormatError.self, "\(bytes.prefix(80))") { try read(bytes, limits) }
        #expect(error?.isSameKind(as: refusal.error) == true, "\(bytes.prefix(80)): \(String(describing: error))")
    }

    private func isRefused(_ text: String, _ limits: XMLLimits = .exchange, as refusal: Refusal) {
        isRefused(Array(text.utf8), limits, as: refusal)
    }

    // MARK: Characters

    @Test(arguments: Encoding.allCases, ["", "UTF-8", "utf-16", "UTF-16BE", "ISO-8859-1", "x-unknown"])
    func readsEveryEncoding(encoding: Encoding, declared: String) throws {
        let text = "<a xmlns='ü'>ä€😀<é c='\u{10FFFF}'/>\r\n\u{FEFF}</a>"
        let declaration = declared.isEmpty ? "" : "<?xml version=\"1.0\" encoding=\"\(declared)\"?>"
        let root = try read(encoding.bytes(declaration + text))
        let child = XMLElement("é", namespace: "ü", attributes: [.init("c", "\u{10FFFF}")])
        let expected = XMLElement(
            "a", namespace: "ü", declarations: [.init(uri: "ü")],
            nodes: [.text("ä€😀"), .element(child), .text("\n\u{FEFF}")])
        #expect(root == expected)
    }

    @Test(arguments: Encoding.allCases) func refusesTruncatedDocuments(encoding: Encoding) throws {
        let bytes = encoding.bytes("<?xml version='1.0'?><a b='€'><!-- c --><d>ä😀&amp;<![CDATA[e]]></d></a>")
        #expect(throws: Never.self) { try read(bytes) }
        for count in 0..<bytes.count { isRefused(Array(bytes[..<count]), as: .malformed) }
    }

    /// The parser gives text in pieces, and has buffers of its own.
    @Test(arguments: Encoding.allCases) func keepsCharactersWhereverTheyStand(encoding: Encoding) throws {
        for offset in 0..<10 {
            let text = String(repeating: "x", count: offset) + String(repeating: "é€😀\n", count: 250)
            let value = text.replacing("\n", with: " ")
            let root = try read(encoding.bytes("<a b='\(text)'>\(text)<![CDATA[\(text)]]></a>"))
            #expect(root[attribute: "b"]?.utf8.elementsEqual(value.utf8) == true)
            #expect(root.nodes.count == 1 && root.text.utf8.elementsEqual((text + text).utf8))
        }
    }

    @Test(arguments: [
        [0x3C, 0], [0x3C, 0, 0x61], [0x3C, 0, 0x61, 0x62], [0, 0x3C, 0x61, 0], [0xFF, 0xFE], [0xFE, 0xFF, 0],
        [0, 0x3C, 0x62, 0x61, 0, 0x2F, 0, 0x3E],
        [0x3C, 0, 0, 0, 0x61, 0, 0, 0], [0, 0, 0, 0x3C, 0, 0, 0, 0x61], [0x4C, 0x6F, 0xA7, 0x94],
        // Half a surrogate, and an overlong and a too large character.
        [0x3C, 0, 0x61, 0, 0x3E, 0, 0, 0xD8], [0x3C, 0x61, 0x3E, 0xC0, 0xBC],
        [0x3C, 0x61, 0x3E, 0xF4, 0x90, 0x80, 0x80], [0x3C, 0x61, 0x3E, 0xED, 0xA0, 0x80],
    ])
    func refusesOtherEncodings(bytes: [UInt8]) { isRefused(bytes, as: .malformed) }

    @Test(arguments: Encoding.allCases) func refusesZeros(encoding: Encoding) throws {
        for text in [
            "\0<a/>", "<\0a/>", "<a\0/>", "<a>\0</a>", "<a b='\0'/>", "<!--\0--><a/>", "<a/>\0<b/>", "<a/>\0 ",
        ] {
            isRefused(encoding.bytes(text), as: .malformed)
        }
        // But as padding.
        #expect(try read(encoding.bytes("<a/>\n\0\0\0")) == XMLElement("a"))
    }

    /// As libxml2 does, with which GStreamer reads manifests.
    @Test(arguments: Encoding.allCases) func aZeroEndsAManifest(encoding: Encoding) throws {
        for text in ["<a/>\0<b/>", "<a/>\0 ", "<a/>\n\0\0<a></b>", "<a/>\0<!DOCTYPE a>"] {
            #expect(try read(encoding.bytes(text), .manifest) == XMLElement("a"))
        }
        for text in ["\0<a/>", "<a\0/>", "<a>\0</a>", "<a b='\0'/>", "<!--\0--><a/>", "<a/><!--\0-->"] {
            isRefused(encoding.bytes(text), .manifest, as: .malformed)
        }
        #expect(try read(Array("<a/>\0".utf8) + [0xFF, 0xC0, 0x80], .manifest) == XMLElement("a"))
    }

    // MARK: Limits

    @Test(arguments: [
        ("<a><b><c/></b></a>", "<a><b><c><d/></c></b></a>", XMLLimits(size: 999, depth: 3)),
        ("<a><b/><b/></a>", "<a><b/><b/><b/></a>", XMLLimits(size: 999, elements: 3)),
        ("<a b='' xmlns:c='d'/>", "<a b='' c='' xmlns:c='d'/>", XMLLimits(size: 999, attributes: 2)),
        ("<?a?><b c=''><!----></b>", "<?a?><b c=''><![CDATA[]]><!----></b>", XMLLimits(size: 999, markup: 4)),
        (
            "<a xmlns='\(String(repeating: "n", count: 256))'/>", "<a xmlns='\(String(repeating: "n", count: 257))'/>",
            .exchange
        ),
        (
            "<a xmlns:b='\(String(repeating: "ä", count: 128))'/>",
            "<a xmlns:b='\(String(repeating: "ä", count: 128))n'/>", .exchange
        ),
    ])
    func stopsAtItsLimits(allowed: String, refused: String, limits: XMLLimits) {
        for encoding in Encoding.allCases {
            #expect(throws: Never.self) { try read(encoding.bytes(allowed), limits) }
            isRefused(encoding.bytes(refused), limits, as: .tooLarge)
        }
    }

    /// Those of UTF-8, without a byte order mark.
    @Test(arguments: [Encoding.utf8, .markedUTF8, .utf16LE, .utf16BE]) func countsBytes(encoding: Encoding) {
        #expect(throws: Never.self) { try read(encoding.bytes("<a>éé4567</a>"), XMLLimits(size: 15)) }
        isRefused(encoding.bytes("<a>éé45678</a>"), XMLLimits(size: 15), as: .tooLarge)
    }

    /// Whatever else is wrong with it: what is too large for this reader is too large for GStreamer's, too.
    @Test(arguments: ["<a>&x;", "<x:a>", "<a b=1>", "<a>\u{1}", "<!DOCTYPE a><a>"])
    func refusesTooMuchFirst(start: String) {
        let limits = XMLLimits(size: 9999, markup: 50)
        isRefused(start + String(repeating: "<b/>", count: 60) + "</a>", limits, as: .tooLarge)
    }

    /// Each element and attribute has the name, which must not take memory for each.
    @Test func readsLongNamespacesOfManyElements() throws {
        let namespace = String(repeating: "n", count: 256)
        let text = "<p:a xmlns:p='\(namespace)'>" + String(repeating: "<p:b p:c=''/>", count: 4095) + "</p:a>"
        let root = try read(text)
        #expect(root.children.count == 4095 && root.children.allSatisfy { $0.namespace == namespace })
    }

    // MARK: Entities and document types

    @Test(arguments: Encoding.allCases) func refusesDocumentTypes(encoding: Encoding) {
        for text in [
            "<!DOCTYPE a><a/>", "<!DOCTYPE a", "<!DOCTYPE a [",
            "<?xml version='1.0'?><!-- c --><?p?>\n<!DOCTYPE a><a/>",
            "<!DOCTYPE a SYSTEM 'http://127.0.0.1:9/a.dtd'><a/>", "<!DOCTYPE a PUBLIC 'p' 'file:///etc/passwd'><a/>",
            "<!DOCTYPE a [<!ENTITY b SYSTEM 'file:///etc/passwd'>]><a>&b;</a>",
            "<!DOCTYPE a [<!ENTITY % b SYSTEM 'file:///etc/passwd'>%b;]><a/>",
            "<!DOCTYPE a [<!ENTITY b 'x'><!ENTITY c '&b;&b;'><!ENTITY d '&c;&c;'>]><a e='&d;'>&d;</a>",
            "<!DOCTYPE a [<!ATTLIST a b CDATA 'c'>]><a/>", "<!DOCTYPE a [<!NOTATION b SYSTEM 'c'>]><a/>",
            "<!DOCTYPE a [<!ENTITY b 'c'>]></a>", "<!DOCTYPE a []><a>\0</a>",
        ] {
            isRefused(encoding.bytes(text), as: .unsupported)
        }
    }

    /// As libxml2 does, with which GStreamer reads manifests. What is declared elsewhere is not loaded.
    @Test(arguments: Encoding.allCases) func stepsOverDocumentTypesOfManifests(encoding: Encoding) throws {
        for front in [
            "<!DOCTYPE a>", "<?xml version='1.0'?><!-- c --><?p?>\n<!DOCTYPE a >\n",
            "<!DOCTYPE a SYSTEM 'http://127.0.0.1:9/a.dtd'>", "<!DOCTYPE a PUBLIC 'p' 'file:///etc/passwd'>",
        ] {
            #expect(try read(encoding.bytes(front + "<a b='1'>&lt;</a>"), .manifest).text == "<")
        }
        let root = try read(encoding.bytes("<!DOCTYPE a SYSTEM 'a.dtd'><a b='&c;1'>2&d;</a>"), .manifest)
        #expect(root.text == "2" && root[attribute: "b"] == "1")
        isRefused(encoding.bytes("<!DOCTYPE a><a>&b;</a>"), .manifest, as: .malformed)
        isRefused(encoding.bytes("<!DOCTYPE a"), .manifest, as: .malformed)
    }

    @Test(arguments: Encoding.allCases) func refusesDeclarationsInManifests(encoding: Encoding) {
        for text in [
            "<!DOCTYPE a []><a/>", "<!DOCTYPE a [<!ENTITY b 'c'>]><a>&b;</a>",
            "<!DOCTYPE a SYSTEM 'a.dtd' [<!ENTITY % b SYSTEM 'file:///etc/passwd'>%b;]><a/>",
            "<!DOCTYPE a [<!ENTITY b 'x'><!ENTITY c '&b;&b;'><!ENTITY d '&c;&c;'>]><x:a e='&d;'>&d;</x:a>",
            "<!DOCTYPE a [<!ATTLIST a b CDATA 'c'>]><a/>",
        ] {
            isRefused(encoding.bytes(text), .manifest, as: .unsupported)
        }
    }

    @Test(arguments: [
        "<a><!DOCTYPE a></a>", "<a/><!DOCTYPE a>", "<!doctype a><a/>", "<!ENTITY a 'b'><a/>", "<a><!ENTITY b 'c'></a>",
        "<a>&b;</a>", "<a b='&c;'/>", "<a>%b;&c;</a>", "<a>&nbsp;</a>", "<a>&#0;</a>", "<a>&#xD800;</a>",
        "<a>&#xFFFE;</a>", "<a>&#x110000;</a>", "<a>&#99999999999999999999;</a>", "<a>&amp</a>", "<a>&</a>",
        "<a>&#;</a>",
    ])
    func refusesEntities(text: String) { isRefused(text, as: .malformed) }

    @Test func readsReferences() throws {
        let root = try read(
            "<a b='&lt;&gt;&amp;&quot;&apos;&#9;&#x10FFFF;'>&lt;&gt;&amp;&quot;&apos;&#13;&#xE9;%b;</a>")
        #expect(root[attribute: "b"] == "<>&\"'\t\u{10FFFF}")
        #expect(root.text.utf8.elementsEqual("<>&\"'\r\u{E9}%b;".utf8))
    }

    // MARK: Processing instructions, CDATA and comments

    @Test func leavesOutWhatIsNotText() throws {
        let root = try read(
            "<?p <a> ?><!-- <b> --><a> <?xml-x y=?>1<!---->2<![CDATA[]]><![CDATA[<!-- 3 ]] &amp; ]]></a><?q?>\n")
        #expect(root == XMLElement("a", nodes: [.text(" 12<!-- 3 ]] &amp; ")]))
    }

    @Test(arguments: [
        "<a><?xml version='1.0'?></a>", " <?xml version='1.0'?><a/>", "<?xml?><a/>", "<?xml encoding='UTF-8'?><a/>",
        "<a><?p</a>", "<a><? p?></a>", "<?p:q?><a/>", "<a>]]></a>", "<![CDATA[x]]><a/>", "<a/><![CDATA[x]]>",
        "<a><![cdata[x]]></a>", "<a><!-- -- --></a>", "<a><!-- ---></a>", "x<a/>", "<a/>x", "<a/>&amp;", "<a/></a>",
        "</a>", "<a></b>", "<A></a>", "<a <b/></a>", "<1/>", "< a/>", "<a b/>", "<a b='c'd='e'/>", "<a\u{FFFF}/>",
    ])
    func refusesMarkupAtTheWrongPlace(text: String) { isRefused(text, as: .malformed) }

    // MARK: Attributes and namespaces

    @Test func readsPrefixes() throws {
        let root = try read(
            "<a xmlns:p='u' xmlns:q='u' xml:lang='x' p:b='1' b='2'>"
                + "<p:a xmlns:p='v' xmlns='w'><q:c p:d=''/><e xmlns=''/></p:a><p:a/></a>")
        let xml = "http://www.w3.org/XML/1998/namespace"
        let inner = XMLElement(
            "a", prefix: "p", namespace: "v", declarations: [.init(prefix: "p", uri: "v"), .init(uri: "w")],
            nodes: [
                .element(
                    XMLElement(
                        "c", prefix: "q", namespace: "u", attributes: [.init("d", "", prefix: "p", namespace: "v")])),
                .element(XMLElement("e", declarations: [.init(uri: "")])),
            ])
        let expected = XMLElement(
            "a", declarations: [.init(prefix: "p", uri: "u"), .init(prefix: "q", uri: "u")],
            attributes: [
                .init("lang", "x", prefix: "xml", namespace: xml), .init("b", "1", prefix: "p", namespace: "u"),
                .init("b", "2"),
            ],
            nodes: [.element(inner), .element(XMLElement("a", prefix: "p", namespace: "u"))])
        #expect(root == expected)
        // Canonical XML has no declaration of `xml`.
        #expect(try read("<a xmlns:xml='\(xml)' xml:b=''/>").declarations.isEmpty)
    }

    /// One string is another one for Unicode, and not for XML.
    @Test func tellsNamespacesApartByTheirBytes() throws {
        let (composed, decomposed) = ("u\u{E9}", "ue\u{301}")
        let root = try read("<a xmlns:p='\(composed)' xmlns:q='\(decomposed)' p:b='' q:b=''/>")
        #expect(root.attributes.map { Array($0.namespace.utf8) } == [Array(composed.utf8), Array(decomposed.utf8)])
    }

    @Test(arguments: [
        "<a b='1' b='1'/>", "<a xmlns='u' xmlns='u'/>", "<a xmlns:p='u' xmlns:p='v'/>",
        "<a xmlns:p='u' xmlns:q='u' p:b='1' q:b='2'/>", "<p:a/>", "<a p:b=''/>", "<a><b xmlns:p='u'/><p:c/></a>",
        "<a xmlns:p='u'><b xmlns:p=''/></a>", "<a xmlns:xml='u'/>", "<a xmlns:xmlns='u'/>", "<xmlns:a/>",
        "<a xmlns:p='http://www.w3.org/XML/1998/namespace'/>", "<a xmlns='http://www.w3.org/2000/xmlns/'/>",
        "<a xmlns:b='u'><b:c:d/></a>", "<:a/>", "<a:/>", "<a xmlns:='u'/>", "<a xmlns:b='u'><b:1/></a>",
    ])
    func refusesNamesThatAreNone(text: String) { isRefused(text, as: .malformed) }

    // MARK: Not quite well-formed

    /// As libxml2 reads it, which GStreamer's demuxers use: a prefix without a declaration is a part of the name.
    @Test func lenientlyPrefixesStandForThemselves() throws {
        let text =
            "<MPD xmlns='u' xmlns:p='v' a='1' xml:lang='x'><p:b p:c='2' q:d='3'/><q:e xmlns:q='w'><q:f/></q:e>"
            + "<q:g xmlns=''><h/></q:g>é</MPD>"
        isRefused(text, as: .malformed)
        let root = try read(text, .manifest)
        let xml = "http://www.w3.org/XML/1998/namespace"
        let expected = XMLElement(
            "MPD", namespace: "u", declarations: [.init(uri: "u"), .init(prefix: "p", uri: "v")],
            attributes: [.init("a", "1"), .init("lang", "x", prefix: "xml", namespace: xml)],
            nodes: [
                .element(
                    XMLElement(
                        "b", prefix: "p", namespace: "v",
                        attributes: [
                            .init("c", "2", prefix: "p", namespace: "v"), .init("d", "3", prefix: "q", namespace: "q"),
                        ])),
                .element(
                    XMLElement(
                        "e", prefix: "q", namespace: "w", declarations: [.init(prefix: "q", uri: "w")],
                        nodes: [.element(XMLElement("f", prefix: "q", namespace: "w"))])),
                .element(
                    XMLElement(
                        "g", prefix: "q", namespace: "q", declarations: [.init(uri: "")],
                        nodes: [.element(XMLElement("h"))])),
                .text("é"),
            ])
        #expect(root == expected)
        // What is written again is read again.
        #expect(try read(root.canonicalText, .manifest).canonicalText == root.canonicalText)
    }

    @Test(arguments: [
        "<MPD><p:a></MPD>", "<MPD><p:a/>", "<MPD p:a='' p:a=''/>", "<MPD><p:a>&b;</p:a></MPD>", "<p:MPD><",
    ])
    func lenientlyAllElseHolds(text: String) { isRefused(text, .manifest, as: .malformed) }

    @Test(arguments: ["iso-8859-1", "ISO-8859-1", "windows-1252", "UTF-8", ""])
    func lenientlyLatinLettersAreRead(declared: String) throws {
        let declaration = declared.isEmpty ? "" : "<?xml version='1.0' encoding='\(declared)'?>"
        let bytes = Array("\(declaration)<MPD a='".utf8) + [0xE9] + Array("'/>".utf8)
        isRefused(bytes, as: .malformed)
        guard declared.lowercased() != "utf-8", !declared.isEmpty else {
            return isRefused(bytes, .manifest, as: .malformed)
        }
        #expect(try read(bytes, .manifest)[attribute: "a"] == "é")
    }

    // MARK: Texts of errors

    @Test(arguments: [
        ("<a>\n<b></a>", "line 2, column 6: mismatched tag"),
        ("<a>\n é&x;</a>", "line 2, column 3: undefined entity"),
        ("<a b='' b=''/>", "line 1, column 9: duplicate attribute"),
        ("<a><p:b/></a>", "line 1, column 4: unbound prefix"),
        ("<a>\n", "line 2, column 1: the document ends inside an element"),
        (" ", "line 1, column 2: no element"),
        ("", "line 1, column 1: no element"),
        ("<a b=1/>", "line 1, column 6: invalid token"),
    ])
    func saysWhatIsWrongAndWhere(text: String, reason: String) {
        let error = #expect(throws: FormatError.self) { try read(text) }
        #expect(error?.reason == "XML: not well-formed, \(reason)")
    }
}
