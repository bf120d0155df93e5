// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

@Suite struct KeyErrorTests {
    private static let make: [@Sendable (String) -> KeyError] = [
        { .noLoader($0) }, { .denied($0) }, { .keyNotInResponse($0) }, { .malformedResponse($0) },
        { .malformedRequest($0) }, { .network($0) }, { .serverStatus($0) }, { .timedOut($0) }, { .cancelled($0) },
        { .sessionClosed($0) }, { .invalidConfiguration($0) }, { .leaseExpired($0) },
    ]

    @Test func kindsAreApart() {
        for (index, make) in Self.make.enumerated() {
            for (other, makeOther) in Self.make.enumerated() {
                #expect(make("a").isSameKind(as: makeOther("b")) == (index == other))
            }
        }
        #expect(Set(Self.make.map { $0("").shortDescription }).count == Self.make.count)
    }

    @Test func detailsAreInTheLongTextOnly() {
        for make in Self.make {
            let error = make("KID 0011")
            #expect(error.description.hasPrefix(error.shortDescription))
            #expect(error.description.hasSuffix(": KID 0011"))
            #expect(!error.shortDescription.contains("0011"))
            #expect(make("").description == make("").shortDescription)
        }
    }
}
