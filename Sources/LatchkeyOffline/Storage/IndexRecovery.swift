// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyStorage

/// Puts the damaged index of an item aside, and makes a new one of what can still be read of it.
///
/// Blocks are taken over with their digests, so that each is still compared with its own when it is read; what has no
/// digest any more is fetched again. How the content is put together is found out anew. Runs on the thread of the cache,
/// for whoever may write to the item.
struct IndexRecovery {
    let index: ItemIndex
    /// What happened, for people.
    let warning: CacheError

    /// `record` counts where the index does not tell its own. Throws where the files cannot be moved or made.
    init(folder: String, record: ItemRecord?, blockSize: Int, cause: CacheError) throws(CacheError) {
        let path = folder + "/index.db"
        var number = 1
        while CacheFolder.exists("\(folder)/index.damaged-\(number).db") { number += 1 }
        let aside = "\(folder)/index.damaged-\(number).db"
        for suffix in ["", "-wal", "-shm"] where CacheFolder.exists(path + suffix) {
            guard rename(path + suffix, aside + suffix) == 0 else { throw CacheError(system: errno, path + suffix) }
        }
        let found = Remains(of: aside)
        let size = found.values["block-size"].flatMap { Int($0) }.flatMap(ItemIndex.usable) ?? blockSize
        let index = try ItemIndex(path: path, blockSize: size, creating: true)
        var known = ItemRecord(values: found.values) ?? record
        // All pieces, or none: what is missing in the middle would never be fetched.
        known?.isPlanned = false
        known?.isComplete = false
        var kept = 0
        try index.transaction { () throws(CacheError) in
            for (name, value) in known?.values ?? [:] { try index.set(name, value) }
            var numbers: [Int64: UInt64] = [:]
            for resource in found.resources
            where resource.isPossible && !resource.url.isEmpty {
                try index.write(resource)
                let bytes = min(resource.size ?? 0, Self.size("\(folder)/\(resource.number).data"))
                numbers[resource.number] =
                    resource.size == bytes
                    ? (bytes + UInt64(size) - 1) / UInt64(size)
                    : bytes / UInt64(size)
            }
            for block in found.blocks where block.number < numbers[block.resource] ?? 0 && block.digest.count == 32 {
                try index.write(block.resource, block.number, digest: block.digest)
                kept += 1
            }
        }
        try CacheFolder.synchronize(folder)
        self.index = index
        warning = CacheError(
            .damaged,
            "\(cause.reason); the index was set aside as \(aside), \(kept) blocks of the item were kept, and the rest is "
                + "fetched again")
    }

    /// What the index at `path` says the item is, where that much can be read. Changes nothing.
    static func record(at path: String) -> ItemRecord? { ItemRecord(values: Remains(of: path).values) }

    private static func size(_ path: String) -> UInt64 {
        var status = stat()
        return stat(path, &status) == 0 ? UInt64(clamping: status.st_size) : 0
    }

    /// As much as can be read of each table.
    private struct Remains {
        var values: [String: String] = [:]
        var resources: [CachedResource] = []
        var blocks: [(resource: Int64, number: UInt64, digest: [UInt8])] = []

        init(of path: String) {
            guard let connection = try? SQLiteConnection<CacheError>(path: path, fileSystem: nil, busyTimeout: .zero),
                (try? connection.integer("PRAGMA application_id")) == Int64(ItemIndex.applicationID)
            else { return }
            let index = ItemIndex(connection)
            defer { index.close() }
            try? index.values { values[$0] = $1 }
            try? index.resources { resources.append($0) }
            try? index.digests { blocks.append(($0, $1, $2)) }
        }
    }
}
