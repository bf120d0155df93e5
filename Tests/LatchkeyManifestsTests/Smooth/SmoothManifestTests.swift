// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestSupport
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyKeySystems
import LatchkeyProtection
import Testing

@Suite struct SmoothManifestTests {
    private func manifest(_ text: String, attributes: String = "") throws(FormatError) -> SmoothManifest {
        try SmoothManifest(Array("<SmoothStreamingMedia \(attributes)>\(text)</SmoothStreamingMedia>".utf8))
    }

    private static let streams = """
        <StreamIndex Type="video" Name="v"/><StreamIndex Type="text" Name="t"/>
        <StreamIndex Type="audio" Name="first" Language="eng"/><StreamIndex Type="audio" Name="second" Language="fra"/>
        """

    @Test func theManifestOfTheCorpus() throws {
        let manifest = try SmoothManifest(CorpusBoxes.corpusFile("smooth-piff-ctr/Manifest"))
        #expect(manifest.streams.map(\.type) == [.video, .audio] && !manifest.isLive)
        let keyID = try #require(KeyID(hex: "734fe7f558fbf5522cd6704d6f8e66ef"))
        #expect(manifest.keyIDs == [keyID])
        #expect(
            manifest.encryption == ISOEncryption(scheme: .cenc, initializationVectorSize: 8, keyID: keyID))
        // The stock demuxer sees the same without protection.
        let rest = try SmoothManifest(manifest.serialized())
        #expect(!rest.isProtected && rest.encryption == nil && rest.streams.map(\.type) == [.video, .audio])
    }

    @Test func qualitiesAreThoseOfPicturesWithASize() throws {
        let found = try manifest(
            """
            <StreamIndex Type="video"><QualityLevel Index="0" Bitrate="900" MaxWidth="1280" MaxHeight="720"/>
            <QualityLevel Bitrate="300" Width="640" Height="360"/><QualityLevel Bitrate="200"/>
            <QualityLevel Bitrate="x" MaxWidth="1" MaxHeight="1"/><c n="0"/></StreamIndex>
            <StreamIndex Type="audio"><QualityLevel Bitrate="64" MaxWidth="1" MaxHeight="1"/></StreamIndex>
            """)
        #expect(
            found.qualities == [
                PictureQuality(bitRate: 900, width: 1280, height: 720),
                PictureQuality(bitRate: 300, width: 640, height: 360),
            ])
        let many = String(repeating: #"<QualityLevel Bitrate="1" Width="1" Height="1"/>"#, count: 5000)
        #expect(try manifest(#"<StreamIndex Type="video">\#(many)</StreamIndex>"#).qualities.count == 4096)
    }

    @Test func utf16IsRead() throws {
        let text = String(decoding: try CorpusBoxes.corpusFile("smooth-piff-ctr/Manifest"), as: UTF8.self)
        var bytes: [UInt8] = [0xFF, 0xFE]
        for unit in text.utf16 { bytes += [UInt8(truncatingIfNeeded: unit), UInt8(truncatingIfNeeded: unit >> 8)] }
        #expect(try SmoothManifest(bytes).keyIDs.count == 1)
    }

    @Test func cbcByTheHeader() throws {
        let keyID = try #require(KeyID(hex: "734fe7f558fbf5522cd6704d6f8e66ef"))
        let header = try WRMHeader(version: .v4_3, keys: [.init(keyID, algorithm: .aesCBC)])
        let object = Base64.encode(try PlayReadyObject(header: header).serialized())
        let manifest = try manifest(
            "<Protection><ProtectionHeader SystemID='{9A04F079-9840-4286-AB92-E65BE0885F95}'>\(object)"
                + "</ProtectionHeader></Protection>")
        #expect(
            manifest.encryption == ISOEncryption(scheme: .cbc1, initializationVectorSize: 16, keyID: keyID))
    }

    @Test(arguments: [true, false]) func anotherSystemInFrontDoesNotMatter(isInFront: Bool) throws {
        let keyID = try #require(KeyID(hex: "734fe7f558fbf5522cd6704d6f8e66ef"))
        let header = try WRMHeader(version: .v4_3, keys: [.init(keyID, algorithm: .aesCTR)])
        let object = Base64.encode(try PlayReadyObject(header: header).serialized())
        let headers = [
            "<ProtectionHeader SystemID='edef8ba9-79d6-4ace-a3c8-27dcd51d21ed'>AAAA</ProtectionHeader>",
            "<ProtectionHeader SystemID='9a04f079-9840-4286-ab92-e65be0885f95'>\(object)</ProtectionHeader>",
        ]
        let manifest = try manifest(
            "<Protection>\((isInFront ? headers : headers.reversed()).joined())</Protection>")
        #expect(manifest.keyIDs == [keyID])
        #expect(try manifest.playReadyHeader()?.keys.map(\.keyID) == [keyID])
    }

    /// One without a SystemID counts only if none says so.
    @Test(arguments: ["", " SystemID='none'", " SystemID=''"], [true, false])
    func aHeaderThatSaysItIsPlayReadysWins(attribute: String, isInFront: Bool) throws {
        let keyID = try #require(KeyID(hex: "734fe7f558fbf5522cd6704d6f8e66ef"))
        let header = try WRMHeader(version: .v4_3, keys: [.init(keyID, algorithm: .aesCTR)])
        let object = try PlayReadyObject(header: header).serialized()
        let headers = [
            "<ProtectionHeader\(attribute)>AAAA</ProtectionHeader>",
            "<ProtectionHeader SystemID=' {9A04F079-9840-4286-AB92-E65BE0885F95} '>\(Base64.encode(object))"
                + "</ProtectionHeader>",
        ]
        let manifest = try manifest(
            "<Protection>\((isInFront ? headers : headers.reversed()).joined())</Protection>")
        #expect(try manifest.playReadyHeader()?.keys.map(\.keyID) == [keyID])
        let data: [[UInt8]?] = manifest.headersBySystem.map(\.data)
        #expect(data == [object])
        #expect(manifest.encryption?.keyID == keyID)
    }

    @Test func textStaysAwayFromTheStockDemuxer() throws {
        let given = try SmoothManifest(try manifest(Self.streams).serialized())
        #expect(given.streams.map(\.label) == ["v", "first", "second"])
        // A live manifest is read again stream by stream.
        let live = try SmoothManifest(try manifest(Self.streams, attributes: "IsLive='TRUE'").serialized())
        #expect(live.streams.map(\.label) == ["v", "t", "first", "second"])
    }

    @Test func theChosenAudioComesFirst() throws {
        let manifest = try manifest(Self.streams)
        let second = try #require(manifest.streams.last)
        let given = try SmoothManifest(manifest.serialized(audioFirst: second))
        #expect(given.streams.map(\.label) == ["v", "second", "first"])
        #expect(try SmoothManifest(manifest.serialized(audioFirst: manifest.streams[0])).streams.count == 3)
    }

    /// Where keys change, the header has none.
    @Test func keysOnDemand() throws {
        let header = try WRMHeader(version: .v4_3, keys: [], details: .init(isOnDemand: true))
        let object = Base64.encode(try PlayReadyObject(header: header).serialized())
        let manifest = try manifest("<Protection><ProtectionHeader>\(object)</ProtectionHeader></Protection>")
        #expect(manifest.namesKeysInFragments && manifest.keyIDs.isEmpty && manifest.encryption?.keyID == nil)
        #expect(try !SmoothManifest(CorpusBoxes.corpusFile("smooth-piff-ctr/Manifest")).namesKeysInFragments)
    }

    /// The stock demuxer tells streams apart by name, or else by language.
    @Test func audioStreamsHaveNamesOfTheirOwn() throws {
        let manifest = try manifest(
            "<StreamIndex Type='audio' Language='eng'/><StreamIndex Type='audio' Language='eng'/>"
                + "<StreamIndex Type='audio' Name='eng 2'/><StreamIndex Type='audio'/><StreamIndex Type='audio'/>")
        let labels = ["eng", "eng 2", "eng 2 2", "audio", "audio 2"]
        #expect(manifest.streams.map(\.label) == labels)
        #expect(manifest.audio(labelled: "eng 2") == manifest.streams[1])
        #expect(manifest.audio(labelled: "ENG") == manifest.streams[0])
        #expect(manifest.audio(labelled: "deu") == nil)
        let given = try SmoothManifest(manifest.serialized())
        #expect(given.streams.map(\.label) == labels)
        #expect(given.streams.map(\.name) == [nil, "eng 2", "eng 2 2", "audio", "audio 2"])
        #expect(given.streams[1].language == "eng")
    }

    @Test func headersThatCannotBeUsed() throws {
        let broken = try manifest("<Protection><ProtectionHeader>%%%</ProtectionHeader></Protection>")
        #expect(broken.isProtected && broken.keyIDs.isEmpty)
        #expect(throws: FormatError.self) { try broken.playReadyHeader() }
        #expect(broken.encryption?.keyID == nil && broken.encryption != nil)
        let empty = try manifest("<Protection/>")
        #expect(try empty.isProtected && empty.playReadyHeader() == nil)
        let foreign = try manifest(
            "<Protection><ProtectionHeader SystemID='edef8ba9-79d6-4ace-a3c8-27dcd51d21ed'>AAAA</ProtectionHeader>"
                + "</Protection>")
        #expect(try foreign.playReadyHeader() == nil)
        let bad = try SmoothManifest(CorpusBoxes.corpusFile("broken-smooth-manifest/bad-base64.ismc"))
        #expect(bad.keyIDs.isEmpty)
        let braces = try SmoothManifest(CorpusBoxes.corpusFile("broken-smooth-manifest/braces-systemid.ismc"))
        #expect(braces.keyIDs.count == 1)
    }

    @Test(arguments: ["", "<MPD/>", "<SmoothStreamingMedia>", "<!DOCTYPE a []><SmoothStreamingMedia/>"])
    func whatIsNone(text: String) {
        #expect(throws: FormatError.self) { try SmoothManifest(Array(text.utf8)) }
    }

    @Test func muchIsRefused() {
        let header = "<ProtectionHeader>\(Base64.encode([UInt8](repeating: 1, count: 90_000)))</ProtectionHeader>"
        #expect(throws: FormatError.self) {
            try manifest("<Protection>\(String(repeating: header, count: 20))</Protection>")
        }
        #expect(throws: FormatError.self) { try SmoothManifest([UInt8](repeating: 0x20, count: 100 << 20)) }
    }

    /// The first fragment of each quality of a stream that has several, as the URL of the stream says.
    @Test func choicesAreAmongTheQualitiesOfAStream() throws {
        func choices(_ stream: String, attributes: String = "") throws -> [String] {
            let levels = "<QualityLevel Bitrate=\"9\"/><QualityLevel Bitrate=\"4\"/>"
            let one = "<StreamIndex Type=\"audio\" Url=\"a\"><QualityLevel Bitrate=\"1\"/><c t=\"0\"/></StreamIndex>"
            let text = stream.split(separator: "|").joined(separator: levels)
            return try manifest(one + text, attributes: attributes).choices(from: "https://a.test/f.isml/Manifest?t")
                .map(\.fragmentURL)
        }
        let video =
            "<StreamIndex Type=\"video\" Url=\"Q({bitrate})/F(v={start time})\">|<c t=\"70\"/><c/></StreamIndex>"
        let expected = ["https://a.test/f.isml/Q(9)/F(v=70)", "https://a.test/f.isml/Q(4)/F(v=70)"]
        #expect(try choices(video) == expected)
        #expect(try choices(video.replacing("{bitrate}", with: "{Bitrate}").replacing("t t", with: "t_t")) == expected)
        #expect(try choices(video.replacing(" t=\"70\"", with: "")) == expected.map { $0.replacing("=70", with: "=0") })
        #expect(try choices(video, attributes: "IsLive=\"TRUE\"").isEmpty)
        for (old, new) in [
            ("bitrate", "CustomAttributes"), ("{b", "{{b"), ("time}", "time"), ("70", "x"), ("video", "text"),
        ] {
            #expect(try choices(video.replacing(old, with: new)).isEmpty, "\(new)")
        }
    }

    @Test func aQualityIsLeftOut() throws {
        let text = """
            <StreamIndex Type="audio"><QualityLevel Bitrate="1"/><c/></StreamIndex><StreamIndex Type="video" QualityLevels="3" \
            Url="{bitrate}"><QualityLevel Bitrate="9"/><QualityLevel Bitrate="4"/><QualityLevel Bitrate="2"/><c/></StreamIndex>
            """
        var manifest = try manifest(text)
        let choices = manifest.choices(from: "https://a.test/Manifest")
        #expect(choices.map(\.fragmentURL) == ["https://a.test/9", "https://a.test/4", "https://a.test/2"])
        #expect(choices.allSatisfy { $0.media == .video })
        manifest.leaveOut([choices[1]])
        let rest = String(decoding: manifest.serialized(), as: UTF8.self)
        #expect(rest.contains("QualityLevels=\"2\"") && !rest.contains("\"4\""))
        #expect(["1", "2", "9"].allSatisfy { rest.contains("Bitrate=\"\($0)\"") })
    }

    /// All sound is one choice, and a stream goes that has none of its qualities left.
    @Test func soundOfAnotherLanguageStays() throws {
        let text = """
            <StreamIndex Type="video" Url="v{bitrate}"><QualityLevel Bitrate="9"/><c/></StreamIndex>\
            <StreamIndex Type="audio" Language="en" Url="a{bitrate}"><QualityLevel Bitrate="1"/><c/></StreamIndex>\
            <StreamIndex Type="audio" Language="de" Url="a{bitrate}"><QualityLevel Bitrate="2"/><QualityLevel Bitrate="3"/>\
            <c/></StreamIndex>
            """
        var manifest = try manifest(text)
        let choices = manifest.choices(from: "https://a.test/Manifest")
        #expect(choices.map(\.fragmentURL) == ["https://a.test/a1", "https://a.test/a2", "https://a.test/a3"])
        #expect(choices.allSatisfy { $0.media == .audio } && Set(choices.map(\.group)).count == 1)
        manifest.leaveOut(choices.prefix(2))
        #expect(manifest.audio(labelled: "en") == nil && manifest.audio(labelled: "de") != nil)
        let rest = try SmoothManifest(manifest.serialized())
        #expect(rest.streams.map(\.type) == [.video, .audio])
        let bytes = String(decoding: manifest.serialized(), as: UTF8.self)
        #expect(["9", "3"].allSatisfy { bytes.contains("Bitrate=\"\($0)\"") })
        #expect(["1", "2"].allSatisfy { !bytes.contains("Bitrate=\"\($0)\"") })
    }

    /// PIFF's box names a key in the place of the manifest's.
    @Test func fragmentsNameTheirKeys() throws {
        let folder = "smooth-piff-ctr/QualityLevels(200000)/Fragments(video=0)"
        let fragment = Array(try CorpusBoxes.corpusFile(folder))
        let (usual, own) = (KeyID(high: 0, low: 1), KeyID(high: 2, low: 3))
        #expect(ISORecognition.keyIDs(ofFragment: fragment, else: usual) == [usual])
        #expect(ISORecognition.keyIDs(ofFragment: fragment, else: nil) == [])
        #expect(ISORecognition.keyIDs(ofFragment: Array(fragment.prefix(900)), else: usual) == nil)
        #expect(ISORecognition.keyIDs(ofFragment: [], else: usual) == nil)
        // The box of the samples, behind its type, in the track, in the fragment.
        let type: [UInt8] = [0xA2, 0x39, 0x4F, 0x52]
        let place = try #require(fragment.indices.first { fragment[$0...].starts(with: type) })
        for (algorithm, expected) in [(1, [own]), (0, [])] as [(UInt8, Set<KeyID>)] {
            var changed = fragment
            changed[place + 19] |= 1
            changed.insert(contentsOf: [0, 0, algorithm, 8] + own.bytes, at: place + 20)
            for size in [2, 26, place - 6] {
                let number = Int(changed[size]) << 8 + Int(changed[size + 1]) + 20
                (changed[size], changed[size + 1]) = (UInt8(number >> 8), UInt8(number & 255))
            }
            #expect(ISORecognition.keyIDs(ofFragment: changed, else: usual) == expected)
        }
    }

    @Test func encryptedFragmentsAreRecognized() throws {
        let folder = "smooth-piff-ctr/QualityLevels(200000)/Fragments(video=0)"
        let fragment = Array(try CorpusBoxes.corpusFile(folder))
        #expect(ISORecognition.isEncryptedFragment(fragment) == true)
        #expect(ISORecognition.isEncryptedFragment(Array(fragment.prefix(40))) == nil)
        #expect(ISORecognition.isEncryptedFragment([]) == nil)
        #expect(ISORecognition.isEncryptedFragment([UInt8](repeating: 0xFF, count: 64)) == false)
        let clear = Array(try CorpusBoxes.corpusFile("hls-fmp4-cbcs-identity/v_init.mp4"))
        #expect(ISORecognition.isEncryptedFragment(clear) == false)
    }

    /// Some writers leave PIFF's box, without samples, in clear fragments.
    @Test func boxesWithoutSamplesAreNoSignOfEncryption() throws {
        let folder = "smooth-piff-ctr/QualityLevels(200000)/Fragments(video=0)"
        var fragment = Array(try CorpusBoxes.corpusFile(folder))
        let type: [UInt8] = [0xA2, 0x39, 0x4F, 0x52]
        let place = try #require(fragment.indices.first { fragment[$0...].starts(with: type) })
        // Behind the type of 16 bytes, version and flags: the number of samples.
        fragment.replaceSubrange(place + 20..<place + 24, with: [0, 0, 0, 0])
        #expect(ISORecognition.isEncryptedFragment(fragment) == false)
        // A version that is not known.
        fragment[place + 16] = 1
        #expect(ISORecognition.isEncryptedFragment(fragment) == true)
    }
}
