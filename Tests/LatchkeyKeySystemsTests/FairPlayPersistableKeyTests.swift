// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

@Suite struct FairPlayPersistableKeyTests {
    private let secret = [UInt8](repeating: 0x5A, count: 32)
    private let identifier = Array("skd://stored".utf8)
    private let start: UInt64 = 1_700_000_000

    private func license(_ terms: FairPlayTerms) throws -> FairPlayLicense {
        var options = FairPlayExchange.Options(state: .readyToStart, time: start, sessionID: 1)
        options.requestsPersistableKey = true
        let exchange = try FairPlayTestKit.exchange(options: options)
        return try exchange.open(response: try FairPlayTestKit.answer(exchange, terms: terms).ckc)
    }

    private func key(_ terms: FairPlayTerms) throws -> FairPlayPersistableKey {
        try FairPlayPersistableKey(license: try license(terms), contentIdentifier: identifier, now: start)
    }

    private func dual(storage: UInt32, playback: UInt32) -> FairPlayTerms {
        FairPlayTerms(
            persistence: .unlimited,
            offlineKey: OfflineKeyTerms(
                streamID: [UInt8](repeating: 1, count: 16), storage: storage, playback: playback))
    }

    private func open(
        _ sealed: [UInt8], at time: UInt64, revision: UInt64 = 0, secret: [UInt8]? = nil
    ) throws(FairPlayError) -> FairPlayPersistableKey {
        try FairPlayPersistableKey(
            opening: sealed, secret: secret ?? self.secret, contentIdentifier: identifier, now: time,
            minimumRevision: revision)
    }

    private func code(_ body: () throws -> Any) -> Int? {
        do { _ = try body() } catch { return (error as? FairPlayError)?.code }
        return nil
    }

    @Test func theStoredKeyIsTheOneThatCame() throws {
        let license = try license(FairPlayTerms(persistence: .unlimited, outputRequirement: .hdcpType1))
        let key = try FairPlayPersistableKey(license: license, contentIdentifier: identifier, now: start)
        let opened = try open(try key.sealed(secret: secret), at: .max - 1)
        #expect(opened.contentKey == (try FairPlayTestKit.contentKey()))
        #expect(opened.contentKey.initializationVector?.bytes == FairPlayTestKit.ivBytes)
        #expect(opened.contentIdentifier == identifier)
        #expect(opened.outputRequirement == .hdcpType1)
        #expect(opened.created == start && opened.revision == 1 && opened.expiry == nil)
        #expect(opened.firstPlayback == nil && opened.playbackDuration == nil)
    }

    @Test func aLicenseHasToAllowIt() throws {
        for terms in [FairPlayTerms(), FairPlayTerms(lease: 60), FairPlayTerms(rental: 60)] {
            #expect(code { try key(terms) } == -42668)
        }
        // One that allows it, but has no key: a lease that is given back.
        let exchange = try FairPlayTestKit.exchange(options: .init(state: .stopped, time: start, sessionID: 1))
        let answer = try FairPlayTestKit.answer(exchange, terms: FairPlayTerms(persistence: .unlimited))
        let license = try exchange.open(response: answer.ckc)
        #expect(license.contentKey == nil)
        #expect(
            code {
                try FairPlayPersistableKey(license: license, contentIdentifier: identifier, now: start)
            } == -42668)
    }

    @Test func aRentalEndsWhateverHappens() throws {
        let key = try key(FairPlayTerms(rental: 3600, persistence: .forRentalDuration))
        #expect(key.expiry == start + 3600)
        let sealed = try key.sealed(secret: secret)
        _ = try open(sealed, at: start + 3599)
        #expect(code { try open(sealed, at: start + 3600) } == -42800)
    }

    @Test func thePlaybackDurationTakesThePlaceOfTheStorageDuration() throws {
        var key = try key(dual(storage: 1000, playback: 500))
        #expect(key.expiry == start + 1000)
        #expect(code { try open(try key.sealed(secret: secret), at: start + 1000) } == -42800)
        #expect(try key.beginPlayback(now: start + 900))
        #expect(key.revision == 2 && key.firstPlayback == start + 900)
        #expect(key.expiry == start + 1400)
        let sealed = try key.sealed(secret: secret)
        var opened = try open(sealed, at: start + 1399)
        #expect(opened.firstPlayback == start + 900)
        // The time does not start anew.
        #expect(try opened.beginPlayback(now: start + 1399) == false)
        #expect(opened.revision == 2 && opened.expiry == start + 1400)
        #expect(code { try open(sealed, at: start + 1400) } == -42800)
        #expect(code { try opened.beginPlayback(now: start + 1400) } == -42800)
    }

    @Test func aDurationOfZeroIsNoLimit() throws {
        var storageOnly = try key(dual(storage: 100, playback: 0))
        #expect(try storageOnly.beginPlayback(now: start + 50) == false)
        #expect(storageOnly.expiry == start + 100)
        var playbackOnly = try key(dual(storage: 0, playback: 100))
        #expect(playbackOnly.expiry == nil)
        #expect(try playbackOnly.beginPlayback(now: start + 1_000_000))
        #expect(playbackOnly.expiry == start + 1_000_100)
    }

    @Test func anOlderRecordThatIsPutBackIsRefused() throws {
        var key = try key(dual(storage: 1000, playback: 500))
        let unplayed = try key.sealed(secret: secret)
        #expect(try key.beginPlayback(now: start + 10))
        let played = try key.sealed(secret: secret)
        #expect(code { try open(unplayed, at: start + 20, revision: key.revision) } == -42803)
        _ = try open(played, at: start + 20, revision: key.revision)
    }

    @Test func aClockThatWasSetBackIsRefused() throws {
        var key = try key(dual(storage: 100_000, playback: 500))
        let tolerance = FairPlayPersistableKey.clockTolerance
        let sealed = try key.sealed(secret: secret)
        _ = try open(sealed, at: start - tolerance)
        #expect(code { try open(sealed, at: start - tolerance - 1) } == -42803)
        #expect(try key.beginPlayback(now: start + 10_000))
        #expect(code { try open(try key.sealed(secret: secret), at: start) } == -42803)
    }

    @Test func aRecordOfAnotherDeviceOrForOtherContentIsRefused() throws {
        let sealed = try key(FairPlayTerms(persistence: .unlimited)).sealed(secret: secret)
        #expect(code { try open(sealed, at: start, secret: [UInt8](repeating: 0x5B, count: 32)) } == -42803)
        #expect(code { try open(sealed, at: start, secret: [1, 2, 3]) } == -42803)
        #expect(
            code {
                try FairPlayPersistableKey(opening: sealed, secret: secret, contentIdentifier: [1, 2], now: start)
            } == -42803)
        _ = try FairPlayPersistableKey(opening: sealed, secret: secret, now: start)
        #expect(code { try key(FairPlayTerms(persistence: .unlimited)).sealed(secret: [1]) } == -42803)
    }

    @Test func aFormatThatIsNotKnownHasANumberOfItsOwn() throws {
        var sealed = try key(FairPlayTerms(persistence: .unlimited)).sealed(secret: secret)
        for format: UInt8 in [0, 2, 255] {
            sealed[5] = format
            #expect(code { try open(sealed, at: start) } == -42799)
        }
    }

    @Test func everyChangeAndEveryTruncationIsRefused() throws {
        var generator = SeededGenerator(seed: 1)
        let sealed = try key(dual(storage: 10, playback: 10)).sealed(secret: secret)
        for position in sealed.indices {
            var changed = sealed
            changed[position] ^= UInt8.random(in: 1...255, using: &generator)
            let expected = position == 4 || position == 5 ? -42799 : -42803
            #expect(code { try open(changed, at: start) } == expected, "byte \(position)")
            #expect(code { try open(Array(sealed.prefix(position)), at: start) } == -42803, "length \(position)")
        }
        #expect(code { try open(sealed + [0], at: start) } == -42803)
        #expect(code { try open([UInt8](repeating: 0, count: 1_000_000), at: start) } == -42803)
        for _ in 0..<500 {
            let changed = generator.mutate(sealed)
            if changed != sealed { #expect(code { try open(changed, at: start) } != nil) }
        }
    }

    @Test func whatIsSealedIsOpenedAgain() throws {
        var generator = SeededGenerator(seed: 2)
        func number() -> UInt64? {
            Bool.random(using: &generator) ? nil : UInt64.random(in: start...start * 2, using: &generator)
        }
        for _ in 0..<200 {
            let key = FairPlayPersistableKey(
                contentIdentifier: generator.bytes(Int.random(in: 0...255, using: &generator)),
                contentKey: try #require(
                    ContentKey(generator.bytes(16), initializationVector: InitializationVector(generator.bytes(16)))),
                outputRequirement: (OutputRequirement.allCases + [nil]).randomElement(using: &generator) ?? nil,
                created: start, rentalEnd: number(), storageEnd: number(),
                playbackDuration: Bool.random(using: &generator) ? nil : .random(in: 1...1000, using: &generator),
                firstPlayback: Bool.random(using: &generator) ? nil : start + 5, revision: UInt64.random(in: 1...99))
            let sealed = try key.sealed(secret: secret)
            #expect(try key.sealed(secret: secret) != sealed)
            let opened = try FairPlayPersistableKey(opening: sealed, secret: secret, now: start)
            #expect(opened.contentIdentifier == key.contentIdentifier)
            #expect(opened.contentKey == key.contentKey)
            #expect(opened.outputRequirement == key.outputRequirement)
            #expect(opened.rentalEnd == key.rentalEnd && opened.storageEnd == key.storageEnd)
            #expect(opened.playbackDuration == key.playbackDuration && opened.firstPlayback == key.firstPlayback)
            #expect(opened.created == key.created && opened.revision == key.revision)
        }
    }

    @Test func showsNoKey() throws {
        let key = try key(FairPlayTerms(rental: 60, persistence: .forRentalDuration))
        var text = "\(key)"
        dump(key, to: &text)
        #expect(text.contains("revision 1") && text.contains("1700000060"))
        #expect(!text.contains("60, 61") && !text.lowercased().contains(Hex.encode(FairPlayTestKit.keyBytes)))
        let sealed = try key.sealed(secret: secret)
        #expect(!Hex.encode(sealed).contains(Hex.encode(FairPlayTestKit.keyBytes)))
    }
}
