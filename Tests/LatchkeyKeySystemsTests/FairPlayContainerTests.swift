// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyContainers
import LatchkeyKeySystems
import LatchkeyTestSupport
import Testing

/// SPC and CKC around their payloads.
@Suite struct FairPlayContainerTests {
    private func spc(
        _ version: SPCContainer.Version, payload: Int, _ generator: inout SeededGenerator
    ) throws -> SPCContainer {
        try SPCContainer(
            version: version, reserved: UInt32.random(in: 0 ... .max, using: &generator),
            initializationVector: generator.bytes(16), wrappedKey: generator.bytes(version.wrappedKeySize),
            certificateHash: generator.bytes(20), payload: generator.bytes(payload))
    }

    @Test func thePartsOfAnSPCStandWhereTheTableHasThem() throws {
        for (version, key, hash, payload) in [(SPCContainer.Version.v1, 24, 152, 176), (.v2, 24, 280, 304)] {
            let container = try SPCContainer(
                version: version, initializationVector: [UInt8](repeating: 1, count: 16),
                wrappedKey: [UInt8](repeating: 2, count: version.wrappedKeySize),
                certificateHash: [UInt8](repeating: 3, count: 20), payload: [UInt8](repeating: 4, count: 32))
            let bytes = container.serialized()
            #expect(bytes[0..<8] == [0, 0, 0, UInt8(version.rawValue), 0, 0, 0, 0])
            #expect(bytes[8..<24].allSatisfy { $0 == 1 })
            #expect(bytes[key..<hash].allSatisfy { $0 == 2 })
            #expect(bytes[hash..<hash + 20].allSatisfy { $0 == 3 })
            #expect(bytes[payload - 4..<payload] == [0, 0, 0, 32])
            #expect(Array(bytes[payload...]) == container.payload)
            #expect(container.header.count == payload)
            #expect(try SPCContainer(reading: bytes) == container)
        }
    }

    @Test func thePartsOfACKCStandWhereTheTableHasThem() throws {
        let container = try CKCContainer(
            version: 1, reserved: 0x0A0B_0C0D, initializationVector: [UInt8](repeating: 1, count: 16),
            payload: [UInt8](repeating: 4, count: 48))
        let bytes = container.serialized()
        #expect(bytes.count == CKCContainer.headerSize + 48)
        #expect(bytes[0..<8] == [0, 0, 0, 1, 10, 11, 12, 13])
        #expect(bytes[8..<24].allSatisfy { $0 == 1 })
        #expect(bytes[24..<28] == [0, 0, 0, 48])
        // Whatever stands in the reserved number.
        #expect(try CKCContainer(reading: bytes) == container)
    }

    @Test func refusesPartsOfAWrongLength() {
        let iv = [UInt8](repeating: 1, count: 16)
        func bytes(_ count: Int) -> [UInt8] { [UInt8](repeating: 1, count: count) }
        for (iv, key, hash, payload) in [
            (bytes(15), bytes(128), bytes(20), bytes(16)), (iv, bytes(256), bytes(20), bytes(16)),
            (iv, bytes(128), bytes(19), bytes(16)), (iv, bytes(128), bytes(20), bytes(0)),
            (iv, bytes(128), bytes(20), bytes(17)), (iv, bytes(128), bytes(20), bytes(TLLVPayload.maximumSize + 16)),
        ] {
            #expect(throws: FormatError.self) {
                try SPCContainer(
                    version: .v1, initializationVector: iv, wrappedKey: key, certificateHash: hash, payload: payload)
            }
        }
        for (version, iv, payload) in [
            (UInt32(0), iv, bytes(16)), (3, iv, bytes(16)), (1, bytes(12), bytes(16)), (1, iv, []), (2, iv, bytes(8)),
        ] {
            #expect(throws: FormatError.self) {
                try CKCContainer(version: version, initializationVector: iv, payload: payload)
            }
        }
    }

    @Test func refusesTruncatedAndProlongedContainers() throws {
        var generator = SeededGenerator(seed: 1)
        for version in SPCContainer.Version.allCases {
            let request = try spc(version, payload: 64, &generator).serialized()
            for length in request.indices {
                #expect(throws: FormatError.self) { try SPCContainer(reading: Array(request.prefix(length))) }
            }
            #expect(throws: FormatError.self) { try SPCContainer(reading: request + [0]) }
            #expect(throws: FormatError.self) {
                try SPCContainer(reading: request + [UInt8](repeating: 0, count: SPCContainer.maximumSize))
            }
        }
        let response = try CKCContainer(
            version: 2, initializationVector: generator.bytes(16), payload: generator.bytes(64)
        ).serialized()
        for length in response.indices {
            #expect(throws: FormatError.self) { try CKCContainer(reading: Array(response.prefix(length))) }
        }
        #expect(throws: FormatError.self) { try CKCContainer(reading: response + [0]) }
    }

    @Test func namesAVersionThatIsNotKnown() throws {
        for version: UInt8 in [0, 3, 255] {
            let bytes = [0, 0, 0, version] + [UInt8](repeating: 0, count: 400)
            let request = #expect(throws: FormatError.self) { try SPCContainer(reading: bytes) }
            #expect(request?.isSameKind(as: .unsupported("")) == true)
            let response = #expect(throws: FormatError.self) { try CKCContainer(reading: bytes) }
            #expect(response?.isSameKind(as: .unsupported("")) == true)
        }
    }

    @Test(arguments: [UInt64(1), 2])
    func whatIsWrittenIsReadAgain(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<200 {
            let version = SPCContainer.Version.allCases.randomElement(using: &generator) ?? .v1
            let size = Int.random(in: 1...40, using: &generator) * 16
            let request = try spc(version, payload: size, &generator)
            #expect(try SPCContainer(reading: request.serialized()) == request)
            let response = try CKCContainer(
                version: UInt32.random(in: 1...2, using: &generator),
                reserved: UInt32.random(in: 0 ... .max, using: &generator), initializationVector: generator.bytes(16),
                payload: generator.bytes(size))
            #expect(try CKCContainer(reading: response.serialized()) == response)
        }
    }

    @Test(arguments: [UInt64(11), 12])
    func damagedContainersThrowOrAreReadAndNeverTrap(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        var (read, refused) = (0, 0)
        for _ in 0..<1000 {
            let bytes = generator.mutate(try spc(.v1, payload: 64, &generator).serialized())
            do throws(FormatError) {
                #expect(try SPCContainer(reading: bytes).serialized() == bytes)
                read += 1
            } catch {
                refused += 1
            }
            let answer = generator.mutate(
                try CKCContainer(version: 1, initializationVector: generator.bytes(16), payload: generator.bytes(64))
                    .serialized())
            if let container = try? CKCContainer(reading: answer) { #expect(container.serialized() == answer) }
        }
        #expect(read > 0)
        #expect(refused > 0)
    }
}
