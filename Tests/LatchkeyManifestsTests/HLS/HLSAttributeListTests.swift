// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import LatchkeyTestSupport
import Testing

@Suite struct HLSAttributeListTests {
    @Test func allTypesOfValues() throws {
        let list = try HLSAttributeList(
            parsing:
                "BANDWIDTH=123,CODECS=\"avc1.4d400d,mp4a.40.2\",RESOLUTION=320x180,IV=0xAB,TIME=-1.5,NAME=\"\",X-A=YES")
        #expect(list.attributes.map(\.name) == ["BANDWIDTH", "CODECS", "RESOLUTION", "IV", "TIME", "NAME", "X-A"])
        #expect(list["CODECS"] == "avc1.4d400d,mp4a.40.2")
        #expect(list["NAME"] == "")
        #expect(list["TIME"] == "-1.5")
        #expect(list["OTHER"] == nil)
        #expect(list.attributes.map(\.isQuoted) == [false, true, false, false, false, true, false])
        #expect(list.repeatedName == nil)
    }

    @Test(arguments: [
        ("A=1,B=2", "A=1,B=2"), (" A = 1 , B = \"x y\" ", "A=1,B=\"x y\""), ("A=1,,B=2,", "A=1,B=2"),
        (",A=1", "A=1"), ("", ""), (" \t", ""), ("A=", "A="), ("A==", "A=="), ("A=b=c", "A=b=c"),
        ("URI=\"a=b,c\",B=1", "URI=\"a=b,c\",B=1"), ("ä=ü", "ä=ü"),
    ])
    func lenientReading(text: String, expected: String) throws {
        #expect(try HLSAttributeList(parsing: text).text == expected)
    }

    @Test(arguments: [
        "A", "A,B=1", "=1", "A=\"x", "A=1,URI=\"x,B=1", "A=\"x\"y", "A=x\"y\"", "\"A\"=1", "A=\"x\" B=1",
    ])
    func malformedLists(text: String) {
        #expect(throws: FormatError.self) { try HLSAttributeList(parsing: text) }
    }

    @Test func repeatedNamesAreFound() throws {
        #expect(try HLSAttributeList(parsing: "A=1,B=2,A=3").repeatedName == "A")
    }

    @Test func manyAttributesAreRefused() throws {
        let most = String(repeating: "A=1,", count: HLSAttributeList.maximumCount)
        #expect(try HLSAttributeList(parsing: most).attributes.count == HLSAttributeList.maximumCount)
        #expect {
            try HLSAttributeList(parsing: most + "B=1")
        } throws: { ($0 as? FormatError)?.isSameKind(as: .tooLarge("")) == true }
    }

    @Test func whatNoQuotedStringCanHoldIsEncoded() throws {
        let list = HLSAttributeList([HLSAttribute(name: "URI", value: "a\"b\r\n#EXT", isQuoted: true)])
        #expect(list.text == "URI=\"a%22b%0D%0A#EXT\"")
    }

    @Test(arguments: [UInt64(1), 2, 3])
    func whatIsWrittenIsReadAgain(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let names = ["URI", "IV", "X-COM", "KEYFORMAT", "A"]
        let values = ["", "a", "0x12", "skd://x?y=z", "a,b", "a=b", "ü", "1/2/5", "x y"]
        for _ in 0..<500 {
            let attributes = (0..<Int.random(in: 0...8, using: &generator)).map { _ in
                let value = values.randomElement(using: &generator) ?? ""
                return HLSAttribute(
                    name: names.randomElement(using: &generator) ?? "A", value: value,
                    isQuoted: value.contains(",") || Bool.random(using: &generator))
            }
            let list = HLSAttributeList(attributes)
            #expect(try HLSAttributeList(parsing: list.text) == list)
        }
    }
}
