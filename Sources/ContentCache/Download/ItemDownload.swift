// SPDX-License-Identifier: MPL-2.0

import HTTP
import LicenseControl
import MediaFormats

/// Has the licence of some content stored, where it has one that can be. Returns why it is not; nil where it is, or where
/// the content needs none.
public typealias LicenseStoring = @Sendable () async -> String?

/// Brings everything of one item to disk, from its start to its end, and leaves out what is there. A value.
struct ItemDownload: Sendable {
    /// The pauses between tries where the network or the server fails.
    static let pauses: [Duration] = [.seconds(1), .seconds(2), .seconds(4), .seconds(8), .seconds(15)]

    let fetcher: ItemFetcher
    /// Has keys of key servers stored; nil: nobody is asked for those.
    let keyStoring: KeyStoring?
    /// Has the licence stored; nil: nobody is asked for one.
    let licenseStoring: LicenseStoring?
    /// Waits between two tries. Throws where the task is cancelled.
    let pause: @Sendable (Duration) async throws -> Void

    private var store: ItemStore { fetcher.store }

    /// Returns when everything is on disk. Throws what does not pass, and what did not pass after some tries.
    func run() async throws(CacheError) {
        // What was altered or cut off since is fetched again.
        do throws(CacheError) {
            _ = try await store.verify()
        } catch {
            guard error.code == .damaged else { throw error }
            try await store.mend(error)
            _ = try await store.verify()
        }
        let record = await store.record
        let presentation = try await trying { () async throws(CacheError) in
            try await CachedPresentation(of: record, fetcher, mustStore: true)
        }
        // First, so that nothing is ready to play without it.
        try await storeLicense()
        switch presentation {
        case .file:
            try await FileWalk(
                store: store, url: record.url,
                bring: { offset, length throws(CacheError) in try await store(offset, length, of: record.url) },
                read: { range throws(CacheError) in try await read(range, of: record.url) }
            ).run()
        case .hls, .dash:
            try await store.forgetKeys(
                otherThan: Set(presentation.keys), ofServers: Set(presentation.serverKeys.compactMap(\.uri)))
            // First, so that nothing is ready to play without its keys.
            try await downloadKeys(presentation.keys)
            try await storeKeys(of: presentation)
            if await !store.record.isPlanned {
                try await PresentationPlan(store: store) { range, url throws(CacheError) in
                    try await read(range, of: url)
                }.make(of: presentation, record)
            }
            try await downloadPieces()
        }
        let end = await store.pieces.map(\.end).max()
        try await store.update {
            $0.isComplete = true
            $0.totalDuration = $0.totalDuration ?? end
        }
    }

    /// Tries again where it may help.
    private func trying<Value: Sendable>(
        _ body: () async throws(CacheError) -> Value
    ) async throws(CacheError) -> Value {
        var failures = 0
        while true {
            do throws(CacheError) {
                return try await body()
            } catch {
                guard error.isTemporary, error.code != .inUse, failures < Self.pauses.count else { throw error }
                do { try await pause(Self.pauses[failures]) } catch {
                    throw CacheError(.cancelled, "the download was paused")
                }
                failures += 1
            }
        }
    }

    @discardableResult
    private func store(_ offset: UInt64, _ length: UInt64?, of url: String) async throws(CacheError) -> UInt64 {
        try await trying { () async throws(CacheError) in try await fetcher.store(offset, length, of: url) }
    }

    private func read(_ range: Range<UInt64>, of url: String) async throws(CacheError) -> [UInt8] {
        try await trying { () async throws(CacheError) in
            try await fetcher.bytes(range, of: url, ahead: fetcher.downloadSize, mustStore: true)
        }
    }

    // MARK: Manifests

    private func downloadKeys(_ urls: [String]) async throws(CacheError) {
        let kept = await store.keptKeys()
        for url in urls where kept[url] == nil {
            let key = try await trying { () async throws(CacheError) in try await fetcher.key(url) }
            try await store.keep(key, from: url)
        }
    }

    /// A key that is not stored does not end the download: with the network, all of it is of use.
    private func storeKeys(of presentation: CachedPresentation) async throws(CacheError) {
        let keys = presentation.serverKeys
        guard let keyStoring, !keys.isEmpty else { return }
        let indispensable = presentation.indispensableKeys
        for (key, outcome) in zip(keys, await keyStoring.store(keys)) {
            if Task.isCancelled { throw CacheError(.cancelled, "the download was paused") }
            switch outcome {
            case .stored: try await store.note(serverKey: key.uri ?? "", refusal: nil)
            case .refused(let error): try await store.note(serverKey: key.uri ?? "", refusal: "\(error)")
            case .untaken where !indispensable.contains(key.uri ?? ""):
                try await store.forget(serverKey: key.uri ?? "")
            case .untaken:
                try await store.note(
                    serverKey: key.uri ?? "", refusal: "nobody is asked for it; configure [fairplay], or add a loader")
            }
        }
    }

    /// The same for the licence. Where nobody is to be asked, nothing is known of it.
    private func storeLicense() async throws(CacheError) {
        guard let licenseStoring else { return try await store.forget(serverKey: ItemStore.license) }
        let refusal = await licenseStoring()
        if Task.isCancelled { throw CacheError(.cancelled, "the download was paused") }
        try await store.note(serverKey: ItemStore.license, refusal: refusal)
    }

    private func downloadPieces() async throws(CacheError) {
        for piece in await store.pieces {
            if await store.isPresent(piece) { continue }
            guard let url = await store.url(of: piece) else { continue }
            try await store(piece.offset, piece.length, of: url)
        }
    }
}
