// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

@testable import LatchkeyElements

/// Of which keys of its requests an element tells, and when.
@Suite struct OwnRequestsTests {
    @Test func keysMayComeOneByOne() throws {
        let first = try #require(KeyID([UInt8](repeating: 1, count: 16)))
        let second = try #require(KeyID([UInt8](repeating: 2, count: 16)))
        var requests = OwnRequests()
        requests.insert(1, for: [first, second])
        // As an answer for all repeats those that came before.
        let partial = [
            requests.areUsable([first], of: 1), requests.areUsable([first], of: 1), requests.didFail(1),
            requests.didFail(1),
        ]
        #expect(partial == [true, false, true, false])
        requests.insert(2, for: [first, second])
        let whole = [
            requests.areUsable([first], of: 2), requests.areUsable([second], of: 2),
            requests.areUsable([second], of: 2),
            requests.didFail(2),
        ]
        #expect(whole == [true, true, false, false])
        requests.insert(3, for: [])
        let nameless = [requests.areUsable([], of: 3), requests.didFail(3)]
        #expect(nameless == [true, false])
        let foreign = [requests.areUsable([first], of: 4), requests.didFail(4)]
        #expect(foreign == [false, false])
    }
}
