// SPDX-License-Identifier: MPL-2.0

import KeySystems
import LicenseControl
import MediaFormats
import ProtectionModel

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
        var content = InspectedContent()
        guard first.kind == .master else {
            try await add(first, from: answer.url, to: &content)
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
        // A playlist that fails is one that playback may come to, so all are looked at.
        for start in stride(from: 0, to: urls.count, by: Self.concurrency) {
            let group = urls[start..<min(start + Self.concurrency, urls.count)]
            for fetched in await fetch(group) {
                let answer = try fetched.get()
                let variant = try read(answer, variables: first.variables, sessionKeys: first.sessionKeys)
                guard variant.kind == .media else {
                    throw .invalidContent("a variant of the master playlist is a master playlist", at: answer.url)
                }
                try await add(variant, from: answer.url, to: &content)
            }
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
        try Self.refuseWebPage(answer, in: "playlist")
        var rewriter = HLSPlaylistRewriter(
            keyFormats: Self.keyFormats(preferring: keySystem), importedVariables: variables, sessionKeys: sessionKeys)
        do throws(FormatError) {
            return try rewriter.rewrite(answer.bytes, from: answer.url) { _ in "https://unused.invalid/" }
        } catch {
            throw Self.failure(error, at: answer.url)
        }
    }

    /// As the demuxer prefers them.
    private static func keyFormats(preferring system: KeySystem?) -> [HLSKeyFormat] {
        let known: [HLSKeyFormat] = [.identity, .fairPlay, .playReady, .widevine]
        let preferred = known.filter { format in
            system != nil && format != .identity && KeySystem(format.protectionSystem) == system
        }
        return preferred + known.filter { !preferred.contains($0) }
    }

    private func add(
        _ playlist: HLSRewriting, from url: String, to content: inout InspectedContent
    ) async throws(AgentError) {
        guard !playlist.durations.isEmpty else {
            throw .invalidContent("it names neither segments nor variants", at: url)
        }
        content.isProtected = content.isProtected || playlist.isProtected
        for use in playlist.keys { content.note(use.key) }
        if let key = playlist.upcomingKey { content.note(key) }
        guard let probe = playlist.segmentToProbe, !playlist.isProtected else { return }
        // A segment that cannot be had is in none: playback will say so.
        let fetched = try? await source.part(
            probe.url, offset: probe.byteRange?.offset ?? 0,
            count: min(Self.probeSize, Int(clamping: probe.byteRange?.length ?? .max)))
        guard let start = fetched else { return }
        try Self.refuseWebPage(start, in: "segment")
        guard let parser = EnvelopeParsers.parser(of: start.bytes) else { return }
        content.isProtected = true
        guard let header = try? parser.header(of: start.bytes),
            let bytes = try? header.playReadyObject.serialized()
        else { return }
        content.note(PSSHBox(system: .playReady, data: bytes))
        let details = try? header.playReadyObject.header()
        content.add(
            .init(
                system: .playReady, keyIDs: details?.keys.map(\.keyID) ?? [],
                data: [InitializationData(system: .playReady, bytes: bytes, origin: "hls/envelope")],
                suggestedURL: details?.details.licenseAcquisitionURL))
    }

    /// The names of `EXT-X-MEDIA` with TYPE=AUDIO, in order (RFC 8216, 4.3.4.1).
    private static func audioNames(in answer: ContentSource.Answer) throws(AgentError) -> [String] {
        let playlist: HLSPlaylist
        do throws(FormatError) { playlist = try HLSPlaylist(answer.bytes) } catch {
            throw failure(error, at: answer.url)
        }
        var names: [String] = []
        for line in playlist.lines {
            guard case .tag("EXT-X-MEDIA", let value?) = line.content,
                let list = try? HLSAttributeList(parsing: value), list["TYPE"] == "AUDIO"
            else { continue }
            let name = list["NAME"] ?? list["LANGUAGE"] ?? "audio"
            // Several groups repeat the same renditions.
            if !names.contains(name) { names.append(name) }
        }
        return names
    }
}

extension InspectedContent {
    /// Takes a key that a playlist names. One of the format `identity` comes from its URI, and needs no licence.
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
