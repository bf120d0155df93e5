// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyContainers
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite struct InitDataTypeTests {
    // In the form of the registry's text for "keyids".
    private let keyIDsText = #"{"kids":["LwVHf8JLtPrv2GUXFW2v_A", "0DdtU9od-Bh5L3xbv0Xf_A"]}"#
    private let keyIDsOfText = ["2f05477fc24bb4faefd86517156daffc", "d0376d53da1df818792f7c5bbf45dffc"]

    @Test func readsAKeyIDsObject() throws {
        let keyIDs = try InitDataType.keyids.keyIDs(in: Array(keyIDsText.utf8))
        #expect(keyIDs.map(\.description) == keyIDsOfText)
        #expect(InitDataType.anyKeyIDs(in: Array(keyIDsText.utf8)) == keyIDs)
    }

    @Test(arguments: [
        "", "{", "[]", "null", "{}", #"{"kids":null}"#, #"{"kids":"LwVHf8JLtPrv2GUXFW2v_A"}"#, #"{"kids":[1]}"#,
        #"{"kids":["LwVHf8JLtPrv2GUXFW2v"]}"#, #"{"kids":["LwVHf8JLtPrv2GUXFW2v_A!"]}"#, #"{"kids":[""]}"#,
        #"{"kids":["LwVHf8JLtPrv2GUXFW2v_A"]"#, #"{"kids":["LwVHf8JLtPrv2GUXFW2v_A"]} x"#,
    ])
    func refusesWhatIsNoKeyIDsObject(text: String) throws {
        let error = #expect(throws: FormatError.self) { try InitDataType.keyids.keyIDs(in: Array(text.utf8)) }
        #expect(error?.shortDescription == "malformed")
        #expect(InitDataType.anyKeyIDs(in: Array(text.utf8)).isEmpty)
    }

    @Test func refusesATextAboveTheLimitAndADeepOne() throws {
        let long = Array(keyIDsText.utf8) + [UInt8](repeating: 0x20, count: InitDataType.maximumKeyIDsSize)
        let error = #expect(throws: FormatError.self) { try InitDataType.keyids.keyIDs(in: long) }
        #expect(error?.shortDescription == "too large")
        let deep = #"{"kids":"# + String(repeating: "[", count: 50_000)
        #expect(throws: FormatError.self) { try InitDataType.keyids.keyIDs(in: Array(deep.utf8)) }
    }

    @Test func aWebMKeyIDIsItsBytes() throws {
        let bytes = Array(UInt8(1)...16)
        #expect(try InitDataType.webm.keyIDs(in: bytes).map(\.bytes) == [bytes])
        #expect(InitDataType.anyKeyIDs(in: bytes).map(\.bytes) == [bytes])
        #expect(throws: FormatError.self) { try InitDataType.webm.keyIDs(in: Array(bytes.dropLast())) }
        #expect(throws: FormatError.self) { try InitDataType.webm.keyIDs(in: []) }
    }

    @Test func aKeyIDOfSeveralBoxesIsNamedOnce() throws {
        let boxes = try CorpusBoxes.boxes(of: "bento4-cbcs-muxed/media.mp4").flatMap(\.self)
        let once = try InitDataType.cenc.keyIDs(in: boxes)
        #expect(once.count == 2)
        #expect(try InitDataType.cenc.keyIDs(in: boxes + boxes) == once)
        #expect(InitDataType.anyKeyIDs(in: boxes + boxes) == once)
    }

    @Test func readsBoxesInBase64AsAManifestHasThem() throws {
        let boxes = try CorpusBoxes.boxes(of: "bento4-cbcs-muxed/media.mp4").flatMap(\.self)
        let text = "\n  " + Data(boxes).base64EncodedString(options: .lineLength64Characters) + "\n"
        #expect(InitDataType.anyKeyIDs(in: Array(text.utf8)) == (try InitDataType.cenc.keyIDs(in: boxes)))
    }

    @Test func readsTheKeyIDsObjectInTheDataOfAClearKeyBox() throws {
        let box = try #require(PSSHBox(system: .clearKey, data: Array(keyIDsText.utf8)).serialized())
        #expect(try InitDataType.cenc.keyIDs(in: box).map(\.description) == keyIDsOfText)
        #expect(InitDataType.anyKeyIDs(in: box).map(\.description) == keyIDsOfText)
        let other = try #require(PSSHBox(system: .widevine, data: Array(keyIDsText.utf8)).serialized())
        #expect(try InitDataType.cenc.keyIDs(in: other).isEmpty)
        // One packager's box, with a KID of three bytes.
        let row = try CorpusBoxes.boxes(of: "shaka-cenc-explicit-pssh/audio.mp4").flatMap(\.self)
        #expect(try InitDataType.cenc.keyIDs(in: row).count == 2)
    }

    @Test(arguments: [UInt64(31), 32])
    func damagedTextsThrowOrAreRead(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let source = Array(keyIDsText.utf8)
        for length in 0..<source.count {
            #expect(throws: FormatError.self) { try InitDataType.keyids.keyIDs(in: Array(source.prefix(length))) }
        }
        for _ in 0..<2000 {
            let bytes = generator.mutate(source)
            if let keyIDs = try? InitDataType.keyids.keyIDs(in: bytes) {
                #expect(keyIDs == InitDataType.anyKeyIDs(in: bytes))
                #expect(keyIDs.count * 22 <= bytes.count)
            }
        }
    }
}
