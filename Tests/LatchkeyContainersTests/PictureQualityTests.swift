// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import Testing

@Suite struct PictureQualityTests {
    private static func quality(_ rate: UInt32, _ width: UInt32, _ height: UInt32) -> PictureQuality {
        PictureQuality(bitRate: rate, width: width, height: height)
    }

    private let ladder = [
        Self.quality(5000, 1920, 1080), Self.quality(800, 640, 360), Self.quality(1500, 960, 540),
        Self.quality(400, 416, 234),
    ]

    @Test func lowerOnesAreChosenByTheirBitRate() {
        #expect(ladder.bitRateLimit(pixels: 520_000) == 1500)
        #expect(ladder.bitRateLimit(pixels: 518_399) == 800)
        #expect(ladder.bitRateLimit(pixels: 1920 * 1080) == nil)
        // None is small enough: the lowest has the least to lose.
        #expect(ladder.bitRateLimit(pixels: 1) == 400)
        #expect(ladder.bitRateLimit(pixels: -1) == 400)
        #expect([PictureQuality]().bitRateLimit(pixels: 1) == nil)
        // A large one at a low rate cannot be told from the small ones by the rate: they go with it.
        #expect((ladder + [Self.quality(1000, 3840, 2160)]).bitRateLimit(pixels: 520_000) == 800)
        #expect([Self.quality(5, 100, 100), Self.quality(5, 10, 10)].bitRateLimit(pixels: 100) == 5)
        let largest = [Self.quality(1, .max, .max), Self.quality(2, 1, 1)]
        #expect(largest.bitRateLimit(pixels: .max) == 1)
    }

    @Test func lowerOnesAreChosenByTheirSize() throws {
        func limit(_ pixels: Int) throws -> [UInt32] {
            let (width, height) = try #require(ladder.frameLimit(pixels: pixels))
            return [width, height]
        }
        #expect(try limit(520_000) == [960, 540])
        #expect(try limit(518_399) == [640, 360])
        #expect(try limit(0) == [416, 234])
        #expect(ladder.frameLimit(pixels: .max) == nil)
        #expect([PictureQuality]().frameLimit(pixels: 1) == nil)
    }
}
