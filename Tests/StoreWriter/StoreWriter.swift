// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyKeySession
import LatchkeyProtection
import CLatchkeyStoreFaults
import Synchronization

/// Writes to a license store until it is killed at a step that changes the disk, and says what was acknowledged.
///
///     latchkey-store-writer FOLDER (none|kill|power-cut|error|full|error-once) STEP SEED COUNT FIRST
///
/// Prints "ack NUMBER" for a record that is on disk, "gone NUMBER" for one that was deleted, "try NUMBER" before each,
/// "failed KIND" and "because TEXT" for an error, and at the end "steps NUMBER". A record's payload follows from its number.
@main
enum StoreWriter {
    static func main() async {
        let arguments = CommandLine.arguments
        guard arguments.count == 7, let step = Int(arguments[3]), let seed = UInt32(arguments[4]),
            let count = Int(arguments[5]), let first = Int(arguments[6]), store_faults_register() == 0
        else {
            say("usage")
            exit(2)
        }
        let faults = ["none", "kill", "power-cut", "error", "full", "error-once"]
        let fault = faults.firstIndex(of: arguments[2]) ?? 0
        // A file that grows over the limit gives an error, not a signal.
        signal(SIGXFSZ, SIG_IGN)
        var configuration = LicenseStoreConfiguration(
            database: arguments[1] + "/licenses.db", counter: arguments[1] + "/licenses.counter",
            secret: FileDeviceSecret(path: arguments[1] + "/device.secret"))
        configuration.busyTimeout = .seconds(60)
        configuration.fileSystem = "faults"
        configuration.onStep = { _ in store_faults_step() }
        store_faults_arm(Int32(fault), step, seed)
        do {
            let store = try await LicenseStore.open(configuration)
            say("open")
            for number in first..<first + count {
                say("try \(number)")
                do {
                    try await store.put(record(number))
                    say("ack \(number)")
                    // Every third record goes again, together with a change to its neighbour.
                    if number % 3 == 2 {
                        say("try -\(number)")
                        try await store.transaction { transaction throws(LicenseStoreError) in
                            try transaction.delete(recordID(number))
                            try transaction.put(record(number - 1, version: 1))
                        }
                        say("gone \(number)")
                    }
                } catch {
                    report(error)
                }
            }
        } catch {
            report(error)
        }
        say("steps \(store_faults_steps())")
    }

    static func record(_ number: Int, version: UInt8 = 0) -> LicenseRecord {
        LicenseRecord(
            id: recordID(number), kind: .license, keyIDs: [KeyID(high: 1, low: UInt64(number))],
            payload: [version] + [UInt8](repeating: UInt8(truncatingIfNeeded: number), count: 100 + number * 97 % 5000))
    }

    static func recordID(_ number: Int) -> RecordID {
        // The bytes are 16 by construction.
        RecordID(
            [UInt8](repeating: 0x11, count: 8) + (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - $0 * 8)) })
            ?? .random()
    }

    static func report(_ error: LicenseStoreError) {
        say("failed \(error.shortDescription)")
        say("because \(error)")
    }

    /// One write for a line, at once: nothing of it may be lost when the process is killed.
    static func say(_ line: String) {
        let bytes = Array((line + "\n").utf8)
        _ = write(1, bytes, bytes.count)
    }
}
