// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

@Suite struct ReplayWindowTests {
    @Test func remembersForItsLengthAndNoLonger() {
        var window = ReplayWindow(length: .seconds(10), capacity: 100)
        func admit(_ marks: [[UInt8]], at seconds: Int) -> Bool { window.admit(marks, now: .seconds(seconds)) }
        #expect(admit([[1], [2]], at: 0))
        #expect(!admit([[1], [3]], at: 9))
        #expect(!admit([[3], [2]], at: 9))
        // What was refused is not remembered.
        #expect(admit([[3]], at: 9))
        #expect(admit([[1], [2]], at: 10))
        #expect(!admit([[3]], at: 18))
        #expect(admit([[3]], at: 19))
    }

    @Test func forgetsTheOldestAboveItsCapacity() {
        var window = ReplayWindow(length: .seconds(1000), capacity: 3)
        func admit(_ marks: [[UInt8]], at seconds: Int) -> Bool { window.admit(marks, now: .seconds(seconds)) }
        for number in 0..<5 { #expect(admit([[UInt8(number)]], at: 0)) }
        #expect(window.count == 3)
        #expect(admit([[0]], at: 0))
        #expect(!admit([[4]], at: 0))
    }

    @Test(arguments: [UInt64(1), 2])
    func agreesWithASimpleModelAndStaysSmall(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        var window = ReplayWindow(length: .seconds(50), capacity: 10_000)
        func admit(_ marks: [[UInt8]], at seconds: Int) -> Bool { window.admit(marks, now: .seconds(seconds)) }
        var last: [[UInt8]: Int] = [:]
        var now = 0
        for _ in 0..<20_000 {
            now += Int.random(in: 0...2, using: &generator)
            let mark = [UInt8.random(in: 0...200, using: &generator)]
            let isKnown = last[mark].map { now - $0 < 50 } ?? false
            #expect(admit([mark], at: now) == !isKnown)
            if !isKnown { last[mark] = now }
            #expect(window.count <= 50 * 3)
        }
    }
}
