// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

/// Requests and licenses of any content survive the way there and back; damaged ones throw or are read, and never trap.
@Suite struct ClearKeyFuzzTests {
    @Test(arguments: [UInt64(1), 2])
    func whatIsWrittenIsReadAgain(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        for _ in 0..<200 {
            let keys = randomKeys(Int.random(in: 1...8, using: &generator), &generator)
            let keyIDs = keys.keys.shuffled(using: &generator)
            #expect(try ClearKey.keyIDs(inLicenseRequest: ClearKey.licenseRequest(for: keyIDs)) == keyIDs)
            let read = try ClearKey.keys(inLicense: ClearKey.license(for: keys))
            #expect(read.count == keys.count)
            for (keyID, key) in keys { #expect(try #require(read[keyID]) == key) }
        }
    }

    @Test func everyTruncationThrows() throws {
        var generator = SeededGenerator(seed: 3)
        let keys = randomKeys(3, &generator)
        let license = ClearKey.license(for: keys)
        for length in 0..<license.count {
            #expect(throws: KeyError.self) { try ClearKey.keys(inLicense: Array(license.prefix(length))) }
        }
        let request = ClearKey.licenseRequest(for: Array(keys.keys))
        for length in 0..<request.count {
            #expect(throws: KeyError.self) { try ClearKey.keyIDs(inLicenseRequest: Array(request.prefix(length))) }
        }
    }

    @Test(arguments: [UInt64(4), 5, 6, 7])
    func damagedBodiesThrowOrAreRead(seed: UInt64) throws {
        var generator = SeededGenerator(seed: seed)
        let keys = randomKeys(4, &generator)
        let license = ClearKey.license(for: keys)
        let request = ClearKey.licenseRequest(for: Array(keys.keys))
        var (read, refused) = (0, 0)
        for _ in 0..<1500 {
            let body = generator.mutate(license)
            do throws(KeyError) {
                #expect(try ClearKey.keys(inLicense: body).count * 44 <= body.count)
                read += 1
            } catch {
                #expect(error.isSameKind(as: .malformedResponse("")))
                refused += 1
            }
            let question = generator.mutate(request)
            do throws(KeyError) {
                #expect(try ClearKey.keyIDs(inLicenseRequest: question).count * 22 <= question.count)
            } catch {
                #expect(error.isSameKind(as: .malformedRequest("")))
            }
        }
        #expect(read > 0)
        #expect(refused > 0)
    }

    private func randomKeys(_ count: Int, _ generator: inout SeededGenerator) -> [KeyID: ContentKey] {
        var keys: [KeyID: ContentKey] = [:]
        for _ in 0..<count {
            if let keyID = KeyID(generator.bytes(16)) { keys[keyID] = ContentKey(generator.bytes(16)) }
        }
        return keys
    }
}
