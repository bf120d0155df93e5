// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyTestServer

@Suite("Session book")
struct SessionBookTests {
    private static func book(_ change: (inout SessionSettings) -> Void = { _ in }) -> SessionBook {
        var settings = SessionSettings()
        settings.interval = 10
        change(&settings)
        return SessionBook(settings: settings)
    }

    @discardableResult
    private static func setUp(
        _ book: inout SessionBook, _ id: String, account: String = "anna", group: String = "", code: String? = nil,
        at seconds: Int = 0
    ) throws(SessionBook.Refusal) -> SessionBook.Session {
        try book.setUp(
            id, account: account, device: "TV", group: group, content: "film", terminating: code, token: "t-\(id)",
            terminationCode: "end-\(id)", now: .seconds(seconds))
    }

    @Test func anAccountHasAsManySessionsAsItMay() throws {
        var book = Self.book()
        try Self.setUp(&book, "a")
        try Self.setUp(&book, "b")
        try Self.setUp(&book, "x", account: "otto")
        let now = Duration.seconds(0)
        let own = book.live(at: now).filter { $0.account == "anna" }
        #expect(own.map(\.id) == ["a", "b"])
        #expect(throws: SessionBook.Refusal.limit(own)) { try Self.setUp(&book, "c") }
        try book.end("a", .teardown, now: now)
        try Self.setUp(&book, "c")
        #expect(book.counters.setups == 4 && book.counters.refusals == 1)
    }

    @Test func aLicenseIsASignOfLife() throws {
        var book = Self.book()
        try Self.setUp(&book, "a")
        #expect(book.touch(["x", "t-a"], now: .seconds(25)) == "a")
        #expect(book.live(at: .seconds(50)).map(\.id) == ["a"])
        #expect(book.touch(["t-a"], now: .seconds(56)) == nil)
        #expect(book.touch(["x"], now: .seconds(26)) == nil)
    }

    @Test func aGroupOfDevicesHasALimitOfItsOwn() throws {
        var book = Self.book {
            $0.perAccount = 0
            $0.perDeviceGroup = 1
        }
        try Self.setUp(&book, "a", group: "phones")
        try Self.setUp(&book, "b", group: "TVs")
        #expect(throws: SessionBook.Refusal.self) { try Self.setUp(&book, "c", group: "phones") }
    }

    @Test func theOldestGoesWhereThatIsTheRule() throws {
        var book = Self.book { $0.atLimit = .oldest }
        for id in ["a", "b", "c"] { try Self.setUp(&book, id) }
        #expect(book.live(at: .zero).map(\.id) == ["b", "c"])
        #expect(throws: SessionBook.Refusal.over(.terminated)) {
            try book.beat("a", token: "t-a", next: "n", now: .zero)
        }
    }

    @Test func aCodeEndsAnotherSessionOfTheAccountOnly() throws {
        var book = Self.book()
        for id in ["a", "b"] { try Self.setUp(&book, id) }
        try Self.setUp(&book, "x", account: "otto")
        #expect(throws: SessionBook.Refusal.self) { try Self.setUp(&book, "c", code: "end-x") }
        try Self.setUp(&book, "c", code: "end-a")
        #expect(book.live(at: .zero).map(\.id) == ["b", "x", "c"])
    }

    @Test func tokensRotateAndALostAnswerIsForgiven() throws {
        var book = Self.book()
        try Self.setUp(&book, "a")
        _ = try book.beat("a", token: "t-a", next: "2", now: .seconds(5))
        // Answers were lost; the client has the old token.
        for seconds in 6..<9 { _ = try book.beat("a", token: "t-a", next: "\(seconds)", now: .seconds(seconds)) }
        _ = try book.beat("a", token: "8", next: "9", now: .seconds(9))
        for old in ["t-a", "2", "7"] {
            #expect(throws: SessionBook.Refusal.tokenUnknown) {
                try book.beat("a", token: old, next: "x", now: .seconds(10))
            }
        }
        _ = try book.beat("a", token: "9", next: "10", now: .seconds(11))
    }

    @Test func aSetupThatIsSentAgainIsTheSameSession() throws {
        var book = Self.book { $0.perAccount = 1 }
        try Self.setUp(&book, "a")
        try Self.setUp(&book, "a")
        #expect(book.live(at: .zero).count == 1 && book.counters.setups == 1)
        #expect(throws: SessionBook.Refusal.nameTaken) { try Self.setUp(&book, "a", account: "otto") }
    }

    @Test func whoIsSilentIsForgottenAfterTheMissedBeats() throws {
        var book = Self.book { $0.perAccount = 1 }
        try Self.setUp(&book, "a")
        #expect(throws: SessionBook.Refusal.self) { try Self.setUp(&book, "b", at: 30) }
        try Self.setUp(&book, "b", at: 31)
        #expect(throws: SessionBook.Refusal.over(.expired)) {
            try book.beat("a", token: "t-a", next: "n", now: .seconds(32))
        }
        #expect(book.counters.ends == [.expired: 1] && book.counters.refusedBeats == 1)
        // Much later, nobody remembers it.
        _ = try book.beat("b", token: "t-b", next: "n", now: .seconds(50))
        #expect(throws: SessionBook.Refusal.self) { try book.beat("b", token: "n", next: "m", now: .seconds(5000)) }
        #expect(book.sessions["a"] == nil)
    }
}
