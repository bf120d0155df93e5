// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

@Suite struct SamplePlanTests {
    @Test func eightBytesAreTheHighHalf() throws {
        let short = try #require(InitializationVector([1, 2, 3, 4, 5, 6, 7, 8]))
        #expect(short.high == 0x0102_0304_0506_0708)
        #expect(short.low == 0)
        #expect(short.bytes == [1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0])
    }

    @Test func sixteenBytesGoThereAndBack() throws {
        let bytes = (0..<16).map { UInt8(0xf0 + $0) }
        let vector = try #require(InitializationVector(bytes))
        #expect(vector.high == 0xf0f1_f2f3_f4f5_f6f7)
        #expect(vector.low == 0xf8f9_fafb_fcfd_feff)
        #expect(vector.bytes == bytes)
    }

    @Test(arguments: [0, 1, 7, 9, 15, 17, 255])
    func otherSizesAreNoVector(count: Int) {
        #expect(InitializationVector([UInt8](repeating: 0, count: count)) == nil)
    }

    @Test func schemesHaveTheirFourCharacterCodes() {
        #expect(ProtectionScheme.allCases.map(\.rawValue) == ["cenc", "cbc1", "cens", "cbcs"])
        #expect(ProtectionScheme(rawValue: "piff") == nil)
    }

    @Test func clearedMapsKeepTheirStorage() throws {
        var plan = SamplePlan(
            scheme: .cenc, initializationVector: try #require(InitializationVector([0, 0, 0, 0, 0, 0, 0, 0])))
        for index in 0..<UInt32(100) { plan.subsamples.append(Subsample(clear: index, protected: 1)) }
        let capacity = plan.subsamples.capacity
        plan.subsamples.removeAll(keepingCapacity: true)
        #expect(plan.subsamples.isEmpty)
        #expect(plan.subsamples.capacity == capacity)
    }
}
