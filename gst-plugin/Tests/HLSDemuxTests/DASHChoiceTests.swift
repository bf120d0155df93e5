// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements
@testable import LatchkeyManifests

extension HLSDemuxTests {
    /// The choice among qualities by their keys, beyond what `DASHRunTests` has of it.
    @Suite(.timeLimit(.minutes(8))) struct DASHChoiceTests {}
}

extension HLSDemuxTests.DASHChoiceTests {
    private typealias Runs = HLSDemuxTests.DASHRunTests

    /// A Period that a later version brings loses what its new keys are refused for, and the ones in front of it lose nothing.
    @Test func aNewPeriodLosesWhatHasNoKey() async throws {
        func version(_ lines: [[Int]]) -> [UInt8] {
            let periods = lines.enumerated().map { number, keys in
                let representations = keys.map { key in
                    """
                    <Representation id="\(key)"><ContentProtection schemeIdUri="urn:mpeg:dash:mp4protection:2011" \
                    cenc:default_KID="00000000-0000-0000-0000-00000000000\(key)"/>\
                    <ContentProtection schemeIdUri="urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e"/></Representation>
                    """
                }
                return """
                    <Period id="p\(number)" start="PT\(number * 60)S"><AdaptationSet contentType="video">\
                    \(representations.joined())</AdaptationSet></Period>
                    """
            }
            return Array(
                """
                <MPD xmlns="urn:mpeg:dash:schema:mpd:2011" xmlns:cenc="urn:mpeg:cenc:2013" type="dynamic" \
                minimumUpdatePeriod="PT5S">\(periods.joined())</MPD>
                """.utf8)
        }
        let (old, new) = (version([[1, 2]]), version([[1, 2], [3, 4], [5]]))
        let contentKey = try #require(ContentKey([UInt8](repeating: 7, count: 16)))
        let loader = CallbackLoader { request in
            request.finishLoading(with: .denied("not in the subscription"))
            return true
        }
        let (failures, failed) = AsyncStream.makeStream(of: Void.self)
        let session = KeySession(loaders: [loader])
        for number in 1...3 { session.install([KeyID(high: 0, low: UInt64(number)): contentKey]) }
        let observation = session.observe { event in if case .failed = event { failed.yield() } }
        defer { observation.cancel() }
        // One for the look that asks for keys ahead of the stock demuxer, and one for that itself.
        let transport = Runs.Versions([new, new])
        let (periods, period) = AsyncStream.makeStream(of: Void.self)
        let run = try DASHRun(
            shared: SharedSession(session, ControlSettings()),
            choice: KeyChoice(session: session, timeout: .seconds(30)), transport: transport,
            makePlainSegments: Runs.makePlainSegments,
            sleep: { _ in for await _ in periods { break } })
        defer { run.end() }
        let told = Mutex<[[KeyID: KeyError]]>([])
        run.onLeftOut { refusals in told.withLock { $0.append(refusals) } }
        let url = "https://a.test/x/live.mpd"
        try run.start(old, from: url)
        let handedOn = run.handedOn(old, from: url, source: url)
        #expect(try Runs.representations(handedOn.bytes) == ["1", "2"] && told.withLock { $0.isEmpty })
        period.yield()
        for await _ in failures { break }
        let later = try await #require(run.segments).answer(LoopbackRequest(path: "m"))
        let kept = try XMLElement(reading: later.body, limits: .manifest).children.filter { $0.localName == "Period" }
            .map { $0.first("AdaptationSet")?.children.compactMap { $0[attribute: "id"] } ?? [] }
        // The only one of a Period stays: its decryptor says why it does not play.
        #expect(kept == [["1", "2"], ["3"], ["5"]])
        #expect(told.withLock { $0.map { $0.keys.map(\.description.last) } } == [["4"]])
    }

    /// A license has the keys that its data names: what an AdaptationSet has of its own is not for the key of its Period.
    @Test(arguments: [true, false]) func keysAreAskedForWithTheirOwnData(isFirst: Bool) throws {
        let keyIDs = (1...2).map { KeyID(high: 0, low: UInt64($0)) }
        let objects = try keyIDs.map { keyID in
            try PlayReadyObject(header: WRMHeader(version: .v4_0, keys: [.init(keyID)])).serialized()
        }
        let protections = zip(keyIDs, objects).map { keyID, object in
            """
            <ContentProtection schemeIdUri="urn:mpeg:dash:mp4protection:2011" default_KID="\(keyID.uuidString)"/>\
            <ContentProtection schemeIdUri="urn:uuid:\(ProtectionSystem.playReady.uuid)">\
            <pro>\(Base64.encode(object))</pro></ContentProtection>
            """
        }
        let sets = ["<AdaptationSet>\(protections[1])</AdaptationSet>", "<AdaptationSet/>"]
        let text = "<MPD><Period>\(protections[0])\((isFirst ? sets : sets.reversed()).joined())</Period></MPD>"
        let groups = try DASHManifest(Array(text.utf8)).keyGroups { $0.first }
            .sorted { $0.keyIDs.description < $1.keyIDs.description }
        #expect(groups.map(\.keyIDs) == keyIDs.map { [$0] })
        #expect(groups.map(\.boxes) == objects.map { [PSSHBox(system: .playReady, data: $0)] })
    }

    /// What pictures may not use says nothing of sound, also where other sound is left out.
    @Test func soundWithTheKeyOfRefusedPicturesStandsIn() throws {
        let key = try #require(ContentKey([UInt8](repeating: 7, count: 16)))
        let (forSound, forNobody, free) = (KeyID(high: 0, low: 1), KeyID(high: 0, low: 2), KeyID(high: 0, low: 3))
        var terms = KeyTerms()
        var (noPictures, noSound) = (OutputPolicy.unrestricted, OutputPolicy.unrestricted)
        noPictures.digitalVideo = .block
        noSound.digitalAudio = .block
        terms.outputPolicies = [forSound: noPictures, forNobody: noSound]
        let session = KeySession()
        session.install([free: key])
        session.install([forSound: key, forNobody: key], terms: terms)
        func representation(_ name: String, _ keyID: KeyID) -> String {
            """
            <Representation id="\(name)"><ContentProtection schemeIdUri="urn:mpeg:dash:mp4protection:2011" \
            cenc:default_KID="\(keyID.uuidString)"/></Representation>
            """
        }
        let bytes = Array(
            """
            <MPD xmlns="urn:mpeg:dash:schema:mpd:2011" xmlns:cenc="urn:mpeg:cenc:2013"><Period>\
            <AdaptationSet contentType="video">\(representation("high", forSound))\(representation("low", free))\
            </AdaptationSet><AdaptationSet contentType="audio" lang="en">\(representation("en", forNobody))\
            </AdaptationSet><AdaptationSet contentType="audio" lang="de">\(representation("de", forSound))\
            </AdaptationSet></Period></MPD>
            """.utf8)
        let run = try DASHRun(
            shared: SharedSession(session, ControlSettings()),
            choice: KeyChoice(session: session, timeout: .seconds(30)), transport: Runs.Versions([]))
        defer { run.end() }
        let told = Mutex<[Set<KeyID>]>([])
        run.onLeftOut { refusals in told.withLock { $0.append(Set(refusals.keys)) } }
        let url = "https://a.test/x/film.mpd"
        try run.start(bytes, from: url)
        let kept = try XMLElement(reading: run.handedOn(bytes, from: url, source: url).bytes, limits: .manifest)
        let names = kept.child("Period")?.children.flatMap(\.children).compactMap { $0[attribute: "id"] }
        #expect(names == ["low", "de"])
        #expect(told.withLock { $0 } == [[forSound, forNobody]])
    }

    /// Hands out init segments with the KIDs 1 and 3. All others never come.
    private struct SlowFiles: HTTPTransport {
        let section: InitSegment
        let onRequest: @Sendable (String) -> Void

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            let name = String(request.url.split(separator: "/").last?.prefix { $0 != "." } ?? "")
            onRequest(name)
            guard let number = UInt64(name),
                let bytes = try? section.rewriting(keyID: KeyID(high: 0, low: number), protectionBoxes: [])
            else {
                try? await Task.sleep(for: .seconds(3600))
                throw .cancelled(request.url)
            }
            return HTTPResponse(status: 200, body: bytes, url: request.url)
        }
    }

    /// The time may be over while some wait for their turn.
    @Test func looksEndInTimeBeforeAllHaveBegun() async {
        let (lasts, last) = AsyncStream.makeStream(of: Void.self)
        let asked = Mutex<[String]>([])
        let sleep: @Sendable (Duration) async throws -> Void = { _ in for await _ in lasts { break } }
        let found = await KeyChoice.looks(at: ["1", "a", "b", "c", "d", "e"], sleep: sleep) { name -> String? in
            asked.withLock { $0.append(name) }
            if name == "d" { last.yield() }
            // Those that have names never come, unless they are waited for.
            if name != "1" { do { try await Task.sleep(for: .seconds(20)) } catch { return nil } }
            return name
        }
        #expect(found == ["1": "1"])
        #expect(asked.withLock { $0.sorted() } == ["1", "a", "b", "c", "d"])
    }

    /// An init segment that does not come in time keeps no other one from counting, in front of it or behind.
    @Test func slowInitSegmentsAreNotWaitedFor() async throws {
        // Of four at a time, three never come. When the last one is asked for, those in front of it have counted.
        let names = ["a", "b", "c", "1", "3", "d"]
        let representations = names.map {
            "<Representation id=\"\($0)\"><SegmentTemplate initialization=\"$RepresentationID$.mp4\"/></Representation>"
        }
        let bytes = Array(
            """
            <MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period><AdaptationSet contentType="video">\
            <ContentProtection schemeIdUri="urn:mpeg:dash:mp4protection:2011"/>\
            <ContentProtection schemeIdUri="urn:uuid:e2719d58-a985-b3c9-781a-b030af78d30e"/>\
            \(representations.joined())</AdaptationSet></Period></MPD>
            """.utf8)
        let (lasts, last) = AsyncStream.makeStream(of: Void.self)
        let (failures, failed) = AsyncStream.makeStream(of: Void.self)
        let limits = Mutex<[Duration]>([])
        let asked = Mutex<[String]>([])
        let section = try InitSegment(CorpusCase("dash-cenc-static-live").bytes("v_init.mp4"))
        let transport = SlowFiles(section: section) { name in
            asked.withLock { $0.append(name) }
            if name == "d" { last.yield() }
        }
        let loader = CallbackLoader { request in
            request.finishLoading(with: .denied("not in the subscription"))
            return true
        }
        let session = KeySession(loaders: [loader])
        session.install([KeyID(high: 0, low: 1): try #require(ContentKey([UInt8](repeating: 7, count: 16)))])
        let observation = session.observe { event in if case .failed = event { failed.yield() } }
        defer { observation.cancel() }
        let run = try DASHRun(
            shared: SharedSession(session, ControlSettings()),
            choice: KeyChoice(session: session, timeout: .seconds(30)), transport: transport,
            sleep: { limit in
                limits.withLock { $0.append(limit) }
                for await _ in lasts { break }
            })
        defer { run.end() }
        let told = Mutex<[[KeyID: KeyError]]>([])
        run.onLeftOut { refusals in told.withLock { $0.append(refusals) } }
        let url = "https://a.test/x/film.mpd"
        try run.start(bytes, from: url)
        #expect(run.hasUntoldKeys)
        await run.findKeys(bytes, from: url)
        #expect(asked.withLock { $0.sorted() } == names.sorted())
        // The element gives up later.
        #expect(limits.withLock { $0 } == [.seconds(8)] && KeyChoice.lookPatience > .seconds(8))
        for await _ in failures { break }
        #expect(run.decidingKeyIDs == [KeyID(high: 0, low: 1), KeyID(high: 0, low: 3)])
        #expect(
            try Runs.representations(run.handedOn(bytes, from: url, source: url).bytes)
                == ["a", "b", "c", "1", "d"])
        #expect(told.withLock { $0.map { $0.keys.map(\.description.last) } } == [["3"]])
    }
}
