// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyHTTP
import LatchkeyContainers
import LatchkeyManifests

/// What the manifests of an item say, with the tracks alone that are kept. A value.
enum CachedPresentation: Sendable {
    /// One file, without manifests.
    case file
    /// The media playlists by URL, the variant first. Without a master playlist, one.
    case hls(master: HLSOfflineMaster?, playlists: [(url: String, media: HLSOfflineMedia)])
    case dash(DASHOfflinePresentation)

    /// A manifest as it is played.
    struct Document: Sendable {
        var bytes: [UInt8]
        var contentType: String
    }

    /// Reads the manifests: from disk, or from the origin, and then they are on disk.
    init(of record: ItemRecord, _ fetcher: ItemFetcher, mustStore: Bool) async throws(CacheError) {
        switch record.format {
        case .file: self = .file
        case .hls: self = try await Self.playlists(record, fetcher, mustStore)
        case .dash:
            let (bytes, url) = try await Self.manifest(record.url, fetcher, XMLLimits.manifest.size, mustStore)
            do throws(FormatError) {
                self = .dash(try DASHOfflinePresentation(bytes, from: url, selection: record.selection))
            } catch {
                throw CacheError(error, at: url)
            }
        }
        await fetcher.expectMedia(at: mediaURLs)
    }

    private static func playlists(
        _ record: ItemRecord, _ fetcher: ItemFetcher, _ mustStore: Bool
    ) async throws(CacheError) -> CachedPresentation {
        let (bytes, url) = try await manifest(record.url, fetcher, HLSPlaylist.maximumSize, mustStore)
        let master: HLSOfflineMaster
        do throws(FormatError) {
            master = try HLSOfflineMaster(bytes, from: url, selection: record.selection)
        } catch {
            throw CacheError(error, at: url)
        }
        var playlists: [(url: String, media: HLSOfflineMedia)] = []
        for requested in master.isMaster ? master.playlists : [record.url] {
            let (bytes, url) = try await manifest(requested, fetcher, HLSPlaylist.maximumSize, mustStore)
            do throws(FormatError) {
                let media = try HLSOfflineMedia(bytes, from: url, variables: master.variables)
                guard media.isEnded else { throw .unsupported("a live stream cannot be cached") }
                playlists.append((requested, media))
            } catch {
                throw CacheError(error, at: url)
            }
        }
        return .hls(master: master.isMaster ? master : nil, playlists: playlists)
    }

    /// The bytes, and the URL that answered.
    private static func manifest(
        _ url: String, _ fetcher: ItemFetcher, _ limit: Int, _ mustStore: Bool
    ) async throws(CacheError) -> ([UInt8], String) {
        let bytes = try await fetcher.whole(url, limit: limit, mustStore: mustStore)
        return (bytes, await fetcher.store.resource(url).answeringURL)
    }

    /// The URLs of the manifests, the item's own first.
    func manifests(of record: ItemRecord) -> [String] {
        switch self {
        case .file: []
        case .hls(nil, _), .dash: [record.url]
        case .hls(_, let playlists): [record.url] + playlists.map(\.url)
        }
    }

    /// The URLs of resources that begin as media does: with a segment, or what it needs first, that is not encrypted as a whole.
    var mediaURLs: Set<String> {
        var (clear, encrypted): (Set<String>, Set<String>) = ([], [])
        func take(_ url: String, _ range: HLSByteRange?, isEncrypted: Bool) {
            if isEncrypted { encrypted.insert(url) } else if range?.offset ?? 0 == 0 { clear.insert(url) }
        }
        switch self {
        case .file: break
        case .hls(_, let playlists):
            for piece in playlists.lazy.flatMap(\.media.pieces) {
                take(piece.url, piece.byteRange, isEncrypted: piece.isEncryptedAsWhole)
            }
        case .dash(let dash):
            for piece in dash.pieces { take(piece.url, piece.byteRange, isEncrypted: piece.isEncryptedAsWhole) }
        }
        return clear.subtracting(encrypted)
    }

    /// Where the keys are that have a URL of their own, each once.
    var keys: [String] {
        guard case .hls(_, let playlists) = self else { return [] }
        var seen: Set<String> = []
        return playlists.flatMap(\.media.keys).filter { seen.insert($0).inserted }
    }

    /// Those that key servers give, each once.
    var serverKeys: [HLSKey] {
        guard case .hls(_, let playlists) = self else { return [] }
        var seen: Set<String?> = []
        return playlists.flatMap(\.media.serverKeys).filter { seen.insert($0.uri).inserted }
    }

    /// Where the KIDs of those are found, each once.
    var keyedMaps: [HLSOfflineMedia.KeyedMap] {
        guard case .hls(_, let playlists) = self else { return [] }
        var seen: Set<HLSOfflineMedia.KeyedMap> = []
        return playlists.flatMap(\.media.keyedMaps).filter { seen.insert($0).inserted }
    }

    /// The URIs of those of `serverKeys` that no playback does without.
    var indispensableKeys: Set<String> {
        guard case .hls(_, let playlists) = self else { return [] }
        return playlists.reduce(into: []) { $0.formUnion($1.media.indispensableKeys) }
    }

    /// Notes which keys playback without the network will need, before anything counts as ready for it.
    func noteKeys(in store: ItemStore) async throws(CacheError) {
        try await store.needKeys(keys, ofServers: indispensableKeys.sorted())
    }

    /// The manifest at `url`, with what `route` makes of the URLs in it, those of `keptKeys` included; nil where it is none. What
    /// ends behind `end` is left out.
    func document(
        _ url: String, of record: ItemRecord, until end: Duration?, keptKeys: Set<String>,
        route: (String) -> String
    ) -> Document? {
        let url = URIReference.normalized(url)
        let isFirst = url == URIReference.normalized(record.url)
        switch self {
        case .file: return nil
        case .hls(let master, let playlists):
            let type = "application/vnd.apple.mpegurl"
            if let master, isFirst {
                return Document(bytes: master.serialized(keptKeys: keptKeys, route: route), contentType: type)
            }
            guard let media = playlists.first(where: { URIReference.normalized($0.url) == url })?.media else {
                return nil
            }
            return Document(
                bytes: media.serialized(until: end?.inSeconds, keptKeys: keptKeys, route: route), contentType: type)
        case .dash(let presentation):
            guard isFirst else { return nil }
            return Document(
                bytes: presentation.serialized(until: end, route: route), contentType: "application/dash+xml")
        }
    }
}
