// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyContainers

/// Packets that go on where they lie: nobody writes to them as long as somebody has them.
@Suite struct SharedOutputTests {
    /// Packet `number` of a stream: its number in every byte that fits, behind the sync byte.
    private static func packet(_ number: Int) -> [UInt8] {
        [TransportPacket.syncByte] + (0..<187).map { UInt8(truncatingIfNeeded: number >> ($0 % 4 * 8)) }
    }

    private struct Loan {
        var bytes: SharedBytes
        var first: Int
        var count: Int

        var isRight: Bool {
            bytes.bytes.elementsEqual((first..<first + count).flatMap { SharedOutputTests.packet($0) })
        }
    }

    @Test(arguments: 0..<20)
    func whatIsLentStaysAsItIs(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        var store = PacketStore()
        var loans: [Loan] = []
        var next = 0
        let mostLoans = [0, 1, 3, 40][seed % 4]
        var (wrong, lent) = (0, 0)
        for _ in 0..<200 {
            let count = Int.random(in: 1...64, using: &random)
            let bytes = (next..<next + count).flatMap { Self.packet($0) }
            let number = bytes.withUnsafeBytes { bytes in
                bytes.baseAddress.map { store.append($0, count: count) }
            }
            #expect(number == next)
            next += count
            // Sometimes much is held.
            let isHeld = (seed / 4).isMultiple(of: 2) && next % 6000 < 3000
            let before = isHeld ? store.first : Int.random(in: store.first...store.end, using: &random)
            let first = store.first
            if let loan = store.lend(before: before) {
                loans.append(Loan(bytes: loan, first: first, count: before - first))
                lent += before - first
            } else {
                #expect(before == first)
            }
            while loans.count > mostLoans {
                let loan = loans.remove(at: Int.random(in: 0..<loans.count, using: &random))
                if !loan.isRight { wrong += 1 }
            }
            for number in [store.first, store.end - 1] where store.count > 0 {
                let bytes = UnsafeBufferPointer(start: store.packet(number).bytes, count: TransportPacket.size)
                if !bytes.elementsEqual(Self.packet(number)) { wrong += 1 }
            }
        }
        for loan in loans where !loan.isRight { wrong += 1 }
        #expect(wrong == 0)
        #expect(lent > 1000)
    }

    /// All loans are kept, also past the stream.
    @Test(arguments: Corpus.tracks.filter { $0.files[0].pathExtension == "ts" }, [9_997, 65_536])
    func whatIsSharedIsWhatIsCopied(track: Corpus.Track, size: Int) throws {
        let bytes = Array(try Data(contentsOf: track.files[0]))
        var whole = try Decryption(key: track.key, iv: track.iv(ofSegment: 0))
        try whole.append(bytes)
        try whole.end()
        let expected = whole.takeOutput()
        var loans: [SharedBytes] = []
        do {
            let stream = SampleAESStream()
            let cipher = try SampleCipher(key: try #require(ContentKey(hex: track.key)))
            let vector = try #require(InitializationVector(Hex.decode(track.iv(ofSegment: 0)) ?? []))
            func proceed() throws {
                while try stream.next() == .unit {
                    try stream.withUnit { plan, bytes in
                        var plan = plan
                        plan.initializationVector = vector
                        try cipher.decrypt(plan, in: bytes)
                    }
                }
                while let loan = stream.shareOutput(upTo: 100_000) { loans.append(loan) }
                #expect(stream.outputSize == 0)
            }
            for start in stride(from: 0, to: bytes.count, by: size) {
                try Array(bytes[start..<min(bytes.count, start + size)]).withUnsafeBytes { try stream.append($0) }
                try proceed()
            }
            try stream.end()
            try proceed()
        }
        let isSame = loans.flatMap { Array($0.bytes) } == expected
        #expect(isSame)
        #expect(!loans.isEmpty)
    }

    @Test func packedAudioIsNotShared() throws {
        let track = try #require(Corpus.tracks.first { $0.files[0].pathExtension == "aac" })
        let stream = SampleAESStream()
        try Array(try Data(contentsOf: track.files[0])).withUnsafeBytes { try stream.append($0) }
        _ = try stream.next()
        let shared = stream.shareOutput(upTo: .max)
        #expect(shared == nil)
    }
}
