// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

@Suite struct JSONNestingTests {
    private func isBounded(_ text: String) -> Bool { JSONNesting.isBounded(Array(text.utf8)) }
    private func open(_ count: Int) -> String { String(repeating: "[", count: count) }

    @Test func arraysAndObjectsCountUntilTheyEnd() {
        #expect(isBounded(open(64) + String(repeating: "]", count: 64)))
        #expect(isBounded(String(repeating: "[]{}", count: 1000)))
        #expect(!isBounded(open(65)))
        #expect(!isBounded(String(repeating: #"{"a":"#, count: 65)))
    }

    @Test func whatIsInStringsDoesNotCount() {
        #expect(isBounded("\"" + open(1000) + "\""))
        #expect(isBounded(#"["\""# + open(1000) + "\"]"))
        // Brackets in strings do not make up for others.
        #expect(!isBounded(#"["]]]]","# + open(64)))
        #expect(!isBounded(#"["\\","# + open(64)))
    }

    @Test func otherEncodingsAreRefused() {
        #expect(!JSONNesting.isBounded([0x5B, 0, 0x5D, 0]))
        #expect(!JSONNesting.isBounded([0, 0x5B, 0, 0x5D]))
        #expect(isBounded("[\"ä\u{1F600}\"]"))
        #expect(isBounded(""))
    }
}
