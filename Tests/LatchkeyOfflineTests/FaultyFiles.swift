// SPDX-License-Identifier: MPL-2.0

import Glibc
import Synchronization

@testable import LatchkeyOffline

/// Files on a disk that fails, or that loses its power: what was not synchronized is gone then.
final class FaultyFiles: Sendable {
    struct State {
        /// The error number of the write after so many; nil: none fails.
        var failure: (code: Int32, after: Int)?
        var openFailure: Int32?
        var writes = 0
        /// The bytes that were written over, by path, since the last `synchronize`.
        var undo: [String: [(offset: UInt64, old: [UInt8])]] = [:]
        var losesPower = false
        var reads = 0
        /// Called on the thread of the cache, with the number of the read, which waits for it.
        var onRead: (@Sendable (Int) -> Void)?
    }

    let state = Mutex(State())

    var files: BlockFiles {
        BlockFiles { [self] path throws(CacheError) in
            if let code = state.withLock({ $0.openFailure }) { throw CacheError(system: code, path) }
            return FaultyFile(path, try SystemBlockFile(path), self)
        }
    }

    func fail(_ code: Int32?, after writes: Int = 0) {
        state.withLock { state in
            state.failure = code.map { ($0, writes) }
            state.writes = 0
        }
    }

    /// Takes back what is not on disk.
    func losePower() throws {
        let undo = state.withLock { state in
            defer { state.undo = [:] }
            return state.undo
        }
        for (path, changes) in undo {
            let file = try SystemBlockFile(path)
            for change in changes.reversed() { try file.write(change.old[...], at: change.offset) }
        }
    }
}

private final class FaultyFile: BlockFile {
    private let path: String
    private let file: SystemBlockFile
    private let faults: FaultyFiles

    init(_ path: String, _ file: SystemBlockFile, _ faults: FaultyFiles) {
        self.path = path
        self.file = file
        self.faults = faults
    }

    func size() throws(CacheError) -> UInt64 { try file.size() }
    func read(_ count: Int, at offset: UInt64) throws(CacheError) -> [UInt8] {
        let (number, onRead) = faults.state.withLock { state -> (Int, (@Sendable (Int) -> Void)?) in
            state.reads += 1
            return (state.reads, state.onRead)
        }
        onRead?(number)
        return try file.read(count, at: offset)
    }

    func write(_ bytes: ArraySlice<UInt8>, at offset: UInt64) throws(CacheError) {
        let old = try file.read(bytes.count, at: offset)
        let code = faults.state.withLock { state -> Int32? in
            state.writes += 1
            guard let failure = state.failure, state.writes > failure.after else { return nil }
            return failure.code
        }
        if let code { throw CacheError(system: code, path) }
        faults.state.withLock { state in
            let missing = [UInt8](repeating: 0, count: bytes.count - old.count)
            state.undo[path, default: []].append((offset, old + missing))
        }
        try file.write(bytes, at: offset)
    }

    func synchronize() throws(CacheError) {
        try file.synchronize()
        faults.state.withLock { $0.undo[path] = nil }
    }
}
