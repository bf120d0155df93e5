// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Testing

/// A folder that goes away with it.
final class StoreFolder: Sendable {
    let path: String

    init() throws {
        path = NSTemporaryDirectory() + "/latchkey-store-" + UUID().uuidString
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }

    deinit { try? FileManager.default.removeItem(atPath: path) }

    var configuration: LicenseStoreConfiguration { configuration(machine: "machine") }

    func configuration(machine: String) -> LicenseStoreConfiguration {
        LicenseStoreConfiguration(
            database: path + "/data/licenses.db", counter: path + "/state/licenses.counter",
            secret: FileDeviceSecret(path: path + "/state/device.secret", machine: Array(machine.utf8)))
    }

    /// Runs one statement on the database, as somebody with SQLite's shell does.
    func alter(_ sql: String) throws {
        let connection = try SQLiteAccess(path + "/data/licenses.db")
        try connection.execute(sql)
    }

    func copy(_ name: String, to target: String) throws {
        try? FileManager.default.removeItem(atPath: path + "/" + target)
        try FileManager.default.copyItem(atPath: path + "/" + name, toPath: path + "/" + target)
    }

    func remove(_ name: String) throws { try FileManager.default.removeItem(atPath: path + "/" + name) }

    func names(in folder: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: path + "/" + folder).sorted()
    }

    func contents(_ name: String) throws -> Data { try Data(contentsOf: URL(filePath: path + "/" + name)) }

    func write(_ data: Data, to name: String) throws { try data.write(to: URL(filePath: path + "/" + name)) }
}

func license(_ number: Int, keys: [Int]? = nil, payload: [UInt8]? = nil) -> LicenseRecord {
    LicenseRecord(
        id: recordID(number), kind: .license, keySystem: .playReady, keyIDs: (keys ?? [number]).map(keyID),
        contentID: Array("content \(number)".utf8), begins: UnixTime(seconds: 1_800_000_000),
        ends: UnixTime(seconds: 1_900_000_000), payload: payload ?? Array("secret payload \(number)".utf8))
}

func recordID(_ number: Int) -> RecordID {
    RecordID([UInt8](repeating: 0x11, count: 8) + (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - $0 * 8)) })!
}

/// What the store says when it fails, without values.
func failure<Result>(_ body: () async throws -> Result) async -> String? {
    do {
        _ = try await body()
        return nil
    } catch let error as LicenseStoreError {
        return error.shortDescription
    } catch {
        return "\(error)"
    }
}
