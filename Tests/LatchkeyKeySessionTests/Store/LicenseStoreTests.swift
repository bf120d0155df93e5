// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization
import LatchkeyTestSupport
import Testing

@Suite("License store")
struct LicenseStoreTests {
    let folder: StoreFolder

    init() throws { folder = try StoreFolder() }

    @Test func aRecordIsThereAfterTheStoreWasOpenedAgain() async throws {
        let kept = license(1, keys: [1, 2])
        var store = try await LicenseStore.open(folder.configuration)
        try await store.put(kept)
        await store.close()
        store = try await LicenseStore.open(folder.configuration)
        #expect(try await store.record(kept.id) == kept)
        #expect(try await store.records(for: keyID(2)) == [kept])
        #expect(try await store.records(contentID: Array("content 1".utf8), kind: .license) == [kept])
        #expect(try await store.records(for: keyID(3)).isEmpty)
        #expect(try await store.record(recordID(2)) == nil)
        try await store.verify()
    }

    @Test func everyKindAndEveryFieldIsKept() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        var random = SeededGenerator(seed: 4)
        var records: [LicenseRecord] = []
        for number in 0..<60 {
            func date() -> UnixTime? {
                Bool.random(using: &random) ? UnixTime(seconds: .random(in: .min ... .max, using: &random)) : nil
            }
            let record = LicenseRecord(
                kind: LicenseRecord.Kind.allCases[number % 6],
                keySystem: [nil, .clearKey, .fairPlay, .playReady][number % 4],
                keyIDs: (0..<number % 5).map { keyID(number * 100 + $0) },
                contentID: random.bytes(number % 7), begins: date(), ends: date(), removal: date(),
                payload: random.bytes(number * 50))
            records.append(record)
            try await store.put(record)
        }
        for record in records { #expect(try await store.record(record.id) == record) }
        let summaries = try await store.list()
        #expect(summaries.map(\.id) == records.reversed().map(\.id))
        for (summary, record) in zip(summaries.reversed(), records) {
            #expect(summary.kind == record.kind)
            #expect(summary.keySystem == record.keySystem)
            #expect(summary.keyIDs == record.keyIDs)
            #expect(summary.contentID == record.contentID)
            #expect(summary.begins == record.begins)
            #expect(summary.ends == record.ends)
            #expect(summary.removal == record.removal)
        }
        #expect(try await store.list(kind: .domain).count == 10)
    }

    @Test func aRecordIsReplacedAndDeleted() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        try await store.put(license(1, keys: [1, 2]))
        try await store.put(license(1, keys: [3], payload: [1]))
        #expect(try await store.list().count == 1)
        #expect(try await store.records(for: keyID(1)).isEmpty)
        #expect(try await store.records(for: keyID(3)).first?.payload == [1])
        #expect(try await store.delete(recordID(1)))
        #expect(try await !store.delete(recordID(1)))
        #expect(try await store.records(for: keyID(3)).isEmpty)
        try await store.verify()
    }

    @Test func aRecordOfAnotherKindIsNotReplaced() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        let device = LicenseRecord(id: recordID(1), kind: .device, payload: [1, 2, 3])
        try await store.put(device)
        var intruder = license(2)
        intruder.id = device.id
        let text = await failure { try await store.put(intruder) }
        #expect(text == "aborted")
        #expect(try await store.record(device.id) == device)
        #expect(try await store.list().count == 1)
        try await store.verify()
    }

    @Test func theLatestRecordOfAKeyComesFirst() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        for number in 1...3 { try await store.put(license(number, keys: [9])) }
        #expect(try await store.records(for: keyID(9)).map(\.id) == [3, 2, 1].map(recordID))
        try await store.put(license(1, keys: [9]))
        #expect(try await store.records(for: keyID(9), kind: .license).first?.id == recordID(1))
        #expect(try await store.records(for: keyID(9), kind: .domain).isEmpty)
    }

    @Test func deleteAllEmptiesTheStoreAndItGoesOn() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        for number in 1...20 { try await store.put(license(number)) }
        try await store.put(LicenseRecord(kind: .domain, payload: [1]))
        #expect(try await store.deleteAll(kind: .license) == 20)
        #expect(try await store.list().map(\.kind) == [.domain])
        #expect(try await store.deleteAll() == 1)
        try await store.put(license(1))
        await store.close()
        let again = try await LicenseStore.open(folder.configuration)
        #expect(try await again.list().count == 1)
    }

    @Test func whatMayBeRemovedGoesAtItsDateAndNotBefore() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        for number in 1...5 {
            var record = license(number)
            record.removal = number == 5 ? nil : UnixTime(seconds: Int64(number) * 100)
            try await store.put(record)
        }
        #expect(try await store.deleteRemovable(at: UnixTime(seconds: 99)) == 0)
        #expect(try await store.deleteRemovable(at: UnixTime(seconds: 200)) == 2)
        #expect(try await store.list().map(\.id) == [5, 4, 3].map(recordID))
        try await store.verify()
    }

    @Test func aTransactionIsDoneAsAWholeOrNotAtAll() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        try await store.put(license(1))
        let error = await failure {
            try await store.transaction { transaction throws(LicenseStoreError) in
                try transaction.put(license(2))
                try transaction.delete(recordID(1))
                guard try transaction.record(recordID(2)) != nil, try transaction.record(recordID(1)) == nil else {
                    throw .aborted("the transaction does not see its own changes")
                }
                throw .busy("enough")
            }
        }
        #expect(error == "busy")
        #expect(try await store.list().map(\.id) == [recordID(1)])
        let count = try await store.transaction { transaction throws(LicenseStoreError) in
            for number in 2...4 { try transaction.put(license(number)) }
            return try transaction.list().count
        }
        #expect(count == 4)
        await store.close()
        let again = try await LicenseStore.open(folder.configuration)
        #expect(try await again.list().count == 4)
    }

    @Test func aReadingTransactionCannotWriteAndNoneOutlivesItsBody() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        let refused = await failure {
            try await store.read { transaction throws(LicenseStoreError) in try transaction.put(license(1)) }
        }
        #expect(refused == "aborted")
        #expect(try await store.list().isEmpty)
        let leaked = await failure {
            final class Leak: @unchecked Sendable { var transaction: LicenseStoreTransaction? }
            let leak = Leak()
            try await store.read { transaction in leak.transaction = transaction }
            return try await store.read { _ throws(LicenseStoreError) in try leak.transaction?.list() }
        }
        #expect(leaked == "closed")
    }

    @Test func limitsHold() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        let big = license(1, payload: [UInt8](repeating: 7, count: LicenseRecord.maximumPayloadSize))
        try await store.put(big)
        #expect(try await store.record(big.id) == big)
        #expect(await failure { try await store.put(license(2, payload: big.payload + [1])) } == "record too large")
        #expect(await failure { try await store.put(license(2, keys: Array(0...1024))) } == "record too large")
        #expect(await failure { try await store.put(license(2, keys: [1, 1])) } == "record too large")
        #expect(try await store.list().count == 1)
    }

    @Test func aClosedStoreSaysSo() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        await store.close()
        #expect(await failure { try await store.list() } == "closed")
        #expect(await failure { try await store.put(license(1)) } == "closed")
    }

    @Test func nothingSecretStandsInTheFiles() async throws {
        let store = try await LicenseStore.open(folder.configuration)
        let marker = "0f1e2d3c-marker-of-a-payload"
        try await store.put(license(1, payload: Array(marker.utf8)))
        try await store.delete(recordID(1))
        try await store.put(license(1, payload: Array(marker.utf8)))
        for name in try folder.names(in: "data") {
            #expect(try folder.contents("data/" + name).range(of: Data(marker.utf8)) == nil)
        }
        #expect("\(license(1, payload: Array(marker.utf8)))".contains(marker) == false)
        let attributes = try FileManager.default.attributesOfItem(atPath: folder.path + "/data/licenses.db")
        #expect(attributes[.posixPermissions] as? Int == 0o600)
    }

    @Test func nobodyWaitsForTheDisk() async throws {
        // A hundred callers at once, and one that holds the database for as long as it likes: the others' threads go on.
        let store = try await LicenseStore.open(folder.configuration)
        try await withThrowingTaskGroup(of: Void.self) { group in
            for number in 0..<100 { group.addTask { try await store.put(license(number)) } }
            try await group.waitForAll()
        }
        #expect(try await store.list().count == 100)
        let threads = Mutex<Set<UInt>>([])
        for _ in 0..<20 {
            try await store.read { _ in threads.withLock { _ = $0.insert(UInt(pthread_self())) } }
        }
        #expect(threads.withLock { $0.count } == 1)
    }
}
