// SPDX-License-Identifier: MPL-2.0

import KeySystems
import LicenseControl
import ProtectionModel

/// What the licence store takes its time for, with 10,000 licences of 2 KiB in it. Prints one table.
@main
enum StoreBenchmark {
    private static let licenses = 10_000

    static func main() async throws {
        guard let folder = CommandLine.arguments.dropFirst().first else {
            return print("usage: store-benchmark FOLDER")
        }
        let configuration = LicenseStoreConfiguration(
            database: folder + "/data/licenses.db", counter: folder + "/state/licenses.counter",
            secret: FileDeviceSecret(path: folder + "/state/device.secret"))
        var store = try await LicenseStore.open(configuration)
        for start in stride(from: 0, to: licenses, by: 500) {
            try await store.transaction { transaction throws(LicenseStoreError) in
                for number in start..<start + 500 { try transaction.put(license(number)) }
            }
        }
        await store.close()

        print("| what | runs | median ms | p99 ms |\n|---|---|---|---|")
        var times: [Duration] = []
        for _ in 0..<20 {
            times.append(
                try await ContinuousClock().measure { store = try await LicenseStore.open(configuration) })
            await store.close()
        }
        row("open", times)
        store = try await LicenseStore.open(configuration)
        var generator = SystemRandomNumberGenerator()
        times = []
        for _ in 0..<2000 {
            let number = Int.random(in: 0..<licenses, using: &generator)
            times.append(
                try await ContinuousClock().measure {
                    guard try await store.records(for: keyID(number)).first?.payload == license(number).payload else {
                        throw LicenseStoreError.aborted("licence \(number) is not there")
                    }
                })
        }
        row("look-up by KID", times)
        times = []
        for number in licenses..<licenses + 500 {
            times.append(try await ContinuousClock().measure { try await store.put(license(number)) })
        }
        row("insert, on disk", times)
        try await store.verify()
    }

    private static func row(_ name: String, _ times: [Duration]) {
        let sorted = times.map { $0 / .milliseconds(1) }.sorted()
        func text(_ part: Double) -> String {
            let value = sorted[min(sorted.count - 1, Int(Double(sorted.count) * part))]
            return "\((value * 1000).rounded() / 1000)"
        }
        print("| \(name) | \(times.count) | \(text(0.5)) | \(text(0.99)) |")
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
