// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyElements

/// When an element that has told of a wrong key gives up on the start of playback.
@Suite struct IdleLooksTests {
    /// The number of the first look, of forty, that gives up.
    private func firstIdleLook(decrypted: (Int) -> UInt64, isExcused: (Int) -> Bool = { _ in false }) -> Int? {
        var looks = IdleLooks()
        return (1...40).first { looks.look(decrypted: decrypted($0), isExcused: isExcused($0)) }
    }

    @Test func nothingMoreForEightLooksIsTheEnd() {
        // The first look sees what was decrypted before.
        #expect(firstIdleLook(decrypted: { _ in 7 }) == 9)
        #expect(firstIdleLook(decrypted: { UInt64(min($0, 5)) }) == 13)
        #expect(firstIdleLook(decrypted: { UInt64($0) }) == nil)
        #expect(firstIdleLook(decrypted: { UInt64($0 / 8) }) == nil)
        #expect(firstIdleLook(decrypted: { UInt64($0 / 9) }) == 17)
        #expect(firstIdleLook(decrypted: { _ in 0 }) == nil)
    }

    @Test func aReasonBeginsTheCountAnew() {
        #expect(firstIdleLook(decrypted: { _ in 7 }, isExcused: { $0 == 5 }) == 13)
        #expect(firstIdleLook(decrypted: { _ in 7 }, isExcused: { _ in true }) == nil)
    }
}
