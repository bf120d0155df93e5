// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyElements
import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyManifests
import LatchkeyProtection

/// Looks at content before it plays, and checks that it is what its type says. Thread-safe.
struct ContentInspector: Sendable {
    let source: ContentSource
    /// The configured key system, for content that names several.
    var keySystem: KeySystem?
    /// Those of HLS that are used, the preferred one first, as the demuxer has them.
    var keyFormats = HLSSettings().keyFormats(for: ControlSettings())
    var envelopes = EnvelopeParsers()
    var keyLimit = HLSPlaylist.defaultKeyLimit

    /// Throws `invalidContent` for what is something else, and names what came in its place; `unsupportedContent` for what
    /// is not played; and what `ContentSource` throws.
    func inspect(_ url: String, _ type: ContentType) async throws(AgentError) -> InspectedContent {
        switch type {
        case .hls: return try await playlists(url)
        case .dash: return try dash(try await text(url, type))
        case .smoothStreaming: return try smooth(try await text(url, type))
        case .mp4, .piff: return try await file(url, type)
        }
    }

    private func text(_ url: String, _ type: ContentType) async throws(AgentError) -> ContentSource.Answer {
        let answer = try await source.whole(url, limit: XMLLimits.manifest.size)
        try Self.refuseForeign(answer, in: type.name)
        return answer
    }

    /// A log-in page of the network, or an error page, in the place of what was asked for.
    private static func refuseForeign(_ answer: ContentSource.Answer, in place: String) throws(AgentError) {
        guard let foreign = ForeignContent(start: answer.bytes) else { return }
        throw .invalidContent(
            "it is no \(place) but \(foreign.rawValue), as from the log-in page of a network: open the URL in a browser",
            at: answer.url)
    }

    func choose(_ systems: [ProtectionSystem]) -> ProtectionSystem? {
        ManifestKeys.choose(among: systems, preferring: keySystem)
    }

    static func failure(_ error: FormatError, at url: String) -> AgentError {
        error.isSameKind(as: .unsupported(""))
            ? .unsupportedContent(error.reason, at: url) : .invalidContent(error.description, at: url)
    }

    // MARK: Manifests

    private func dash(_ answer: ContentSource.Answer) throws(AgentError) -> InspectedContent {
        let manifest: DASHManifest
        let root: XMLElement
        do throws(FormatError) {
            manifest = try DASHManifest(answer.bytes)
            root = try XMLElement(reading: answer.bytes, limits: .manifest)
        } catch {
            throw Self.failure(error, at: answer.url)
        }
        var content = InspectedContent(url: answer.url)
        let sets = root.children.filter { $0.localName == "Period" }.flatMap(\.children).filter {
            $0.localName == "AdaptationSet"
        }
        let isThere = sets.contains { set in set.children.contains { $0.localName == "Representation" } }
        // A Period may come from elsewhere, which the demuxer fetches.
        let isRemote = root.children.contains { period in period.attributes.contains { $0.localName == "href" } }
        guard isThere || isRemote else {
            throw .invalidContent("it has no AdaptationSet with a Representation", at: answer.url)
        }
        for name in DASHAudioTracks(root).names { content.add(audioTrack: name) }
        DASHTracks(root).add(to: &content)
        content.isProtected = manifest.isProtected
        for protection in manifest.protections {
            for system in protection.systems { content.add(system) }
            // What many inherit says the same each time.
            for descriptor in protection.newDescriptors {
                content.add(keyIDs: descriptor.defaultKeyIDs)
                content.add(licenseURLs: descriptor.licenseURLs)
                for box in descriptor.systemBoxes { content.note(box) }
            }
        }
        for group in manifest.keyGroups(choose: choose) { content.add(group, origin: "dash/mpd") }
        // KIDs without any system: a source of keys by KID may have these.
        if content.needs.isEmpty, !content.keyIDs.isEmpty {
            content.add(.init(system: .common, keyIDs: content.keyIDs, data: []))
        }
        return content
    }

    private func smooth(_ answer: ContentSource.Answer) throws(AgentError) -> InspectedContent {
        let manifest: SmoothManifest
        let root: XMLElement
        do throws(FormatError) {
            manifest = try SmoothManifest(answer.bytes)
            root = try XMLElement(reading: answer.bytes, limits: .manifest)
            if manifest.isProtected, manifest.keyIDs.isEmpty { _ = try manifest.playReadyHeader() }
        } catch {
            throw Self.failure(error, at: answer.url)
        }
        let tracks = SmoothTracks(root)
        try tracks.check(at: answer.url)
        var content = InspectedContent(url: answer.url)
        tracks.add(to: &content, of: manifest, root: root)
        for stream in manifest.streams where stream.type == .audio { content.add(audioTrack: stream.label ?? "audio") }
        content.isProtected = manifest.isProtected
        content.add(keyIDs: manifest.keyIDs)
        for header in manifest.headersBySystem {
            content.add(header.system)
            content.note(PSSHBox(system: header.system, data: header.data ?? []))
        }
        content.lacksKeyIDs = manifest.lacksKeyIDs
        for group in manifest.keyGroups(choose: choose) { content.add(group, origin: "smooth-streaming") }
        // Headers of other systems alone: a source of keys by KID may have these.
        if content.isProtected, content.needs.isEmpty {
            content.add(.init(system: content.systems.first ?? .common, keyIDs: content.keyIDs, data: []))
        }
        return content
    }

    // MARK: Files

    private func file(_ url: String, _ type: ContentType) async throws(AgentError) -> InspectedContent {
        var search = ISOMovieSearch()
        var step = search.first
        var isFirst = true
        while true {
            switch step {
            case .fetch(let offset, let count):
                let answer = try await source.part(url, offset: offset, count: count)
                if isFirst { try Self.refuseForeign(answer, in: type.name) }
                isFirst = false
                do throws(FormatError) {
                    step = try search.take(answer.bytes)
                } catch {
                    throw Self.failure(error, at: answer.url)
                }
            case .found(let movie): return try content(of: movie, at: url)
            }
        }
    }

    private func content(of movie: ISOFileSummary, at url: String) throws(AgentError) -> InspectedContent {
        guard movie.tracks.contains(where: { $0.handler == "vide" || $0.handler == "soun" }) else {
            throw .invalidContent("it has neither video nor sound", at: url)
        }
        var content = InspectedContent(url: url)
        for track in movie.tracks where track.handler == "soun" {
            content.add(audioTrack: track.language ?? "audio")
            content.audioTrackIDs.append(track.id)
        }
        for track in movie.tracks { content.append(ContentTrack(track)) }
        take(movie, into: &content)
        return content
    }

    /// The keys of its tracks, and what asks for them.
    func take(_ movie: ISOFileSummary, into content: inout InspectedContent) {
        content.add(keyIDs: movie.keyIDs)
        guard movie.isProtected else { return }
        content.isProtected = true
        let boxes = movie.protections.flatMap { PSSHBox.readableBoxes(in: $0.box) }
        for box in boxes { content.note(box) }
        guard let system = choose(boxes.map(\.system)) else {
            content.add(.init(system: .common, keyIDs: movie.keyIDs, data: []))
            return
        }
        content.add(
            ManifestKeyGroup(system: system, keyIDs: movie.keyIDs, boxes: boxes.filter { $0.system == system }),
            origin: ISOProtection.Origin.movie.rawValue)
    }
}

extension InspectedContent {
    /// Takes a group of keys as the demuxers ask for them.
    fileprivate mutating func add(_ group: ManifestKeyGroup, origin: String) {
        add(
            Need(
                system: group.system, keyIDs: group.keyIDs,
                data: group.boxes.compactMap { box in
                    box.serialized().map { InitializationData(system: box.system, bytes: $0, origin: origin) }
                },
                suggestedURL: group.licenseURL.map { URIReference.resolve($0, against: URIReference(url ?? "")) },
                otherURLs: group.otherURLs.map { URIReference.resolve($0, against: URIReference(url ?? "")) }))
    }
}

/// HTTP Live Streaming: each playlist of a presentation is read as the demuxer reads it.
extension ContentInspector {
    /// The most variants and audio renditions that are fetched.
    private static let playlistLimit = 64
    /// How many are fetched at once.
    private static let concurrency = 4
    /// What is asked for of a first segment, as the demuxer does: an envelope has its header there.
    private static let probeSize = 4096

    func playlists(_ url: String) async throws(AgentError) -> InspectedContent {
        let answer = try await source.whole(url, limit: HLSPlaylist.maximumSize)
        let first = try read(answer, variables: [:], sessionKeys: [])
        var content = InspectedContent(url: answer.url)
        guard first.kind == .master else {
            let periods = try await add(first, from: answer.url, to: &content)
            var track = ContentTrack(.video)
            track.keyPeriods = periods
            content.add(track)
            return content
        }
        for name in try Self.audioNames(in: answer) { content.add(audioTrack: name) }
        for key in first.sessionKeys { content.note(key) }
        var urls: [String] = []
        for child in first.children where child.role == .variant || child.role == .audio {
            if !urls.contains(child.url), urls.count < Self.playlistLimit { urls.append(child.url) }
        }
        guard first.children.contains(where: { $0.role == .variant }) else {
            throw .invalidContent("it names neither segments nor variants", at: answer.url)
        }
        var periods: [String: [KeyPeriod]] = [:]
        // A playlist that fails is one that playback may come to, so all are looked at.
        for start in stride(from: 0, to: urls.count, by: Self.concurrency) {
            let group = urls[start..<min(start + Self.concurrency, urls.count)]
            for (url, fetched) in zip(group, await fetch(group)) {
                let answer = try fetched.get()
                let variant = try read(answer, variables: first.variables, sessionKeys: first.sessionKeys)
                guard variant.kind == .media else {
                    throw .invalidContent("a variant of the master playlist is a master playlist", at: answer.url)
                }
                periods[url] = try await add(variant, from: answer.url, to: &content)
            }
        }
        for (described, url) in Self.tracks(in: first) {
            var track = described
            track.keyPeriods = periods[url] ?? []
            content.add(track)
        }
        return content
    }

    /// In the order of the URLs.
    private func fetch(_ urls: ArraySlice<String>) async -> [Result<ContentSource.Answer, AgentError>] {
        await withTaskGroup(of: (Int, Result<ContentSource.Answer, AgentError>).self) { group in
            for (index, url) in urls.enumerated() {
                group.addTask {
                    do throws(AgentError) {
                        return (index, .success(try await source.whole(url, limit: HLSPlaylist.maximumSize)))
                    } catch {
                        return (index, .failure(error))
                    }
                }
            }
            var results: [(Int, Result<ContentSource.Answer, AgentError>)] = []
            for await result in group { results.append(result) }
            return results.sorted { $0.0 < $1.0 }.map(\.1)
        }
    }

    private func read(
        _ answer: ContentSource.Answer, variables: [String: String], sessionKeys: [HLSKey]
    ) throws(AgentError) -> HLSRewriting {
        try Self.refuseForeign(answer, in: "playlist")
        var rewriter = HLSPlaylistRewriter(
            keyFormats: keyFormats, importedVariables: variables, sessionKeys: sessionKeys)
        rewriter.keyLimit = keyLimit
        if envelopes.isEmpty { rewriter.isEnveloped = false }
        do throws(FormatError) {
            // Playlists keep their URLs, so that those of a master playlist are found again.
            return try rewriter.rewrite(answer.bytes, from: answer.url) { resource in
                if case .playlist(let url) = resource { url } else { "https://unused.invalid/" }
            }
        } catch {
            throw Self.failure(error, at: answer.url)
        }
    }

    /// Returns when which key is for its segments.
    private func add(
        _ playlist: HLSRewriting, from url: String, to content: inout InspectedContent
    ) async throws(AgentError) -> [KeyPeriod] {
        guard !playlist.durations.isEmpty else {
            throw .invalidContent("it names neither segments nor variants", at: url)
        }
        content.isProtected = content.isProtected || playlist.isProtected
        for use in playlist.keys { content.note(use.key) }
        if let key = playlist.upcomingKey { content.note(key) }
        let periods = Self.keyPeriods(of: playlist)
        guard !playlist.isProtected else { return periods }
        if let movie = await initSection(of: playlist) { return add(movie, lasting: periods.last?.end, to: &content) }
        guard let probe = playlist.segmentToProbe else { return periods }
        // A segment that cannot be had is in none: playback will say so.
        let fetched = try? await source.once.part(
            probe.url, offset: probe.byteRange?.offset ?? 0,
            count: min(Self.probeSize, Int(clamping: probe.byteRange?.length ?? .max)))
        guard let start = fetched else { return periods }
        try Self.refuseForeign(start, in: "segment")
        guard let parser = envelopes.parser(of: start.bytes) else { return periods }
        content.isProtected = true
        var enveloped = KeyPeriod(start: 0, end: periods.last?.end, method: "envelope")
        guard let header = try? parser.header(of: start.bytes),
            let bytes = try? header.playReadyObject.serialized()
        else { return [enveloped] }
        content.note(PSSHBox(system: .playReady, data: bytes))
        let details = try? header.playReadyObject.header()
        content.add(
            .init(
                system: .playReady, keyIDs: details?.keys.map(\.keyID) ?? [],
                data: [InitializationData(system: .playReady, bytes: bytes, origin: "hls/envelope")],
                suggestedURL: details?.details.licenseAcquisitionURL))
        enveloped.keyIDs = details?.keys.map(\.keyID) ?? []
        return [enveloped]
    }

    /// Some packagers leave the keys out of the playlist: the media says it alone. What cannot be had, or read, is nil.
    private func initSection(of playlist: HLSRewriting) async -> ISOFileSummary? {
        guard let lines = try? HLSPlaylist(playlist.bytes).lines else { return nil }
        for line in lines {
            guard case .tag("EXT-X-MAP", let value?) = line.content, let list = try? HLSAttributeList(parsing: value),
                let url = list["URI"]
            else { continue }
            let range = list["BYTERANGE"].flatMap { try? HLSByteRange(parsing: $0, previousEnd: nil) }
            let count = min(ISOMovieSearch.chunk, Int(clamping: range?.length ?? .max))
            let part = try? await source.once.part(url, offset: range?.offset ?? 0, count: count)
            guard let answer = part else { return nil }
            var search = ISOMovieSearch()
            guard case .found(let movie)? = try? search.take(answer.bytes), movie.isProtected else { return nil }
            return movie
        }
        return nil
    }

    private func add(
        _ movie: ISOFileSummary, lasting end: Double?, to content: inout InspectedContent
    ) -> [KeyPeriod] {
        take(movie, into: &content)
        let scheme = movie.tracks.lazy.compactMap(\.scheme).first?.rawValue
        return [KeyPeriod(start: 0, end: end, method: scheme ?? "encrypted", keyIDs: movie.keyIDs)]
    }

    // MARK: Tracks

    /// The variants and renditions of a master playlist, with the URLs of their playlists.
    private static func tracks(in master: HLSRewriting) -> [(ContentTrack, url: String)] {
        guard let playlist = try? HLSPlaylist(master.bytes) else { return [] }
        var tracks: [(ContentTrack, url: String)] = []
        var variant: HLSAttributeList?
        for line in playlist.lines where tracks.count < InspectedContent.limit {
            switch line.content {
            case .tag("EXT-X-STREAM-INF", let value?): variant = try? HLSAttributeList(parsing: value)
            case .tag("EXT-X-MEDIA", let value?):
                // Without a URI it is in the stream of its variant.
                guard let list = try? HLSAttributeList(parsing: value), let url = list["URI"] else { continue }
                tracks.append((rendition(list), url))
            case .uri(let url):
                if let list = variant { tracks.append((self.variant(list), String(url))) }
                variant = nil
            default: break
            }
        }
        return tracks
    }

    private static func variant(_ list: HLSAttributeList) -> ContentTrack {
        let codecs = list["CODECS"]
        let names = codecs?.split(separator: ",").map { $0.drop { $0 == " " }.prefix(4) } ?? []
        let isSound =
            !names.isEmpty && names.allSatisfy { ["mp4a", "ac-3", "ec-3", "fLaC", "Opus", "opus"].contains($0) }
        var track = ContentTrack(isSound && list["RESOLUTION"] == nil ? .audio : .video)
        track.codecs = codecs
        track.bitRate = list["BANDWIDTH"].flatMap { UInt64($0) }
        let size = list["RESOLUTION"]?.split(separator: "x").map { UInt32($0) } ?? []
        if size.count == 2 { (track.width, track.height) = (size[0], size[1]) }
        return track
    }

    private static func rendition(_ list: HLSAttributeList) -> ContentTrack {
        var track =
            switch list["TYPE"] {
            case "AUDIO": ContentTrack(.audio)
            case "VIDEO": ContentTrack(.video)
            case "SUBTITLES": ContentTrack(.text)
            default: ContentTrack(.other)
            }
        track.name = list["NAME"]
        track.language = list["LANGUAGE"]
        return track
    }

    /// The runs of keys, and the clear segments between them.
    private static func keyPeriods(of playlist: HLSRewriting) -> [KeyPeriod] {
        let total = playlist.durations.reduce(0, +)
        var track = ContentTrack(.video)
        var place = 0.0
        // Sums of decimal fractions do not meet exactly.
        let smallest = 0.001
        for use in playlist.keys {
            if use.start > place + smallest { track.add(KeyPeriod(start: place, end: use.start)) }
            track.add(
                KeyPeriod(
                    start: use.start, end: use.end, method: use.key.method.name,
                    keyFormat: use.key.keyFormat, keyURI: use.key.printableURI,
                    keyIDs: use.key.keyID.map { [$0] } ?? []))
            place = use.end
        }
        if total > place + smallest { track.add(KeyPeriod(start: place, end: total)) }
        return track.keyPeriods
    }

    /// The names of `EXT-X-MEDIA` with TYPE=AUDIO, in order (RFC 8216, 4.3.4.1).
    private static func audioNames(in answer: ContentSource.Answer) throws(AgentError) -> [String] {
        do throws(FormatError) {
            return HLSAudioTracks(try HLSPlaylist(answer.bytes)).tracks.map(\.name)
        } catch {
            throw failure(error, at: answer.url)
        }
    }
}

extension InspectedContent {
    /// Takes a key that a playlist names. One of the format `identity` counts as one that comes from its URI, and needs no
    /// license.
    fileprivate mutating func note(_ key: HLSKey) {
        guard key.method != .none else { return }
        isProtected = true
        guard key.keyFormat != HLSKeyFormat.identity.name else { return }
        let box = key.initializationData(keyID: key.keyID ?? KeyID(high: 0, low: 0))
        add(box.system)
        if let keyID = key.keyID { add(keyIDs: [keyID]) }
        var data: [InitializationData] = []
        if let uri = key.uri, DataURI.isOne(uri), let bytes = DataURI(uri)?.bytes {
            // PlayReady's object, or a pssh box.
            let boxes = PSSHBox.readableBoxes(in: bytes)
            for box in boxes.isEmpty ? [PSSHBox(system: box.system, data: bytes)] : boxes { note(box) }
            data = [InitializationData(system: box.system, bytes: bytes, origin: "hls/m3u8")]
        }
        add(Need(system: box.system, keyIDs: key.keyID.map { [$0] } ?? data.flatMap(\.keyIDs), data: data, key: key))
    }
}

extension HLSKey {
    /// For people: without the query, and of a `data:` URI without the data.
    var printableURI: String? {
        guard let uri else { return nil }
        guard DataURI.isOne(uri) else { return URIReference(uri).printable }
        return String(uri.prefix { $0 != "," && $0 != ";" }.prefix(64))
    }
}
