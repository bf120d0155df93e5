// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyKeySession

/// What the elements of one pipeline share.
@Suite("Playback of a pipeline", .timeLimit(.minutes(8)))
struct KeyPlaybackTests {
    /// As an element that starts now asks.
    private func demand(_ playback: KeyPlayback, in session: KeySession) {
        var demand = KeyDemand(keyIDs: [keyID(1)], retryFailuresUpTo: session.generation)
        demand.retryRefusalsUpTo = playback.startGeneration
        session.demand(demand)
    }

    private func requests(_ watcher: Watcher, of session: KeySession) async -> Int {
        await session.told()
        return watcher.summaries.count { $0.hasPrefix("requested") }
    }

    @Test(arguments: [KeyError.denied(""), .serverStatus(""), .network(""), .timedOut(""), .keyNotInResponse("")])
    func aRefusalStandsForThePlayback(error: KeyError) async {
        let session = KeySession()
        let watcher = Watcher(session)
        var playback: KeyPlayback? = session.playback(of: 1)
        if let playback { demand(playback, in: session) }
        await watcher.next { $0.request != nil }?.request?.finishLoading(with: error)
        // Another element of the pipeline, which started after that.
        let later = session.playback(of: 1)
        #expect(later === playback)
        demand(later, in: session)
        #expect(await requests(watcher, of: session) == 1)
        // Another pipeline.
        let other = session.playback(of: 2)
        demand(other, in: session)
        #expect(await requests(watcher, of: session) == 2)
        playback = nil
    }

    @Test func theNextStartAsksAgain() async {
        let session = KeySession()
        let watcher = Watcher(session)
        do {
            let playback = session.playback(of: 1)
            demand(playback, in: session)
            await watcher.next { $0.request != nil }?.request?.finishLoading(with: .denied(""))
            #expect(isNews(.refusal(keyID(1), .denied("")), in: playback))
        }
        let next = session.playback(of: 1)
        #expect(isNews(.refusal(keyID(1), .denied("")), in: next))
        demand(next, in: session)
        #expect(await requests(watcher, of: session) == 2)
    }

    /// Nobody was asked: an element that knows more of the key may be luckier.
    @Test(arguments: [KeyError.noLoader(""), .malformedRequest(""), .cancelled("")])
    func otherFailuresAreAnElementsOwn(error: KeyError) async {
        let session = KeySession()
        let watcher = Watcher(session)
        let playback = session.playback(of: 1)
        demand(playback, in: session)
        await watcher.next { $0.request != nil }?.request?.finishLoading(with: error)
        demand(playback, in: session)
        #expect(await requests(watcher, of: session) == 2)
    }

    @Test func eachThingIsToldOnce() {
        let playback = KeySession().playback(of: 1)
        for _ in 0..<2 { #expect(isNews(.failedRequest(0), in: playback)) }
        let notices: [KeyPlayback.Notice] = [
            .failedRequest(7), .refusal(keyID(1), .denied("a")), .refusal(keyID(1), .denied("b")), .wrongKey(nil),
        ]
        for notice in notices {
            for expected in [true, false] { #expect(isNews(notice, in: playback) == expected) }
        }
        for expected in [true, false] { #expect(playback.mayAskAlone(keyID(1)) == expected) }
    }

    /// What follows from a notice comes after it, for the element that tells it and for the others.
    @Test func whatFollowsComesAfterTheNotice() {
        let playback = KeySession().playback(of: 1)
        let events = Mutex<[String]>([])
        let notice = KeyPlayback.Notice.refusal(keyID(1), .denied(""))
        playback.tellOnce(notice) {
            playback.tellOnce(notice) {
                Issue.record("told twice")
            } completion: {
                events.withLock { $0.append("second follows") }
            }
            events.withLock { $0.append("told") }
        } completion: {
            events.withLock { $0.append("first follows") }
        }
        playback.tellOnce(notice) {
            Issue.record("told again")
        } completion: {
            events.withLock { $0.append("third follows") }
        }
        #expect(events.withLock(\.self) == ["told", "first follows", "second follows", "third follows"])
    }

    private func isNews(_ notice: KeyPlayback.Notice, in playback: KeyPlayback) -> Bool {
        var isTold = false
        playback.tellOnce(notice, with: { isTold = true })
        return isTold
    }

    /// Nothing says that the keys come if they are asked for one by one. An answer with others of them may.
    @Test(arguments: [[], [2], [1, 2]])
    func anAnswerWithoutAnyKeyIsToldFromOneWithSome(others: [Int]) async {
        let session = KeySession()
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1), keyID(2), keyID(3)]))
        let keys = Dictionary(uniqueKeysWithValues: others.map { (keyID($0), contentKey($0)) })
        await watcher.next { $0.request != nil }?.request?.finishLoading(with: .keys(keys))
        _ = await watcher.next(where: \.isFailed)
        for number in [1, 2, 3] {
            #expect(session.failedWithoutAny(keyID(number)) == others.isEmpty)
        }
    }

    @Test func aLoadersErrorIsNoAnswer() async {
        let session = KeySession()
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1), keyID(2)]))
        await watcher.next { $0.request != nil }?.request?.finishLoading(with: .keyNotInResponse(""))
        _ = await watcher.next(where: \.isFailed)
        #expect(!session.failedWithoutAny(keyID(1)))
    }

    // MARK: Checksums

    @Test func aHeadersChecksumTellsAWrongKey() throws {
        let checksum = try PlayReadyChecksum.checksum(of: contentKey(1), keyID: keyID(1), algorithm: .aesCTR)
        var checksums = KeyChecksums()
        checksums.add([.init(keyID(1), checksum: checksum), .init(keyID(2))])
        #expect(!checksums.contradicts(contentKey(1), keyID(1)))
        #expect(checksums.contradicts(contentKey(2), keyID(1)))
        #expect(!checksums.contradicts(contentKey(2), keyID(2)))
    }

    @Test func cookiesAreThoseOfTheOnlyPresentation() {
        let playback = KeySession().playback(of: 1)
        let cookies = CookieStore()
        #expect(playback.cookies == nil)
        for _ in 0..<2 { playback.note(manifestURL: "https://media.example/a.mpd", cookies: cookies) }
        #expect(playback.cookies === cookies)
        playback.note(manifestURL: "https://media.example/a.mpd", cookies: CookieStore())
        #expect(playback.cookies == nil)
    }

    @Test func manifestsOfOneOriginTellWhereMediaCameFrom() {
        let playback = KeySession().playback(of: 1)
        #expect(playback.manifestURL == nil)
        playback.note(manifestURL: "https://media.example/a.mpd")
        playback.note(manifestURL: "https://media.example:443/b.mpd")
        #expect(playback.manifestURL == "https://media.example/a.mpd")
        playback.note(manifestURL: "https://other.example/a.mpd")
        #expect(playback.manifestURL == "")
        // So many that their origins are not looked at.
        let long = KeySession().playback(of: 1)
        for number in 0..<20 { long.note(manifestURL: "https://media.example/\(number).mpd") }
        #expect(long.manifestURL == "")
    }

    /// Once something else was named, it stays so.
    @Test func manifestsInFilesPlayFilesUntilOneNamesServers() {
        let playback = KeySession().playback(of: 1)
        playback.note(manifestURL: "file:///films/a.mpd")
        #expect(playback.playsFiles == nil)
        for (isAll, result) in [(true, true), (true, true), (false, false), (true, false)] {
            playback.note(playsFiles: isAll)
            #expect(playback.playsFiles == result)
        }
        let remote = KeySession().playback(of: 1)
        remote.note(playsFiles: true)
        remote.note(manifestURL: "https://media.example/a.mpd")
        #expect(remote.playsFiles == false)
    }
}
