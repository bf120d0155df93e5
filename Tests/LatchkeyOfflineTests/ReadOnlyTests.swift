// SPDX-License-Identifier: MPL-2.0

import Foundation
import Glibc
import LatchkeyHTTP
import Synchronization
import Testing

@testable import LatchkeyOffline

/// A cache that this process may read and not write, as on a file system that is read-only.
struct ReadOnlyTests {
    static let url = "https://media.example/film.ismv"
    static let file = TestFile.file(seconds: 12)

    /// Takes the right to write away, also from root, for the rest of the process.
    private static func protect(_ folder: String) throws {
        for file in try [folder] + FileManager.default.subpathsOfDirectory(atPath: folder).map({ folder + "/" + $0 }) {
            var status = stat()
            try #require(stat(file, &status) == 0)
            try #require(chmod(file, status.st_mode & S_IFMT == S_IFDIR ? 0o555 : 0o444) == 0)
        }
        if geteuid() == 0 { try #require(setuid(65_534) == 0) }
        try #require(open(folder + "/x", O_CREAT | O_RDWR, 0o600) < 0 && errno == EACCES)
    }

    private static let warnings = Mutex<[CacheError]>([])

    private static func read(_ test: TestCache, _ count: Int) async throws -> [UInt8] {
        let reader = CacheReader(test.cache.item(url, format: .file)) { warning in
            warnings.withLock { $0.append(warning) }
        }
        _ = try await reader.answer(url, route: { $0 })
        var bytes: [UInt8] = []
        while bytes.count < count {
            let next = try await reader.bytes(of: url, at: UInt64(bytes.count))
            try #require(!next.isEmpty)
            bytes += next
        }
        return bytes
    }

    /// Without a network, and with the reason why nothing is stored, once. With and without the lock's file, and the log's.
    @Test(arguments: [false, true]) func whatIsCompletePlays(_ isBare: Bool) async {
        await #expect(processExitsWith: .success) { [isBare] in
            let test = TestCache(TestOrigin([Self.url: Self.file]))
            let item = test.cache.item(Self.url, format: .file)
            await item.download()
            #expect(item.progress.status == .complete)
            for file in test.files
            where isBare && ["lock", "writer", "index.db-wal", "index.db-shm"].contains(file.lastPathComponent) {
                try FileManager.default.removeItem(at: file)
            }
            try Self.protect(test.folder)
            let origin = TestOrigin([:])
            let other = TestCache(origin, folder: test.folder)
            #expect(try await Self.read(other, Self.file.count) == Self.file)
            #expect(origin.requests.isEmpty)
            let told = Self.warnings.withLock { $0 }
            #expect(told.count == 1 && told.first?.code == .notPermitted, "\(told)")
            #expect(told.first?.reason.contains("cannot be written") == true)
            #expect(try await other.cache.allItems().map(\.progress.status) == [.complete])
        }
    }

    /// What would write ends by name, and harms nothing.
    @Test func nothingElseWrites() async {
        await #expect(processExitsWith: .success) {
            let test = TestCache(TestOrigin([Self.url: Self.file]))
            await test.cache.item(Self.url, format: .file).download()
            try Self.protect(test.folder)
            let other = TestCache(TestOrigin([Self.url: Self.file]), folder: test.folder)
            let item = other.cache.item(Self.url, format: .file)
            await item.download()
            #expect(item.progress.status.failure == .notPermitted)
            let error = await #expect(throws: CacheError.self) { try await item.purgeAndWait() }
            #expect(error?.code == .notPermitted)
            let new = other.cache.item("https://media.example/other.ismv", format: .file)
            await new.download()
            #expect(new.progress.status.failure == .notPermitted)
            #expect(try await Self.read(other, Self.file.count) == Self.file)
        }
    }

    /// The rest comes from the network, and stays there.
    @Test func whatIsCachedInPartPlaysOn() async {
        await #expect(processExitsWith: .success) {
            let origin = TestOrigin([Self.url: Self.file])
            origin.fail { ($0.range?.lowerBound ?? 0) > 8192 ? HTTPResponse(status: 404, url: $0.url) : nil }
            let test = TestCache(origin)
            await test.cache.item(Self.url, format: .file).download()
            try Self.protect(test.folder)
            let again = TestOrigin([Self.url: Self.file])
            let other = TestCache(again, folder: test.folder)
            #expect(try await Self.read(other, Self.file.count) == Self.file)
            #expect(!again.requests.isEmpty && again.requests.allSatisfy { ($0.range?.lowerBound ?? 0) > 0 })
        }
    }
}
