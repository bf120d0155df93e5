// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyKeySession
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

/// A process that writes is killed, or fails, at one step after the other. What it had acknowledged is there afterwards,
/// and what it had not is there as a whole or not at all.
///
/// `LATCHKEY_STORE_KILL_ROUNDS` sets the number of rounds (10).
@Suite("License store, power cuts")
struct StorePowerCutTests {
    private static let rounds =
        ProcessInfo.processInfo.environment["LATCHKEY_STORE_KILL_ROUNDS"].flatMap { Int($0) } ?? 10
    private static let count = 6

    /// What may be in the store: for each number, the payloads' versions, or nil for no record.
    private struct Expectation {
        var versions: [Int: Set<UInt8?>] = [:]
        /// A transaction under way: the first is gone exactly where the second has version 1.
        var pair: Int?

        mutating func take(_ line: Substring) {
            let words = line.split(separator: " ")
            guard words.count == 2, let number = Int(words[1]) else { return }
            switch words[0] {
            case "try" where number >= 0: versions[number] = [nil, 0]
            case "try":
                pair = -number
                versions[-number] = [nil, 0]
                versions[-number - 1] = [0, 1]
            case "ack": versions[number] = [0]
            case "gone":
                pair = nil
                versions[number] = [nil]
                versions[number - 1] = [1]
            default: break
            }
        }
    }

    private func write(
        _ path: String, _ fault: String, step: Int, seed: Int, first: Int, count: Int = count, limit: Int? = nil
    ) throws -> (lines: [Substring], wasKilled: Bool) {
        let process = Process()
        let folder = URL(filePath: try FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/exe"))
        let tool = folder.deletingLastPathComponent().appending(path: "latchkey-store-writer").path
        let words = [tool, path, fault, "\(step)", "\(seed)", "\(count)", "\(first)"]
        process.executableURL = URL(filePath: limit == nil ? tool : "/bin/bash")
        process.arguments =
            limit.map { ["-c", "ulimit -f \($0); exec \"$@\"", "bash"] + words } ?? Array(words.dropFirst())
        let pipe = Pipe()
        process.standardOutput = pipe
        try process.run()
        let output = pipe.fileHandleForReading.readDataToEndOfFile()
        process.waitUntilExit()
        return (
            String(decoding: output, as: UTF8.self).split(separator: "\n"), process.terminationReason == .uncaughtSignal
        )
    }

    private func check(_ path: String, _ expected: Expectation, _ comment: Comment) async throws {
        let store = try await LicenseStore.open(
            LicenseStoreConfiguration(
                database: path + "/licenses.db", counter: path + "/licenses.counter",
                secret: FileDeviceSecret(path: path + "/device.secret")))
        try await store.verify()
        var found: [Int: UInt8?] = [:]
        for (number, versions) in expected.versions {
            let record = try await store.record(recordID(number))
            found[number] = .some(record?.payload.first)
            #expect(versions.contains(record?.payload.first), "record \(number): \(comment)")
            if let record {
                #expect(record.payload.dropFirst().allSatisfy { $0 == UInt8(truncatingIfNeeded: number) }, comment)
                #expect(record.payload.count == 101 + number * 97 % 5000, comment)
            }
        }
        if let pair = expected.pair, let gone = found[pair], let changed = found[pair - 1] {
            #expect((gone == nil) == (changed == 1), "half a transaction: \(comment)")
        }
        #expect(try await store.list().count == found.values.filter { $0 != nil }.count, comment)
        // And it goes on.
        try await store.put(license(999_999))
        try await store.delete(recordID(999_999))
        await store.close()
    }

    private func steps() throws -> Int {
        let folder = try StoreFolder()
        let (lines, wasKilled) = try write(folder.path, "none", step: 0, seed: 0, first: 0)
        try #require(!wasKilled)
        #expect(lines.filter { $0.hasPrefix("ack") }.count == Self.count)
        return try #require(lines.last?.split(separator: " ").last.flatMap { Int($0) })
    }

    @Test(.timeLimit(.minutes(60)), arguments: ["kill", "power-cut"])
    func nothingThatWasAcknowledgedIsLost(fault: String) async throws {
        let steps = try steps()
        #expect(steps > 50)
        var random = SeededGenerator(seed: fault == "kill" ? 1 : 2)
        var killed = 0
        for round in 0..<Self.rounds {
            // Every step in turn where there are enough rounds, else steps spread over all.
            let step =
                Self.rounds >= steps ? round % steps + 1 : Int.random(in: 1...steps, using: &random)
            let folder = try StoreFolder()
            var expected = Expectation()
            // A second life in what the first left behind.
            for life in 0..<2 {
                let seed = Int.random(in: 0...1_000_000, using: &random)
                let (lines, wasKilled) = try write(
                    folder.path, fault, step: life == 0 ? step : Int.random(in: 1...steps, using: &random), seed: seed,
                    first: life * 30)
                if wasKilled { killed += 1 }
                #expect(!lines.contains { $0.hasPrefix("failed") }, "\(fault) \(step) \(seed): \(lines)")
                for line in lines { expected.take(line) }
                try await check(folder.path, expected, "\(fault) at step \(step), seed \(seed), life \(life): \(lines)")
                // The next life writes other records.
                expected.pair = nil
            }
        }
        #expect(killed >= Self.rounds)
    }

    @Test(.timeLimit(.minutes(60)), arguments: ["error", "full", "error-once"])
    func aFailingDiskIsNamedAndLosesNothing(fault: String) async throws {
        let steps = try steps()
        var random = SeededGenerator(seed: 3)
        var named: Set<String> = []
        for _ in 0..<Self.rounds {
            let step = Int.random(in: 1...steps, using: &random)
            let folder = try StoreFolder()
            let (lines, wasKilled) = try write(folder.path, fault, step: step, seed: 0, first: 0)
            #expect(!wasKilled)
            var expected = Expectation()
            for line in lines {
                expected.take(line)
                if line.hasPrefix("failed") { named.insert(String(line.dropFirst(7))) }
            }
            // A transaction that failed and one that came after it cannot be told apart by the pair's rule.
            if lines.contains(where: { $0.hasPrefix("failed") }) { expected.pair = nil }
            try await check(folder.path, expected, "\(fault) at step \(step): \(lines)")
        }
        #expect(!named.isEmpty)
        #expect(named.isSubset(of: fault == "full" ? ["disk full"] : ["input or output", "cannot open"]), "\(named)")
    }

    @Test func aFileThatMayNotGrowIsNamedAndLosesNothing() async throws {
        for limit in [20, 60, 80, 120] {
            let folder = try StoreFolder()
            let (lines, _) = try write(folder.path, "none", step: 0, seed: 0, first: 0, count: 90, limit: limit)
            let failures = Set(lines.filter { $0.hasPrefix("failed") })
            // SQLite 3.46 names EFBIG as the full disk that it means here; 3.40 does not.
            #expect(
                failures == ["failed input or output"] || failures == ["failed disk full"], "\(limit): \(lines)")
            var expected = Expectation()
            for line in lines { expected.take(line) }
            expected.pair = nil
            try await check(folder.path, expected, "limit \(limit): \(lines)")
        }
    }
}
