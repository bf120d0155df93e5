// SPDX-License-Identifier: MPL-2.0

import LatchkeyElements
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection

/// Looks at content before it plays, and checks that it is what its type says. Thread-safe.
struct ContentInspector: Sendable {
    let source: ContentSource
    /// The configured key system, for content that names several.
    var keySystem: KeySystem?
    var envelopes = EnvelopeParsers()

    /// Throws `invalidContent` for what is something else, by name where it is a web page; `unsupportedContent` for what
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
        try Self.refuseWebPage(answer, in: type.name)
        return answer
    }

    /// A log-in page of the network, or an error page, in the place of what was asked for.
    static func refuseWebPage(_ answer: ContentSource.Answer, in place: String) throws(AgentError) {
        guard WebPage.isOne(start: answer.bytes) else { return }
        throw .invalidContent(
            "it is no \(place) but a web page, such as the log-in page of a network: open the URL in a browser",
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
        for set in sets.prefix(InspectedContent.limit) where Self.isAudio(set) {
            let label = set.child("Label")?.trimmedText ?? ""
            content.add(audioTrack: label.isEmpty ? set[attribute: "lang"] ?? set[attribute: "id"] ?? "audio" : label)
        }
        DASHTracks(root).add(to: &content)
        content.isProtected = manifest.isProtected
        for protection in manifest.protections {
            for system in protection.systems { content.add(system) }
            for descriptor in protection.descriptors {
                content.add(keyIDs: descriptor.defaultKeyIDs)
                content.add(licenseURLs: descriptor.licenseURLs)
                for box in descriptor.systemBoxes { content.note(box) }
            }
        }
        for group in manifest.keyGroups(choose: choose) { content.add(group, origin: "dash/mpd") }
        // KIDs without any system: whoever has keys by KID may have these.
        if content.needs.isEmpty, !content.keyIDs.isEmpty {
            content.add(.init(system: .common, keyIDs: content.keyIDs, data: []))
        }
        return content
    }

    private static func isAudio(_ set: XMLElement) -> Bool {
        if let type = set[attribute: "contentType"] { return type == "audio" }
        let kind = set[attribute: "mimeType"] ?? set.child("Representation")?[attribute: "mimeType"]
        return kind?.hasPrefix("audio/") == true
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
        for header in manifest.protectionHeaders {
            let system = header.system ?? .playReady
            content.add(system)
            content.note(PSSHBox(system: system, data: header.data ?? []))
        }
        for group in manifest.keyGroups(choose: choose) { content.add(group, origin: "smooth-streaming") }
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
                if isFirst { try Self.refuseWebPage(answer, in: type.name) }
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
        for track in movie.tracks where track.handler == "soun" { content.add(audioTrack: track.language ?? "audio") }
        for track in movie.tracks { content.tracks.append(ContentTrack(track)) }
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
                }, suggestedURL: group.licenseURL))
    }
}
