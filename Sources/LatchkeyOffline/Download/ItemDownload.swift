// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection

/// Has the license of some content stored, where it has one that can be. Returns why it is not; nil where it is, or where
/// the content needs none.
public typealias LicenseStoring = @Sendable () async -> String?

/// Brings everything of one item to disk, from its start to its end, and leaves out what is there. A value.
struct ItemDownload: Sendable {
    /// The pauses between tries where the network or the server fails.
    static let pauses: [Duration] = [.seconds(1), .seconds(2), .seconds(4), .seconds(8), .seconds(15)]

    let fetcher: ItemFetcher
    /// Has keys of key servers stored; nil: no key server is asked for them.
    let keyStoring: KeyStoring?
    /// Has the license stored; nil: no service is asked for one.
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
            var key = try await trying { () async throws(CacheError) in try await fetcher.key(url) }
            defer {
                if var bytes = key {
                    // A second reference would have it copied.
                    key = nil
                    wipe(&bytes)
                }
            }
            try await store.keep(key, from: url)
        }
    }

    /// A key that is not stored does not end the download: with the network, all of it is of use.
    private func storeKeys(of presentation: CachedPresentation) async throws(CacheError) {
        guard let keyStoring, !presentation.serverKeys.isEmpty else { return }
        let keys = try await serverKeys(of: presentation)
        let indispensable = presentation.indispensableKeys
        var refused: Set<String?> = []
        for (key, outcome) in zip(keys, await keyStoring.store(keys)) {
            if Task.isCancelled { throw CacheError(.cancelled, "the download was paused") }
            // Of several keys under one URI, the first that is not there is named.
            guard !refused.contains(key.uri) else { continue }
            if case .stored = outcome {} else { refused.insert(key.uri) }
            switch outcome {
            case .stored: try await store.note(serverKey: key.uri ?? "", refusal: nil)
            case .refused(let error): try await store.note(serverKey: key.uri ?? "", refusal: "\(error)")
            case .untaken where !indispensable.contains(key.uri ?? ""):
                try await store.forget(serverKey: key.uri ?? "")
            case .untaken:
                try await store.note(
                    serverKey: key.uri ?? "", refusal: "no loader takes it; configure [fairplay], or add a loader")
            }
        }
    }

    /// The keys of key servers. Packagers give the tracks of one presentation keys of their own under one URI: there, each KID
    /// of the media is a key. Playback asks for them by the same KIDs.
    private func serverKeys(of presentation: CachedPresentation) async throws(CacheError) -> [HLSKey] {
        var keys: [HLSKey] = []
        for keyed in presentation.keyedMaps {
            var found: [HLSKey] = []
            if let map = keyed.map {
                let bytes = try await section(map)
                for track in (try? InitSegment(bytes))?.tracks ?? [] where track.isProtected {
                    var key = keyed.key
                    if let keyID = track.encryption?.keyID, !keyID.isZero { key.keyID = keyID }
                    found.append(key)
                }
            }
            for key in found.isEmpty ? [keyed.key] : found
            where !keys.contains(where: { $0.uri == key.uri && $0.keyID == key.keyID }) {
                keys.append(key)
            }
        }
        return keys
    }

    private func section(_ map: HLSMap) async throws(CacheError) -> [UInt8] {
        if let range = map.byteRange {
            guard range.length <= UInt64(InitSegment.maximumSize) else { return [] }
            return try await read(range.offset..<range.end, of: map.url)
        }
        return try await trying { () async throws(CacheError) in
            try await fetcher.whole(map.url, limit: InitSegment.maximumSize, mustStore: true)
        }
    }

    /// The same for the license. If no service is to be asked, nothing is known of it.
    private func storeLicense() async throws(CacheError) {
        guard let licenseStoring else { return try await store.forget(serverKey: ItemStore.license) }
        let refusal = await licenseStoring()
        if Task.isCancelled { throw CacheError(.cancelled, "the download was paused") }
        try await store.note(serverKey: ItemStore.license, refusal: refusal)
    }

    private func downloadPieces() async throws(CacheError) {
        for piece in await store.pieces {
            if Task.isCancelled { throw CacheError(.cancelled, "the download was paused") }
            if await store.isPresent(piece) { continue }
            guard let url = await store.url(of: piece) else { continue }
            try await store(piece.offset, piece.length, of: url)
        }
    }
}
