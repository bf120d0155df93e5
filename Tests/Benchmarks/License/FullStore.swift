// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection

/// What the license store takes its time for, with 10,000 licenses of 2 KiB in it.
enum FullStore {
    private static let licenses = 10_000

    static func configuration(_ folder: String) -> LicenseStoreConfiguration {
        LicenseStoreConfiguration(
            database: folder + "/data/licenses.db", counter: folder + "/state/licenses.counter",
            secret: FileDeviceSecret(path: folder + "/state/device.secret"))
    }

    static func measure(in folder: String) async throws -> [Row] {
        let configuration = configuration(folder)
        var store = try await LicenseStore.open(configuration)
        for start in stride(from: 0, to: licenses, by: 500) {
            try await store.transaction { transaction throws(LicenseStoreError) in
                for number in start..<start + 500 { try transaction.put(license(number)) }
            }
        }
        await store.close()

        var (opens, lookups) = (Row("store of 10,000: open"), Row("store of 10,000: look-up by KID"))
        for _ in 0..<20 {
            opens.times.append(
                try await ContinuousClock().measure { store = try await LicenseStore.open(configuration) })
            await store.close()
        }
        store = try await LicenseStore.open(configuration)
        var generator = SystemRandomNumberGenerator()
        for _ in 0..<2000 {
            let number = Int.random(in: 0..<licenses, using: &generator)
            lookups.times.append(
                try await ContinuousClock().measure {
                    guard try await store.records(for: keyID(number)).first?.payload == license(number).payload else {
                        throw LicenseStoreError.aborted("license \(number) is not there")
                    }
                })
        }
        var insertions = Row("store of 10,000: insert, on disk")
        for number in licenses..<licenses + 500 {
            insertions.times.append(try await ContinuousClock().measure { try await store.put(license(number)) })
        }
        try await store.verify()
        return [opens, lookups, insertions]
    }

    private static func keyID(_ number: Int) -> KeyID { KeyID(high: 0x1122_3344_5566_7788, low: UInt64(number)) }

    private static func license(_ number: Int) -> LicenseRecord {
        let id = (0..<16).map { UInt8(truncatingIfNeeded: number >> ($0 % 4 * 8)) }
        return LicenseRecord(
            id: RecordID(id) ?? .random(), kind: .license, keySystem: .playReady, keyIDs: [keyID(number)],
            contentID: Array("content \(number)".utf8), ends: UnixTime(seconds: 1_900_000_000),
            payload: [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 2048))
    }
}
