// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite struct WRMHeaderTests {
    /// The values that the golden headers were made of.
    private func header(_ version: WRMHeader.Version) throws -> WRMHeader {
        let golden = try WRMHeader(reading: PlayReadyGolden.file("header-\(version.rawValue.prefix(3)).xml"))
        let checksum = golden.keys.first?.checksum ?? []
        let custom = XMLElement(
            "CUSTOMATTRIBUTES", declarations: [.init(uri: "")],
            nodes: [
                .element(XMLElement("ContentID", attributes: [.init("id", "7")], nodes: [.text("ä < ß")]))
            ])
        var details = WRMHeader.Details(
            licenseAcquisitionURL: "https://example.com/rightsmanager.asmx?a=1&b=2",
            licenseUserInterfaceURL: "https://example.com/page",
            domainServiceID: try PlayReadyGolden.guid("AA6CB5D1-8D3B-4E5F-9B0F-2B8C5E1A7D42"),
            customAttributes: custom)
        details.isOnDemand = version == .v4_1
        details.isLicenseRequested = version != .v4_3
        let algorithm: WRMHeader.Algorithm = version == .v4_3 ? .aesCBC : .aesCTR
        var keys = [WRMHeader.Key(try PlayReadyGolden.keyID(), algorithm: algorithm, checksum: checksum)]
        if version == .v4_2 { keys.append(.init(try PlayReadyGolden.keyID(\.otherKeyID))) }
        return try WRMHeader(version: version, keys: keys, details: details)
    }

    @Test(arguments: WRMHeader.Version.allCases) func writesTheGoldenBytes(version: WRMHeader.Version) throws {
        let name = version.rawValue.prefix(3)
        let made = try header(version)
        #expect(Array(made.text.utf8) == (try PlayReadyGolden.file("header-\(name).xml")))
        let object = PlayReadyObject(header: made, embeddedLicenseStore: [UInt8](repeating: 0, count: 64))
        #expect(try object.serialized() == (try PlayReadyGolden.file("object-\(name).bin")))
    }

    @Test(arguments: WRMHeader.Version.allCases) func readsTheGoldenBytes(version: WRMHeader.Version) throws {
        let object = try PlayReadyObject(reading: PlayReadyGolden.file("object-\(version.rawValue.prefix(3)).bin"))
        let read = try #require(try object.header())
        let made = try header(version)
        #expect(read.version == version && read.keys == made.keys && read.text == made.text)
        #expect(read.details.licenseAcquisitionURL == made.details.licenseAcquisitionURL)
        #expect(read.details.licenseUserInterfaceURL == made.details.licenseUserInterfaceURL)
        #expect(read.details.domainServiceID == made.details.domainServiceID)
        #expect(read.details.customAttributes?.canonicalText == made.details.customAttributes?.canonicalText)
        #expect(read.details.isOnDemand == made.details.isOnDemand)
        #expect(read.details.isLicenseRequested == made.details.isLicenseRequested)
        #expect(object.embeddedLicenseStore?.count == 64 && object.embeddedLicenses.isEmpty)
    }

    /// MSD:Specifications/mpeg-dash-playready.md, table 2.
    @Test func turnsKIDsRoundAsThePublishedExampleHasIt() throws {
        let keyID = try #require(KeyID(hex: "f81d4fae-7dec-11d0-a765-00a0c91e6bf6"))
        #expect(Data(keyID.guidOrderBytes).base64EncodedString() == "rk8d+Ox90BGnZQCgyR5r9g==")
        #expect(KeyID(guidOrder: keyID.guidOrderBytes) == keyID)
        #expect(KeyID(guidOrder: [1, 2, 3]) == nil)
    }

    private static let key = "VALUE=\"AAAAEAAQABAQABAAAAAAAQ==\""

    private static func text(_ version: String, _ data: String) -> [UInt8] {
        Array(
            "<WRMHEADER xmlns=\"\(WRMHeader.namespace)\" version=\"\(version)\"><DATA>\(data)</DATA></WRMHEADER>".utf8)
    }

    @Test(arguments: [
        "<PROTECTINFO><KID ALGID='AESCTR' \(key)/></PROTECTINFO>",
        "<KID>\n AAAAEAAQABAQABAAAAAAAQ== </KID><PROTECTINFO><ALGID>AESCTR</ALGID><KEYLEN>16</KEYLEN></PROTECTINFO>",
        "<Unknown/><LA_URL/><PROTECTINFO a='b'><KIDS><KID \(key) ALGID=\"AESCTR\"></KID><X/></KIDS></PROTECTINFO>",
        "<PROTECTINFO><KIDS><KID CHECKSUM='' ALGID='AESCTR' VALUE='AAAAEAAQABAQABAAAAAAAQ'/></KIDS></PROTECTINFO>",
    ])
    func readsLeniently(data: String) throws {
        let expected = try #require(KeyID(hex: "10000000-1000-1000-1000-100000000001"))
        for version in ["4.0.0.0", "4.1.0.0", "4.2.0.0", "4.3.0.0", "4.2.0.7"] {
            let header = try WRMHeader(reading: Self.text(version, data))
            #expect(header.keys == [WRMHeader.Key(expected)])
            #expect(header.details == WRMHeader.Details())
            // Padding, a byte order mark and an XML declaration change nothing.
            let declared = "\u{FEFF}<?xml version=\"1.0\" encoding=\"utf-16\"?>\(header.text)"
            let units = Array(declared.utf16) + [0, 0]
            let wide: [UInt8] = units.flatMap { [UInt8($0 & 0xFF), UInt8($0 >> 8)] }
            #expect(try WRMHeader(reading: wide).keys == header.keys)
            #expect(try WRMHeader(reading: Array(declared.utf8)).text == header.text)
        }
    }

    @Test(arguments: [
        "", "x", "<a/>", "<WRMHEADER version='4.0.0.0'/>", "<WRMHEADER version='4.4.0.0'><DATA/></WRMHEADER>",
        "<WRMHEADER version='5.0.0.0'><DATA/></WRMHEADER>", "<WRMHEADER version='x'><DATA/></WRMHEADER>",
        "<WRMHEADER version='4.0.0.0'><DATA><KID>AAAA</KID></DATA></WRMHEADER>",
        "<WRMHEADER version='4.0.0.0'><DATA><KID>*</KID></DATA></WRMHEADER>",
        "<WRMHEADER version='4.0.0.0'><DATA><DS_ID>AAAA</DS_ID></DATA></WRMHEADER>",
        "<WRMHEADER version='4.1.0.0'><DATA><PROTECTINFO><KID ALGID='DES' VALUE='AAAAEAAQABAQABAAAAAAAQ=='/>"
            + "</PROTECTINFO></DATA></WRMHEADER>",
        "<!DOCTYPE a><WRMHEADER version='4.0.0.0'><DATA/></WRMHEADER>",
    ])
    func refusesWhatIsNoHeader(text: String) {
        #expect(throws: FormatError.self) { try WRMHeader(reading: Array(text.utf8)) }
    }

    @Test func writesNothingThatTheVersionDoesNotAllow() throws {
        let keyID = try PlayReadyGolden.keyID()
        let key = WRMHeader.Key(keyID)
        func fails(_ version: WRMHeader.Version, _ keys: [WRMHeader.Key], _ details: WRMHeader.Details = .init()) {
            #expect(throws: FormatError.self) { try WRMHeader(version: version, keys: keys, details: details) }
        }
        fails(.v4_0, [])
        fails(.v4_0, [key, key])
        fails(.v4_0, [key], .init(isOnDemand: true))
        fails(.v4_1, [key, key])
        fails(.v4_2, [.init(keyID, algorithm: nil)])
        fails(.v4_2, [.init(keyID, algorithm: .aesCBC)])
        fails(.v4_2, [key], .init(isLicenseRequested: false))
        fails(.v4_3, [.init(keyID, algorithm: .aesCBC, checksum: [1, 2, 3, 4, 5, 6, 7, 8])])
        fails(.v4_3, [key, .init(keyID, algorithm: .aesCBC)])
        fails(.v4_3, [.init(keyID, checksum: [1])])
        fails(.v4_3, [key], .init(customAttributes: XMLElement("OTHER")))
        #expect(try WRMHeader(version: .v4_3, keys: [.init(keyID, algorithm: nil)]).text.contains("ALGID") == false)
    }

    @Test(arguments: [UInt64(1), 2]) func whatIsWrittenReadsTheSame(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        for _ in 0..<200 {
            let version = try #require(WRMHeader.Version.allCases.randomElement(using: &random))
            let algorithm: WRMHeader.Algorithm =
                version == .v4_3 && Bool.random(using: &random)
                ? .aesCBC : Bool.random(using: &random) ? .aesCTR : .cocktail
            let count = version == .v4_0 ? 1 : Int.random(in: 0...(version == .v4_1 ? 1 : 5), using: &random)
            let size = algorithm == .cocktail ? 7 : 8
            let keys = try (0..<count).map { _ in
                let checksum = algorithm == .aesCBC || Bool.random(using: &random) ? [] : random.bytes(size)
                return WRMHeader.Key(
                    try #require(KeyID(random.bytes(16))), algorithm: algorithm, checksum: checksum)
            }
            let details = WRMHeader.Details(
                licenseAcquisitionURL: Bool.random(using: &random) ? "https://a.example/?x=1&y=<\"'é>" : nil,
                domainServiceID: Bool.random(using: &random) ? GUID(uuidOrder: random.bytes(16)) : nil,
                isOnDemand: version > .v4_0 && Bool.random(using: &random),
                isLicenseRequested: version < .v4_3 || Bool.random(using: &random))
            let header = try WRMHeader(version: version, keys: keys, details: details)
            #expect(try WRMHeader(reading: header.utf16Bytes) == header)
            let object = PlayReadyObject(header: header)
            #expect(try PlayReadyObject(reading: object.serialized()) == object)
        }
    }
}
