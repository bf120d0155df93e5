// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyStorage
import Testing

@testable import LatchkeyOffline

/// A cache in a folder that goes away with this object.
final class TestCache: Sendable {
    let folder: String
    let cache: ContentCache
    private let ownsFolder: Bool

    /// `folder`: that of another cache, as after a crash. Pauses between tries take no time.
    init(
        _ origin: any HTTPTransport, folder: String? = nil, limit: Int = 3, blockSize: Int = 1024,
        files: BlockFiles = .system
    ) {
        ownsFolder = folder == nil
        self.folder = folder ?? NSTemporaryDirectory() + "/cache-\(UUID().uuidString)"
        var configuration = ContentCache.Configuration(folder: self.folder)
        configuration.blockSize = blockSize
        configuration.downloadLimit = limit
        configuration.fetchSize = 4096
        configuration.readyDuration = .seconds(2)
        cache = ContentCache(configuration, transport: origin, files: files, pause: { _ in await Task.yield() })
    }

    deinit { if ownsFolder { try? FileManager.default.removeItem(atPath: folder) } }

    /// All files, with folders.
    var files: [URL] {
        let all = FileManager.default.enumerator(at: URL(fileURLWithPath: folder), includingPropertiesForKeys: nil)
        return all?.allObjects as? [URL] ?? []
    }

    /// The files with the bytes of resources.
    var dataFiles: [URL] { files.filter { $0.pathExtension == "data" } }

    /// Those that this process has open.
    var openFiles: [String] {
        get throws {
            let name = try #require(folder.split(separator: "/").last)
            return try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").compactMap {
                try? FileManager.default.destinationOfSymbolicLink(atPath: "/proc/self/fd/\($0)")
            }.filter { $0.contains(name) }
        }
    }

    /// A reader that has gone lets go of its files, and of the right to write, on a task.
    func untilNothingIsOpen() async throws {
        while try !openFiles.isEmpty { await Task.yield() }
    }

    /// The index of the only item.
    var index: TestIndex {
        get throws { TestIndex(file: try #require(files.first { $0.lastPathComponent == "index.db" })) }
    }
}

/// An index that nobody has open, as a test changes it.
struct TestIndex {
    let file: URL

    /// In the place of what is there.
    func write(_ data: Data) throws {
        for suffix in ["-wal", "-shm"] { try? FileManager.default.removeItem(atPath: file.path + suffix) }
        try data.write(to: file)
    }

    func execute(_ sql: String) throws {
        let connection = try SQLiteConnection<CacheError>(path: file.path, fileSystem: nil, busyTimeout: .seconds(5))
        try connection.execute(sql)
        connection.close()
    }

    func count(_ sql: String) throws -> Int64 {
        let connection = try SQLiteConnection<CacheError>(path: file.path, fileSystem: nil, busyTimeout: .seconds(5))
        defer { connection.close() }
        return try connection.integer(sql)
    }
}

/// As if the download had ended before it knew what the item is made of.
func forgetThePlan(_ test: TestCache) throws {
    try test.index.execute("UPDATE item SET value = 'no' WHERE name = 'planned'; DELETE FROM piece")
    try test.index.execute("DELETE FROM resource WHERE number > 1")
}

extension CachedItem {
    /// Starts it, and waits until it is complete or has failed. Returns all that it told meanwhile.
    @discardableResult
    func download(keyStoring: KeyStoring? = nil, licenseStoring: LicenseStoring? = nil) async -> [Progress] {
        let updates = updates
        start(keyStoring: keyStoring, licenseStoring: licenseStoring)
        var seen: [Progress] = []
        for await progress in updates {
            seen.append(progress)
            switch progress.status {
            case .complete, .failed: if seen.count > 1 { return seen }
            default: break
            }
        }
        return seen
    }

    /// Waits for a progress.
    func until(_ condition: (Progress) -> Bool) async {
        for await progress in updates where condition(progress) { return }
    }

    /// All the bytes of a resource as a player reads them.
    func read(_ url: String) async throws -> [UInt8] {
        let reader = CacheReader(self)
        guard case .resource(_, let size, _)? = try await reader.answer(url, route: { $0 }) else { return [] }
        var bytes: [UInt8] = []
        while UInt64(bytes.count) < size {
            let next = try await reader.bytes(of: url, at: UInt64(bytes.count))
            guard !next.isEmpty else { break }
            bytes += next
        }
        return Array(bytes.prefix(Int(size)))
    }
}

/// What a gateway answers, or a range of it. Each block comes by itself, through several tasks, and all tests of the process
/// share as many threads as there are processors: the usual timeout of a request would end whole answers on a busy machine.
func fetch(_ url: String, range: String? = nil) async throws -> HTTPResponse {
    var request = HTTPRequest(url: url)
    request.timeout = .seconds(300)
    if let range { request.headers = [HTTPHeader(name: "Range", value: "bytes=\(range)")] }
    return try await CurlTransport().send(request)
}

extension CachedItem.Status {
    var failure: CacheError.Code? { if case .failed(let error) = self { error.code } else { nil } }
}
