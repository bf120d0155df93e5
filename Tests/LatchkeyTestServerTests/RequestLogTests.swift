// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyTestServer

@Suite struct RequestLogTests {
    @Test func anAnswerFindsItsRequest() {
        var log = RequestLog()
        let first = log.begin(method: "GET", path: "/a")
        let second = log.begin(method: "POST", path: "/b")
        log.update(second) { $0.status = 404 }
        #expect(log.entries.map(\.status) == [nil, 404])
        log.update(first) { $0.status = 200 }
        #expect(log.entries.map(\.status) == [200, 404])
    }

    @Test func anAnswerToAClearedRequestChangesNothing() {
        var log = RequestLog()
        let old = log.begin(method: "GET", path: "/old")
        log.clear()
        let new = log.begin(method: "GET", path: "/new")
        #expect(new != old)
        log.update(old) { $0.status = 500 }
        #expect(log.entries == [RequestLog.Entry(method: "GET", path: "/new")])
    }

    @Test func theOldestEntriesGoWhenItIsFull() {
        var log = RequestLog()
        for number in 0...RequestLog.capacity { _ = log.begin(method: "GET", path: "/\(number)") }
        #expect(log.entries.count == RequestLog.capacity * 9 / 10 + 1)
        #expect(log.entries.first?.path == "/\(RequestLog.capacity / 10)")
        log.update(RequestLog.capacity) { $0.status = 200 }
        #expect(log.entries.last?.status == 200)
        log.update(0) { $0.status = 200 }
        #expect(log.entries.count { $0.status == 200 } == 1)
    }
}
