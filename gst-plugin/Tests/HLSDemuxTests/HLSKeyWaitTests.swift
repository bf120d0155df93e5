// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements
@testable import LatchkeyKeySession
@testable import LatchkeyManifests

/// What ends a wait for a key of a presentation.
@Suite(.timeLimit(.minutes(8)))
struct HLSKeyWaitTests {
    private static let key = HLSKey(method: .sampleAES, uri: "skd://1", keyFormat: HLSKeyFormat.fairPlay.name)

    private static func contentKey() throws -> ContentKey { try #require(ContentKey(Array(1...16))) }

    /// The stock demuxer may have asked for a later note just before something came out of it. Nothing behind the note would be
    /// fetched before the key is there.
    @Test func aNoteDoesNotWaitForItsKeyOnceSomethingComesOut() async throws {
        let keys = HLSKeys(session: KeySession(), timeout: .seconds(240))
        let presentation = HLSPresentation(
            origin: HLSOrigin(transport: CurlTransport.shared), keys: keys, keyFormats: [.fairPlay])
        try presentation.open { _ in }
        defer { presentation.close() }
        let line = "#EXT-X-KEY:METHOD=SAMPLE-AES,URI=\"skd://1\",KEYFORMAT=\"\(HLSKeyFormat.fairPlay.name)\"\n"
        let text = "#EXTM3U\n#EXT-X-TARGETDURATION:2\n\(line)#EXTINF:2,\n1.ts\n#EXT-X-ENDLIST\n"
        let rewriting = try presentation.rewrite(Array(text.utf8), from: "https://a.test/v.m3u8")
        let note = try #require(rewriting.resources.first { if case .keyNote = $0 { true } else { false } })
        let name = try #require(presentation.table.knownName(of: note))
        let answer = Task { await presentation.answer(LoopbackRequest(path: name)) }
        while !keys.isAwaited { await Task.yield() }
        presentation.outputDidAppear()
        // Without that, one that has the stock demuxer ask again.
        #expect(await answer.value.status == 200)
        #expect(!keys.isAwaited)
    }

    /// The timer of the session may be late.
    @Test func aKeyWhoseLeaseIsOverBeforeItsUseIsAskedForAnew() async throws {
        let time = Mutex(ContinuousClock.now)
        let never = KeySessionClock(
            now: { time.withLock(\.self) }, date: { 0 }, sleep: { _ in try await Task.sleep(for: .seconds(3600)) })
        let key = try Self.contentKey()
        let asked = Mutex(0)
        let loader = CallbackLoader { request in
            asked.withLock { $0 += 1 }
            request.finishLoading(with: .key(key))
            return true
        }
        let session = KeySession(loaders: [loader], clock: never)
        let keys = HLSKeys(session: session, timeout: .seconds(10))
        session.install([keys.keyID(of: Self.key): key], terms: KeyTerms(expiry: .seconds(1)))
        time.withLock { $0 += .seconds(2) }
        let found = try await keys.contentKey(for: Self.key)
        #expect(found == key)
        #expect(asked.withLock(\.self) == 1)
    }

    /// One that only joins.
    private final class JoiningGuard: OutputGuard {
        let media: OutputPolicy.Media? = .video
        let isShowing = true
        let outputLevel: OutputRequirement? = nil
        let maximumPixels: Int? = nil
        func keysInUseDidChange() {}
        func otherGuardsDidChange() {}
    }

    /// It says nothing of the way of the pictures, so that is looked at, too.
    @Test(arguments: [false, true]) func theFirstGuardJoinsAsAKeyIsLookedAt(isOpen: Bool) throws {
        let join = Mutex<(@Sendable () -> Void)?>(nil)
        // The session asks for the time right before it looks at its guards.
        let clock = KeySessionClock(
            now: {
                join.withLock { $0.take() }?()
                return ContinuousClock.now
            }, date: { 0 }, sleep: { _ in try await Task.sleep(for: .seconds(3600)) })
        let session = KeySession(loaders: [], clock: clock)
        let keyID = KeyID(high: 1, low: 2)
        session.install([keyID: try Self.contentKey()], terms: KeyTerms(outputRequirement: .hdcpType0))
        let outputGuard = JoiningGuard()
        join.withLock { $0 = { session.join(outputGuard) } }
        var asked = 0
        let error = session.refusal(of: keyID, for: .video, by: 1) { _ in
            asked += 1
            return isOpen ? KeyError.denied("no guard is there") : nil
        }
        #expect((error != nil) == isOpen)
        #expect(asked == 1)
        #expect(session.isGuarded)
        withExtendedLifetime(outputGuard) {}
    }

    /// An init segment brings the KID of a key while a note waits for it under the name that was made for its URI.
    @Test func aKeyThatGetsAnotherNameIsWaitedFor() async throws {
        let session = KeySession()
        let keys = HLSKeys(session: session, timeout: .seconds(240))
        let wait = Task { try await keys.wait(for: Self.key) }
        while !keys.isAwaited { await Task.yield() }
        let keyID = KeyID(high: 1, low: 2)
        #expect(keys.keyID(of: Self.key, mediaKeyID: keyID) == keyID)
        session.install([keyID: try Self.contentKey()])
        try await wait.value
    }
}
