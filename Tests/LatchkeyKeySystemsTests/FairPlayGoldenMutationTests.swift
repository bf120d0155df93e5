// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

/// Every golden file, changed: a named error, and never a trap.
@Suite struct FairPlayGoldenMutationTests {
    /// With the code over the whole message, no flipped byte goes unnoticed: neither in padding nor in the header.
    @Test(arguments: ["spc-v1-full", "spc-v2-full"])
    func everyFlippedByteOfARequestWithACodeIsRefused(name: String) throws {
        let server = try Golden.server()
        var generator = SeededGenerator(seed: 1)
        let bytes = try Golden.file("\(name).bin")
        for position in bytes.indices {
            var changed = bytes
            changed[position] ^= UInt8.random(in: 1...255, using: &generator)
            #expect(throws: FairPlayServerError.self, "byte \(position)") { try server.open(changed) }
        }
    }

    @Test func everyFlippedByteOfAResponseWithACodeIsRefused() throws {
        var generator = SeededGenerator(seed: 2)
        for (name, request) in [("ckc-v1-full", "spc-v1"), ("ckc-v2", "spc-v2")] {
            var options = FairPlayExchange.Options()
            options.requiresIntegrity = true
            let exchange = try Golden.exchange(request, options: options)
            let bytes = try Golden.file("\(name).bin")
            #expect(try exchange.open(response: bytes).contentKey != nil)
            for position in bytes.indices {
                var changed = bytes
                changed[position] ^= UInt8.random(in: 1...255, using: &generator)
                #expect(throws: FairPlayError.self, "byte \(position)") { try exchange.open(response: changed) }
            }
        }
    }

    /// Without it, the formats notice some changes only: that is why the code is there.
    @Test func aFlippedByteOfARequestWithoutACodeIsNotAlwaysNoticed() throws {
        let server = try Golden.server()
        let bytes = try Golden.file("spc-v1.bin")
        var accepted: Set<Int> = []
        for position in bytes.indices {
            var changed = bytes
            changed[position] ^= 0x40
            do throws(FairPlayServerError) {
                _ = try server.open(changed)
                accepted.insert(position)
            } catch {
                #expect((-42591 ... -42580).contains(error.code))
            }
        }
        // The reserved number and the padding at the end, but nothing else of the header.
        #expect(accepted.isSuperset(of: [4, 5, 6, 7]) && accepted.isSuperset(of: bytes.indices.suffix(16)))
        #expect(accepted.filter { $0 < 176 }.count == 4)
        #expect(accepted.count < bytes.count / 2)
    }

    @Test(arguments: Golden.requests)
    func everyTruncationOfARequestIsRefused(name: String) throws {
        let server = try Golden.server()
        let bytes = try Golden.file("\(name).bin")
        for length in bytes.indices {
            #expect(throws: FairPlayServerError.self) { try server.open(Array(bytes.prefix(length))) }
        }
        #expect(throws: FairPlayServerError.self) { try server.open(bytes + [0]) }
    }

    @Test(arguments: Golden.responses)
    func everyTruncationOfAResponseIsRefused(name: String) throws {
        let exchange = try Golden.exchange("spc-\(Golden.version(name))")
        let bytes = try Golden.file("\(name).bin")
        for length in bytes.indices {
            let error = #expect(throws: FairPlayError.self) { try exchange.open(response: Array(bytes.prefix(length))) }
            #expect(error?.code == -42668)
        }
        #expect(throws: FairPlayError.self) { try exchange.open(response: bytes + [0]) }
    }

    @Test(arguments: [UInt64(1), 2, 3])
    func damagedFilesThrowOrAreReadAndNeverTrap(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let server = try Golden.server()
        let requests = try Golden.requests.map { try Golden.file("\($0).bin") }
        let responses = try Golden.responses.filter { $0.contains("v1") }.map { try Golden.file("\($0).bin") }
        let exchange = try Golden.exchange("spc-v1")
        var refused = (0, 0)
        for _ in 0..<400 {
            do throws(FairPlayServerError) {
                _ = try server.open(generator.mutate(requests.randomElement(using: &generator) ?? []))
            } catch {
                #expect(!error.description.isEmpty)
                refused.0 += 1
            }
            do throws(FairPlayError) {
                _ = try exchange.open(
                    response: generator.mutate(responses.randomElement(using: &generator) ?? []))
            } catch {
                #expect(error.code == -42668 || error.code == -42656)
                refused.1 += 1
            }
        }
        #expect(refused.0 > 200)
        #expect(refused.1 > 100)
    }

    /// The payload is damaged in the clear and encrypted again, so that the damage reaches every reader behind the
    /// cipher.
    @Test(arguments: [UInt64(11), 12])
    func damagedPayloadsThrowOrAreReadAndNeverTrap(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let server = try Golden.server()
        let exchange = try Golden.exchange("spc-v1")
        let request = try ForgedRequest("spc-v1-full")
        let response = try ForgedResponse("ckc-v1-full", to: "spc-v1")
        var opened = (0, 0)
        for _ in 0..<1000 {
            // Without the code, which would refuse everything before it is looked at.
            var damaged = request
            damaged[.requestIntegrity] = nil
            damaged.set(.returnRequest, ReturnRequest([.transactionIdentifier]).tllvValue)
            damage(&damaged.blocks, &generator)
            if (try? server.open(try damaged.serialized())) != nil { opened.0 += 1 }
            var answer = response
            answer.set(.responseIntegrity, nil)
            // Without the code, a block that nobody knows is refused too.
            answer.blocks.removeAll { $0.tag.name == nil }
            damage(&answer.blocks, &generator)
            if (try? exchange.open(response: try answer.serialized())) != nil { opened.1 += 1 }
        }
        #expect(opened.0 > 0 && opened.0 < 1000)
        #expect(opened.1 > 0 && opened.1 < 1000)
    }

    private func damage(_ blocks: inout [TLLV], _ generator: inout SeededGenerator) {
        let position = Int.random(in: 0..<blocks.count, using: &generator)
        let value = generator.mutate(blocks[position].value)
        blocks[position] = TLLV(blocks[position].tag, value) { generator.bytes($0) }
        blocks.shuffle(using: &generator)
    }
}
