// SPDX-License-Identifier: MPL-2.0

import Foundation
import Testing

@testable import LatchkeyTestServer

@Suite struct FaultTests {
    @Test(arguments: [
        ("delay:250", Fault.delay(milliseconds: 250)), ("status:503", .status(503)),
        ("truncate:0", .truncate(bytes: 0)),
        ("garbage", .garbage), ("never", .never), ("drip:1", .drip(bytesPerSecond: 1)),
    ])
    func isReadAsItIsWritten(text: String, fault: Fault) throws {
        #expect(try Fault(text) == fault)
        #expect(fault.description == text)
    }

    @Test(arguments: [
        "", "delay", "delay:", "delay:-1", "delay:x", "delay:1:2", "status:99", "status:100", "status:600",
        "truncate:-1", "truncate:99999999999999999999", "drip:0", "garbage:1", "never:1", "Never", "slow",
    ])
    func refuses(text: String) {
        #expect(throws: FaultError.self) { try Fault(text) }
    }

    @Test(arguments: [
        ("/clearkey=status:503", FaultRule(prefix: "/clearkey", fault: .status(503))),
        ("/media/=drip:10*3", FaultRule(prefix: "/media/", fault: .drip(bytesPerSecond: 10), times: 3)),
        ("/=never*1", FaultRule(prefix: "/", fault: .never, times: 1)),
    ])
    func aRuleIsReadAsItIsWritten(text: String, rule: FaultRule) throws {
        #expect(try FaultRule(text) == rule)
        #expect(rule.description == text)
        #expect(try JSONDecoder().decode(FaultRule.self, from: JSONEncoder().encode(rule)) == rule)
    }

    @Test(arguments: [
        "", "never", "clearkey=never", "/clearkey", "/clearkey=", "/clearkey=never*", "/clearkey=never*0",
        "/clearkey=never*x", "/clearkey=never*1*2", "=never",
    ])
    func refusesARule(text: String) {
        #expect(throws: FaultError.self) { try FaultRule(text) }
    }

    @Test func theFirstRuleThatFitsIsUsedUp() {
        var plan = FaultPlan(rules: [
            FaultRule(prefix: "/media/a", fault: .garbage, times: 2), FaultRule(prefix: "/media/", fault: .never),
        ])
        #expect(plan.take(forPath: "/clearkey") == nil)
        #expect(plan.take(forPath: "/media/b") == .never)
        #expect(plan.take(forPath: "/media/a1") == .garbage)
        #expect(plan.rules.first?.times == 1)
        #expect(plan.take(forPath: "/media/a2") == .garbage)
        #expect(plan.rules == [FaultRule(prefix: "/media/", fault: .never)])
        #expect(plan.take(forPath: "/media/a3") == .never)
    }
}
