// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyContainers
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite struct PlayReadyObjectTests {
    private let bytes: [UInt8]
    private let object: PlayReadyObject

    init() throws {
        bytes = try PlayReadyGolden.file("object-4.2.bin")
        object = try PlayReadyObject(reading: bytes)
    }

    @Test func readsEveryFormOfInitializationData() throws {
        let box = try #require(PSSHBox(system: .playReady, data: bytes).serialized())
        let other = try #require(PSSHBox(system: .widevine, data: [1, 2, 3]).serialized())
        let record = Array(bytes[6..<(bytes.count - 68)])
        let header = Array(record.dropFirst(4))
        let headerAlone = PlayReadyObject(records: [.init(type: 1, value: header)])
        let forms: [(String, [UInt8], PlayReadyObject)] = [
            ("object", bytes, object), ("pssh", box, object), ("pssh boxes", other + box, object),
            (
                "pssh of version 1",
                try #require(
                    PSSHBox(system: .playReady, keyIDs: [try PlayReadyGolden.keyID()], data: bytes).serialized()),
                object
            ),
            ("pssh with a header", try #require(PSSHBox(system: .playReady, data: header).serialized()), headerAlone),
            ("record", record, headerAlone), ("header", header, headerAlone),
            (
                "header in UTF-8", try PlayReadyGolden.file("header-4.2.xml"),
                PlayReadyObject(records: [.init(type: 1, value: try PlayReadyGolden.file("header-4.2.xml"))])
            ),
            ("pssh without a header", [0, 0, 0, 0] + box.dropFirst(12), object),
            ("bytes behind it", bytes + [1, 2, 3], object),
        ]
        for (name, form, expected) in forms {
            #expect(try PlayReadyObject(initializationData: form) == expected, "\(name)")
            var text = Data(form).base64EncodedString()
            #expect(try PlayReadyObject(initializationData: Array(text.utf8)) == expected, "\(name), Base64")
            text.insert(contentsOf: "\n  ", at: text.index(text.startIndex, offsetBy: 9))
            #expect(try PlayReadyObject(initializationData: Array(text.utf8)) == expected, "\(name), lines")
        }
    }

    @Test(arguments: [
        [], [0], [1, 2, 3, 4, 5, 6], Array("hello, world".utf8), [6, 0, 0, 0, 1, 0], [5, 0, 0, 0, 0, 0],
    ])
    func refusesWhatIsNoObject(bytes: [UInt8]) {
        #expect(throws: FormatError.self) { try PlayReadyObject(initializationData: bytes) }
        #expect(throws: FormatError.self) { try PlayReadyObject(reading: bytes) }
    }

    @Test func refusesAPSSHBoxOfAnotherSystem() throws {
        let box = try #require(PSSHBox(system: .widevine, data: bytes).serialized())
        #expect(throws: FormatError.self) { try PlayReadyObject(initializationData: box) }
    }

    @Test func refusesEveryTruncation() {
        for length in bytes.indices {
            #expect(throws: FormatError.self) { try PlayReadyObject(reading: Array(bytes.prefix(length))) }
        }
    }

    @Test func refusesWhatIsTooLarge() throws {
        let large = [UInt8](repeating: 0x41, count: 100 << 20)
        for read in [
            { _ = try PlayReadyObject(reading: large) }, { _ = try PlayReadyObject(initializationData: large) },
        ] {
            let error = #expect(throws: FormatError.self) { try read() }
            #expect(error?.isSameKind(as: .tooLarge("")) == true)
        }
        let record = PlayReadyObject.Record(type: 1, value: [UInt8](repeating: 0, count: 65536))
        #expect(throws: FormatError.self) { try PlayReadyObject(records: [record]).serialized() }
    }

    @Test func findsLicensesThatTravelWithTheContent() throws {
        let license = try PlayReadyGolden.file("license.bin")
        let other = try PlayReadyGolden.file("license-temporary.bin")
        var object = object
        object.records[1].value = [0, 0, 0x58] + license + [0x58, 0x4D, 0x52, 0, 9] + other + [0x58, 0x4D]
        #expect(object.embeddedLicenses.map(\.bytes) == [license, other])
        // One without an end costs little, and so does a store of nothing but starts.
        object.records[1].value = Array(license.dropLast())
        #expect(object.embeddedLicenses.isEmpty)
        object.records[1].value = (0..<16000).flatMap { _ in XMRLicense.magic }
        #expect(object.embeddedLicenses.isEmpty)
    }
}
