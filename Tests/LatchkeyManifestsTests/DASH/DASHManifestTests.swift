// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite(.timeLimit(.minutes(8))) struct DASHManifestTests {
    private static let first = "00000000-0000-0000-0000-000000000001"
    private static let second = "00000000-0000-0000-0000-000000000002"

    private func manifest(_ text: String, attributes: String = "") throws(FormatError) -> DASHManifest {
        let root =
            "xmlns=\"urn:mpeg:dash:schema:mpd:2011\" xmlns:cenc=\"urn:mpeg:cenc:2013\" "
            + "xmlns:dashif=\"https://dashif.org/CPS\" xmlns:mspr=\"urn:microsoft:playready\""
        return try DASHManifest(Array("<MPD \(root) \(attributes)>\(text)</MPD>".utf8))
    }

    private func common(_ keyID: String, in container: String = "") -> String {
        "<ContentProtection \(container) schemeIdUri=\"urn:mpeg:dash:mp4protection:2011\" value=\"cenc\" "
            + "cenc:default_KID=\"\(keyID)\"/>"
    }

    private func base64(_ box: PSSHBox) throws -> String { Base64.encode(try #require(box.serialized())) }

    @Test func everythingThatDescriptorsHold() throws {
        let keyID = try #require(KeyID(hex: Self.first))
        let box = PSSHBox(system: .common, keyIDs: [keyID])
        let object = try PlayReadyObject(header: WRMHeader(version: .v4_0, keys: [.init(keyID)])).serialized()
        let manifest = try manifest(
            """
            <Period><AdaptationSet>\(common(Self.first))
            <ContentProtection schemeIdUri="URN:UUID:1077EFEC-C0B2-4D02-ACE3-3C1E52E2FB4B" value="ClearKey1.0">
              <cenc:pssh>
                \(try base64(box))
              </cenc:pssh><dashif:Laurl Lic_type="EME-1.0"> https://a.test/l?x=1 </dashif:Laurl></ContentProtection>
            <ContentProtection schemeIdUri="urn:uuid:9a04f079-9840-4286-ab92-e65be0885f95" value="MSPR 2.0">
              <mspr:pro>\(Base64.encode(object))</mspr:pro></ContentProtection>
            <Representation id="1"/><Representation id="2"/></AdaptationSet></Period>
            """)
        #expect(manifest.protections.count == 1 && manifest.isProtected && manifest.flaws.isEmpty)
        let protection = try #require(manifest.protections.first)
        #expect(protection.defaultKeyIDs == [keyID])
        #expect(protection.systems == [.common, .playReady])
        let clearKey = try #require(protection.descriptor(of: .common))
        #expect(clearKey.value == "ClearKey1.0" && clearKey.systemBoxes == [box])
        #expect(clearKey.licenseURLs == ["https://a.test/l?x=1"])
        let playReady = try #require(protection.descriptor(of: .playReady))
        #expect(playReady.playReadyObject == object)
        #expect(playReady.systemBoxes == [PSSHBox(system: .playReady, data: object)])
    }

    /// References to characters, so that the XML reader leaves the white space as it is.
    @Test(
        arguments: ["", " ", "&#10;\t"],
        [
            "{00000000-0000-0000-0000-000000000001}", "00000000000000000000000000000001",
            "urn:uuid:00000000-0000-0000-0000-000000000001",
        ])
    func spellingsOfSchemesAndKIDs(space: String, keyID: String) throws {
        let scheme = { (text: String) in "schemeIdUri=\"\(space)\(text)\(space)\"" }
        let manifest = try manifest(
            """
            <Period><AdaptationSet><ContentProtection \(scheme("urn:mpeg:dash:mp4protection:2011")) value="cenc"
              cenc:default_KID="\(space)\(keyID)\(space) {\(Self.second)}"/>
            <ContentProtection \(scheme("urn:uuid:{1077EFEC-C0B2-4D02-ACE3-3C1E52E2FB4B}"))/></AdaptationSet></Period>
            """)
        let protection = try #require(manifest.protections.first)
        #expect(protection.descriptors.map(\.scheme) == [.commonEncryption, .system(.common)])
        #expect(protection.defaultKeyIDs.map(\.uuidString) == [Self.first, Self.second])
        #expect(manifest.flaws.isEmpty)
    }

    @Test func descriptorsOfEachLevelCount() throws {
        let manifest = try manifest(
            """
            <Period><AdaptationSet>\(common(Self.first))<Representation/></AdaptationSet>
            <AdaptationSet><Representation>\(common(Self.first))</Representation>
            <Representation>\(common(Self.second))</Representation></AdaptationSet>
            <AdaptationSet><Representation/></AdaptationSet></Period>
            """)
        #expect(manifest.protections.map { $0.defaultKeyIDs.map(\.uuidString) } == [[Self.first], [Self.second]])
    }

    /// What a Representation inherits counts by itself, also beside others with descriptors of their own.
    @Test(arguments: [true, false]) func aRepresentationWithoutItsOwnInherits(isFirst: Bool) throws {
        let own = "<Representation>\(common(Self.second))</Representation>"
        let both = isFirst ? "<Representation/>\(own)" : "\(own)<Representation/>"
        let manifest = try manifest(
            "<Period><AdaptationSet>\(common(Self.first))\(both)</AdaptationSet></Period>")
        #expect(
            manifest.protections.map { $0.defaultKeyIDs.map(\.uuidString) } == [
                [Self.first], [Self.first, Self.second],
            ])
    }

    /// The fifth edition of ISO/IEC 23009-1 lets descriptors refer to one that stands elsewhere.
    @Test func aReferenceStandsForTheDescriptor() throws {
        let manifest = try manifest(
            "<Period>\(common(Self.first, in: "refId=\"a\""))<AdaptationSet><ContentProtection ref=\"a\"/>"
                + "</AdaptationSet><AdaptationSet/></Period>")
        // Where nothing refers to it, it does not hold.
        #expect(manifest.protections.map(\.descriptors.count) == [1])
        #expect(manifest.protections.first?.defaultKeyIDs.map(\.uuidString) == [Self.first])
        #expect(manifest.flaws.isEmpty)
    }

    private static let clearKey = "schemeIdUri=\"urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e\""

    private func source(_ id: String, _ url: String, _ attributes: String = "") -> String {
        "<ContentProtection \(Self.clearKey) refId=\"\(id)\" \(attributes)><dashif:Laurl>\(url)</dashif:Laurl>"
            + "</ContentProtection>"
    }

    private func use(_ id: String, _ attributes: String = "", _ content: String = "") -> String {
        "<ContentProtection \(Self.clearKey) ref=\"\(id)\" \(attributes)>\(content)</ContentProtection>"
    }

    /// License URL, KIDs and value of each AdaptationSet's descriptors of ClearKey.
    private func clearKeys(_ manifest: DASHManifest) -> [[String]] {
        manifest.protections.map { protection in
            protection.descriptors.filter { $0.scheme == .system(.clearKey) }.flatMap { descriptor in
                descriptor.licenseURLs + descriptor.defaultKeyIDs.map { String($0.uuidString.suffix(1)) }
                    + [descriptor.value].compactMap(\.self)
            }
        }
    }

    @Test func referencesLeadBothWaysAndFromEachLevel() throws {
        let representation = { (text: String) in
            "<AdaptationSet><Representation>\(text)</Representation></AdaptationSet>"
        }
        let text = """
            \(source("mpd", "m"))<Period>\(source("period", "p"))<AdaptationSet>\(use("mpd"))</AdaptationSet>
            <AdaptationSet>\(use("later"))</AdaptationSet>\(representation(use("period")))
            <AdaptationSet>\(source("later", "l"))</AdaptationSet></Period>
            <Period>\(representation(source("inner", "i")))\(representation(use("inner")))
            <AdaptationSet>\(use("period", "value=\"2\""))</AdaptationSet></Period>
            """
        let manifest = try manifest(text)
        // Each once: the same descriptors hold for two, and a source in a set holds there too.
        #expect(clearKeys(manifest) == [["m"], ["l"], ["p"], ["l"], ["i"], ["i"], ["p", "2"]])
        #expect(manifest.flaws.isEmpty)
    }

    /// Inserted Periods repeat the `refId` of others: the nearest source counts.
    @Test func theNearestSourceCounts() throws {
        func set(_ text: String) -> String { "<AdaptationSet>\(text)</AdaptationSet>" }
        func period(_ text: String) -> String { "<Period>\(text)</Period>" }
        // That of the Period itself before one in another set, and one in the same set before it. The MPD's before those of
        // other Periods, and these in order.
        let periods = [
            period(set(source("a", "other")) + source("a", "first") + set(use("a"))),
            period(source("a", "second") + set(use("a") + "<Representation>\(source("a", "inner"))</Representation>")),
            period(set(source("a", "sibling")) + set(use("a"))), period(set(use("a", "value=\"v\""))),
        ]
        let manifest = try manifest(periods.joined())
        #expect(
            clearKeys(manifest) == [
                ["other"], ["first"], ["inner", "inner"], ["sibling"], ["sibling"], ["first", "v"],
            ])
        #expect(clearKeys(try self.manifest(periods.joined() + source("a", "m"))).last == ["m", "v"])
        // The nearest of the same scheme, and what that refers to.
        let other = common(Self.first, in: "refId=\"a\"")
        let leading = "<ContentProtection \(Self.clearKey) value=\"v\" refId=\"b\" ref=\"a\"/>"
        let further = try self.manifest(
            period(source("a", "first") + set(other + use("a")))
                + period(source("a", "second") + leading + set(use("b"))) + period(set(use("b"))))
        #expect(clearKeys(further) == [["first"], ["second", "v"]])
        #expect(further.flaws.isEmpty)
    }

    @Test func eachAttributeIsInheritedByItself() throws {
        let sources = source("a", "a", "value=\"A\" cenc:default_KID=\"\(Self.first)\"")
        let own = "<dashif:Laurl>own</dashif:Laurl>"
        let sets = [
            use("a"), use("a", "value=\"B\""), use("a", "cenc:default_KID=\"\(Self.second)\""), use("a", "", own),
        ].map { "<AdaptationSet>\($0)</AdaptationSet>" }
        let manifest = try manifest("\(sources)<Period>\(sets.joined())</Period>")
        #expect(clearKeys(manifest) == [["a", "1", "A"], ["a", "1", "B"], ["a", "2", "A"], ["own", "1", "A"]])
    }

    /// Ads and languages repeat the same sources: each counts once.
    @Test func sourcesThatAreRepeatedCostNothing() throws {
        let url = String(repeating: "u", count: 10_000)
        let period = "<Period>\(source("a", url))<AdaptationSet>\(use("a"))</AdaptationSet></Period>"
        let manifest = try manifest(String(repeating: period, count: 300))
        #expect(clearKeys(manifest) == [[url]])
    }

    /// It holds for all that is below, as if it had no name.
    @Test func aSourceThatNothingRefersToHolds() throws {
        let sets = "<AdaptationSet>\(common(Self.first))</AdaptationSet>"
        let manifest = try manifest("<Period>\(source("a", "a"))\(sets)</Period><Period>\(sets)</Period>")
        #expect(clearKeys(manifest) == [["a"], []])
    }

    /// Nothing goes in circles, and what leads nowhere is told.
    @Test func referencesThatLeadOnOrNowhere() throws {
        let chain = source("b", "b") + "<ContentProtection \(Self.clearKey) value=\"v\" refId=\"a\" ref=\"b\"/>"
        let circle = ["x", "y"].map {
            "<ContentProtection \(Self.clearKey) refId=\"\($0)\" ref=\"\($0 == "x" ? "y" : "x")\"/>"
        }
        let sets = ["a", "x", "none", "other"].map { "<AdaptationSet>\(use($0))</AdaptationSet>" }
        let other = common(Self.first, in: "refId=\"other\"")
        let manifest = try manifest("\(chain)\(circle.joined())\(other)<Period>\(sets.joined())</Period>")
        #expect(clearKeys(manifest) == [["b", "v"], [], [], []])
        #expect(manifest.flaws == ["a ContentProtection has a ref that leads to no other of its scheme"])
    }

    @Test(arguments: [
        "<dashif:Laurl>u</dashif:Laurl>", "<dashif:laurl licenseType=\"EME-1.0\">u</dashif:laurl>",
        "<clearkey:Laurl xmlns:clearkey=\"http://dashif.org/guidelines/clearKey\" Lic_type=\"EME-1.0\">u</clearkey:Laurl>",
        "<ms:laurl xmlns:ms=\"urn:microsoft\" licenseUrl=\"u\"/>", "<mspr:laurl licenseURL=\"u\"/>",
        "<LA_URL> u </LA_URL>",
        "<dashif:Laurl>\n <![CDATA[u]]>\n</dashif:Laurl>",
        "<dashif:Authzurl>a</dashif:Authzurl><dashif:Certurl>c</dashif:Certurl><dashif:Laurl>u</dashif:Laurl>",
        // Declared nowhere.
        "<clearkey:Laurl>u</clearkey:Laurl>",
    ])
    func spellingsOfLicenseURLs(element: String) throws {
        let manifest = try manifest(
            "<Period><AdaptationSet contentType=\"audio\"><ContentProtection \(Self.clearKey)>\(element)</ContentProtection>"
                + "</AdaptationSet></Period>")
        #expect(manifest.protections.first?.descriptors.first?.licenseURLs == ["u"])
        #expect(manifest.protections.first?.media == .audio)
    }

    @Test(arguments: [
        ("PT2S", 2000), ("PT1M0.5S", 60_500), ("P1DT1H", 90_000_000), ("PT0S", 0), ("P1M", nil), ("PT", 0),
        ("2S", nil), ("PT1X", nil), ("PT99999999999999999999H", nil), ("", nil), ("P", nil), ("PTS", nil),
        // As GStreamer's own writer of manifests has them.
        ("P0Y0M0DT0H0M2.0S", 2000), ("P0Y0M1DT1H0M0.500S", 90_000_500), ("P0Y1M", nil), ("P1Y0M0D", nil),
        ("PT0Y2S", nil),
    ])
    func refreshesOfLiveManifests(text: String, milliseconds: Int?) throws {
        let manifest = try manifest(
            "<Location> next.mpd </Location>", attributes: "type=\"dynamic\" minimumUpdatePeriod=\"\(text)\"")
        #expect(manifest.isDynamic && manifest.location == "next.mpd" && !manifest.isProtected)
        #expect(manifest.minimumUpdatePeriod == milliseconds.map { .milliseconds($0) })
    }

    @Test(arguments: [
        ("kid-malformed", "default_KID"), ("pssh-bad-base64", "cenc:pssh"), ("pssh-empty", "cenc:pssh"),
        ("scheme-missing", "schemeIdUri"),
    ])
    func flawsAreToldAndNoError(file: String, named: String) throws {
        let bytes = try CorpusBoxes.corpusFile("broken-mpd-contentprotection/\(file).mpd")
        let manifest = try DASHManifest(bytes)
        #expect(manifest.isProtected)
        #expect(manifest.flaws.contains { $0.contains(named) }, "\(manifest.flaws)")
    }

    @Test func whatIsMissingIsNoFlaw() throws {
        let silent = try DASHManifest(
            CorpusBoxes.corpusFile("broken-mpd-contentprotection/no-contentprotection.mpd"))
        #expect(!silent.isProtected)
        let upper = try DASHManifest(CorpusBoxes.corpusFile("broken-mpd-contentprotection/uuid-uppercase.mpd"))
        #expect(upper.protections.allSatisfy { $0.systems.contains(.common) && $0.systems.contains(.widevine) })
    }

    @Test(arguments: ["<MPD", "<a/>", "", "<!DOCTYPE MPD []><MPD/>", "<MPD><MPD></MPD>"])
    func whatIsNone(text: String) {
        #expect(throws: FormatError.self) { try DASHManifest(Array(text.utf8)) }
    }

    @Test func entitiesNestingAndSizeAreRefused() {
        #expect(throws: Never.self) { try DASHManifest(Array("<!DOCTYPE MPD SYSTEM 'a'><MPD/>".utf8)) }
        #expect(throws: FormatError.unsupported("XML with a document type")) {
            try DASHManifest(Array("<!DOCTYPE a [<!ENTITY b \"bb\">]><MPD>&b;</MPD>".utf8))
        }
        #expect(throws: FormatError.self) { try DASHManifest(Array(String(repeating: "<MPD>", count: 100_000).utf8)) }
        #expect(throws: FormatError.self) { try DASHManifest([UInt8](repeating: 0x20, count: 100 << 20)) }
    }

    /// What a hostile server may send stays within the time and memory of its size.
    @Test func manyDescriptorsTakeLittle() throws {
        let big = Base64.encode([UInt8](repeating: 7, count: 150_000))
        let inherited = (0..<40).map { index in
            "<ContentProtection schemeIdUri=\"urn:uuid:9a04f079-9840-4286-ab92-e65be0885f95\" value=\"\(index)\">"
                + "<mspr:pro>\(big)</mspr:pro></ContentProtection>"
        }
        let sets = (0..<20_000).map { index in
            "<AdaptationSet><ContentProtection schemeIdUri=\"x\" value=\"\(index)\"/></AdaptationSet>"
        }
        let manifest = try manifest("<Period>\(inherited.joined())\(sets.joined())</Period>")
        #expect(manifest.protections.count <= 1024)
        let kept = manifest.protections.flatMap(\.descriptors).compactMap(\.playReadyObject)
        #expect(Set(manifest.protections.flatMap(\.descriptors)).count(where: { $0.playReadyObject != nil }) <= 14)
        #expect(!kept.isEmpty)
    }

    @Test(arguments: [
        ("<MPD xmlns='urn:mpeg:dash:schema:mpd:2011'>", true), ("<MPD xmlns='urn:mpeg:DASH:schema:MPD:2011'>", true),
        ("\u{FEFF}<?xml version='1.0'?>\n<!-- > <a> --><x:MPD xmlns:x=\"urn:mpeg:dash:schema:mpd:2011\"", true),
        ("<?a b='>' ?><?c?><MPD xmlns='urn:mpeg:dash:schema:mpd:2011'", true), ("<?a >", false), ("<?>", false),
        ("<MPD xmlns='urn:other'>", false), ("<html><MPD xmlns='urn:mpeg:dash:schema:mpd:2011'>", false),
        ("<!-- <MPD xmlns='urn:mpeg:dash:", false), ("", false), ("<", false), ("<!DOCTYPE MPD>", false), ("<?", false),
        ("<!DOCTYPE MPD [<!ENTITY a \">]\">]><MPD xmlns='urn:mpeg:dash:schema:mpd:2011'>", true),
        ("<!DOCTYPE MPD [<!ENTITY a 'b'><MPD xmlns='urn:mpeg:dash:schema:mpd:2011'>", false),
    ])
    func theStartOfAManifestIsRecognized(text: String, isManifest: Bool) {
        #expect(DASHManifest.isManifest(start: Array(text.utf8)) == isManifest)
    }

    /// With a byte order mark and without, also if the bytes end within a character.
    @Test(arguments: ["", "\u{FEFF}"], [true, false])
    func theStartOfAManifestInUTF16IsRecognized(mark: String, isLittleEndian: Bool) {
        func bytes(_ text: String) -> [UInt8] {
            text.utf16.flatMap { unit -> [UInt8] in
                let halves = [UInt8(truncatingIfNeeded: unit), UInt8(truncatingIfNeeded: unit >> 8)]
                return isLittleEndian ? halves : [halves[1], halves[0]]
            }
        }
        let start = "<?xml version='1.0' encoding='UTF-16'?><!-- ü -->"
        let manifest = bytes("\(mark)\(start)<MPD xmlns='urn:mpeg:dash:schema:mpd:2011'><!-- 😀")
        for cut in 0..<5 { #expect(DASHManifest.isManifest(start: Array(manifest.dropLast(cut)))) }
        #expect(!DASHManifest.isManifest(start: bytes("\(mark)\(start)<MPD xmlns='urn:other'>")))
        #expect(!DASHManifest.isManifest(start: bytes("\(mark)\(start)<html>")))
    }

    @Test func everyManifestOfTheCorpusIsRead() throws {
        for name in ["dash-cenc-static-live", "shaka-cbcs-alldrm", "hls-fmp4-cbcs-3drm", "shaka-cenc-keyrot"] {
            let bytes = Array(try CorpusBoxes.corpusFile("\(name)/stream.mpd"))
            #expect(DASHManifest.isManifest(start: bytes))
            let manifest = try DASHManifest(bytes)
            #expect(manifest.isProtected && !manifest.isDynamic && manifest.flaws.isEmpty)
        }
    }
}
