// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// Makes playlists (RFC 8216) with any keys into playlists that the stock GStreamer demuxer plays.
///
/// The stock demuxer takes each `EXT-X-KEY` for whole-segment AES-128 over http(s). So keys of encrypted samples are
/// taken out, and named in what `EXT-X-MAP` leads to instead: a changed media initialization section, or a note in
/// front of transport streams and packed audio. Other playlists, those sections and notes get URLs by `route`; media
/// segments stay with their origin, unless they are encrypted as a whole in a way that the stock demuxer cannot open.
/// URIs become absolute. Nothing else of an unprotected playlist changes.
///
/// One value for each playlist of a presentation, kept over the refreshes of a live one: a segment keeps what it was
/// given. Pure: nothing is fetched here. A value type: use one from one thread at a time.
public struct HLSPlaylistRewriter: Sendable {
    /// In bytes, of a rewritten playlist.
    public static let maximumResultSize = 32 * 1024 * 1024

    /// The formats of keys that can be used, the preferred one first. AES-128 with `identity` can always be.
    public var keyFormats: [HLSKeyFormat]
    /// The variables of the master playlist, for `EXT-X-DEFINE:IMPORT`.
    public var importedVariables: [String: String]
    /// The session keys of the master playlist. A live playlist whose segments are all clear is prepared for encrypted
    /// ones if there are any.
    public var sessionKeys: [HLSKey]
    /// Whether a playlist that players may change from to this one has encrypted samples. Clear segments are announced then,
    /// so that they are not taken for encrypted ones.
    public var hasEncryptedSibling = false
    /// What the segments are, if it is known. A playlist with `EXT-X-MAP` is fragmented MP4 anyway; otherwise, if this
    /// is nil, the file names of the segments decide, unless they say fragmented MP4.
    public var segmentKind: HLSSegmentKind?

    /// Whether segments are in envelopes. Nil until one was checked: `HLSRewriting.segmentToProbe` says which.
    public var isEnveloped: Bool?

    /// What the outputs have. Variants that want more by their `HDCP-LEVEL` (RFC 8216bis, section 4.4.6.2) are left out,
    /// where there are others. Nil: all variants stay.
    public var outputLevel: OutputRequirement?

    /// The most `EXT-X-KEY` tags of a playlist, and the most `EXT-X-MAP` tags; both together are never more than
    /// `HLSPlaylist.maximumKeysAndMaps`.
    public var keyLimit = HLSPlaylist.defaultKeyLimit

    /// In bytes, of all absolute URLs of a media playlist, also of those of its keys.
    package var urlLimit = HLSMediaPlaylist.maximumURLSize

    /// In bytes: what it may cost to play the playlist (`HLSRewriting.memorySize`).
    package var memoryLimit = Int.max

    /// Whether segments of playlists with keys that would stay with their origin are to come through this library as
    /// well (`HLSResource.relayedSegment`); their parts (`EXT-X-PART`) stay where they are. A live segment that is known keeps
    /// its URL.
    public var relaysSegments = false

    /// The most segments of a playlist on demand that `relaysSegments` is for: each costs memory for its URL.
    package var relayLimit = Int.max

    /// The same for playlists without keys and their maps, too.
    package var relaysClearPlaylists = false

    /// Whether segments in files count among those, as of a playlist in a file.
    package var relaysFiles = false

    /// The name or language of the audio track that is to play; nil: the default of the playlist.
    public var audioTrack: String?

    /// Whether a demuxer takes audio tracks of one language for one track. All but the first of a group lose their language
    /// then.
    public var tellsLanguagesOnce = false

    var window = HLSWindow()

    /// If `segmentKind` is nil, the playlist and its file names decide; see `HLSRewriting.segmentToInspect`.
    public init(
        keyFormats: [HLSKeyFormat], importedVariables: [String: String] = [:], sessionKeys: [HLSKey] = [],
        segmentKind: HLSSegmentKind? = nil
    ) {
        self.keyFormats = keyFormats
        self.importedVariables = importedVariables
        self.sessionKeys = sessionKeys
        self.segmentKind = segmentKind
    }

    /// Rewrites what was fetched from `url`, which is the absolute URL behind all redirects.
    ///
    /// `route` gives the URL under which this library will serve a resource, always the same for the same resource.
    /// Throws `malformed`, `tooLarge` or, where no key format of the playlist can be used, `unsupported`; the text names
    /// the playlist and the line. A rewriter that threw is as it was before.
    public mutating func rewrite(
        _ bytes: some Collection<UInt8>, from url: String, route: @escaping (HLSResource) -> String
    ) throws(FormatError) -> HLSRewriting {
        let base = URIBase(URIReference(url))
        do throws(FormatError) {
            let playlist = try HLSPlaylist(bytes)
            var output = HLSOutput(kind: playlist.kind, base: base, memoryLimit: memoryLimit, route: route)
            // Mostly enough, so that no copy is made at the end.
            output.result.bytes.reserveCapacity(bytes.count)
            switch playlist.kind {
            case .master:
                try rewriteMaster(playlist, to: &output)
            case .media:
                try rewriteMedia(playlist, to: &output)
            }
            return output.result
        } catch {
            throw error.within("playlist \(base.reference.printable)")
        }
    }
}

extension HLSPlaylistRewriter {
    /// Variants and renditions get routed URLs; the rest becomes absolute. Variants that the outputs may not show are left
    /// out.
    private func rewriteMaster(_ playlist: HLSPlaylist, to output: inout HLSOutput) throws(FormatError) {
        var variables = HLSVariables(imported: [:], url: output.base.reference)
        var sessionKeys: [HLSKey] = []
        var variant: HLSRewriting.Variant?
        var isLeftOut = false
        var sounds = HLSDefaultAudio()
        let hidden = hiddenVariants(of: playlist)
        let audio = HLSAudioTracks(playlist)
        output.result.audioTracks = audio.tracks
        for line in audio.lines(withFirst: audioTrack, languagesOnce: tellsLanguagesOnce) {
            do throws(FormatError) {
                var line = line
                line.text = try variables.substituting(line.text)
                switch line.content {
                case .tag("EXT-X-DEFINE", let value):
                    try variables.define(try HLSAttributeList(parsing: value ?? ""))
                case .tag("EXT-X-SESSION-KEY", let value):
                    // The demuxer has no use for these. One that cannot be read only means less of a head start.
                    if let key = try? HLSKey(attributeList: value ?? ""), key.method != .none {
                        sessionKeys.append(key.resolved(against: output.base.reference))
                    }
                case .tag("EXT-X-KEY", _):
                    // Belongs in media playlists alone (RFC 8216, 4.1), and the demuxer is never told of such keys.
                    break
                case .tag("EXT-X-STREAM-INF", _) where hidden.contains(line.number):
                    isLeftOut = true
                case .tag("EXT-X-STREAM-INF", let value):
                    (variant, isLeftOut) = (Self.variant(value ?? ""), false)
                    sounds.variantBegins(value ?? "")
                    if let quality = Self.quality(value ?? "") { output.result.qualities.append(quality) }
                    try output.write(line)
                case .tag(let name, let value):
                    try rewriteTag(line, name, value ?? "", to: &output, &sounds)
                case .uri where isLeftOut: isLeftOut = false
                case .uri(let reference):
                    guard reference.utf8.count <= URIReference.maximumURLSize else {
                        throw .tooLarge("a URL of \(reference.utf8.count) bytes")
                    }
                    let url = output.absolute(reference)
                    if var ended = variant {
                        ended.url = url
                        output.result.variants.append(ended)
                        output.addChild(url, role: .variant)
                        sounds.variantEnds(url)
                    }
                    variant = nil
                    try output.write(output.url(.playlist(url: url)), ending: line.ending)
                case .blank, .comment:
                    try output.write(line)
                }
            } catch {
                throw error.within("line \(line.number)")
            }
        }
        output.result.variables = variables.values
        output.result.defaultAudio = sounds.byVariant
        output.result.soundGroups = sounds.choices
        output.result.isProtected = !sessionKeys.isEmpty
        output.result.sessionKeys = usable(sessionKeys)
    }

    /// The numbers of the lines with variants that want more of the outputs than these have; none where all do that have
    /// pictures.
    private func hiddenVariants(of playlist: HLSPlaylist) -> Set<Int> {
        guard let outputLevel else { return [] }
        var hidden: Set<Int> = []
        var hasOther = false
        for line in playlist.lines {
            guard case .tag("EXT-X-STREAM-INF", let value) = line.content else { continue }
            let list = try? HLSAttributeList(parsing: value ?? "")
            if let level = list?["HDCP-LEVEL"], OutputRequirement(hdcpLevel: level) > outputLevel {
                hidden.insert(line.number)
            } else if list.map(Self.hasPictures) ?? true {
                hasOther = true
            }
        }
        return hasOther ? hidden : []
    }

    /// As GStreamer's demuxer sorts variants: by the average bit rate where it is told. Nil where the size is not.
    private static func quality(_ attributes: Substring) -> PictureQuality? {
        guard let list = try? HLSAttributeList(parsing: attributes), let rate = bitRate(list),
            let size = list["RESOLUTION"]?.split(separator: "x"), size.count == 2,
            let width = UInt32(size[0]), let height = UInt32(size[1])
        else { return nil }
        return PictureQuality(bitRate: rate, width: width, height: height)
    }

    private static func bitRate(_ list: HLSAttributeList) -> UInt32? {
        (list["AVERAGE-BANDWIDTH"] ?? list["BANDWIDTH"]).flatMap { UInt32($0) }
    }

    /// Its URL comes in a line of its own.
    private static func variant(_ attributes: Substring) -> HLSRewriting.Variant {
        let list = try? HLSAttributeList(parsing: attributes)
        return HLSRewriting.Variant(
            url: "", bitRate: list.flatMap(bitRate) ?? 0, hasPictures: list.map(hasPictures) ?? true)
    }

    /// Whether a variant may show something: not where it names its codecs, and all of them are for sound.
    private static func hasPictures(_ list: HLSAttributeList) -> Bool {
        guard list["RESOLUTION"] == nil, list["VIDEO"] == nil, let codecs = list["CODECS"], !codecs.isEmpty else {
            return true
        }
        let names = codecs.split(separator: ",").map { $0.drop { $0 == " " }.prefix { $0 != "." && $0 != " " } }
        return !names.allSatisfy { soundCodecs.contains(String($0).lowercased()) }
    }

    /// Sample entries of ISO media (RFC 6381), without what follows the first point.
    private static let soundCodecs: Set<String> = [
        "mp4a", "ac-3", "ec-3", "ac-4", "opus", "flac", "alac", "mp3", "dtsc", "dtse", "dtsh", "dtsl", "dtsx", "mhm1",
        "mhm2", "iamf",
    ]

    private func rewriteTag(
        _ line: HLSLine, _ name: Substring, _ value: Substring, to output: inout HLSOutput,
        _ sounds: inout HLSDefaultAudio
    ) throws(FormatError) {
        switch name {
        case "EXT-X-MEDIA", "EXT-X-I-FRAME-STREAM-INF", "EXT-X-IMAGE-STREAM-INF":
            let list: HLSAttributeList
            do throws(FormatError) {
                list = try HLSAttributeList(parsing: value)
            } catch {
                guard try writeUnread(line, name, value, to: &output) else { throw error }
                return
            }
            let role = role(of: name, list)
            if role == .audio, let uri = list["URI"], !uri.isEmpty { sounds.add(list, output.absolute(uri)) }
            try output.write(line, tag: name, list: list) { output, attribute in
                guard attribute.name == "URI", !attribute.value.isEmpty else { return nil }
                let url = output.absolute(attribute.value)
                output.addChild(url, role: role)
                return output.url(.playlist(url: url))
            }
        case "EXT-X-SESSION-DATA", "EXT-X-CONTENT-STEERING":
            try output.writeAbsolute(line, tag: name, value: value, names: ["URI", "SERVER-URI"])
        default:
            try output.write(line)
        }
    }

    /// Writes a tag whose list cannot be read, as it is but for its URI. False for what may be encrypted and would be fetched past
    /// this library: a rendition, a URI whose end is not known, or several.
    private func writeUnread(
        _ line: HLSLine, _ name: Substring, _ value: Substring, to output: inout HLSOutput
    ) throws(FormatError) -> Bool {
        let starts = HLSAttributeList.uris(inUnread: value)
        guard let start = starts.first else {
            try output.write(line)
            return true
        }
        let quote = UInt8(ascii: "\"")
        let quoted = value.utf8[start...]
        let rest = quoted.dropFirst()
        guard starts.count == 1, name != "EXT-X-MEDIA", quoted.first == quote, let end = rest.firstIndex(of: quote),
            end > rest.startIndex
        else { return false }
        let url = output.absolute(Substring(rest[..<end]))
        output.addChild(url, role: name == "EXT-X-I-FRAME-STREAM-INF" ? .iFrames : .other)
        let routed = output.url(.playlist(url: url))
        try output.write("#\(name):\(value[..<start])\"\(routed)\(value[end...])", ending: line.ending)
        return true
    }

    private func role(of tag: Substring, _ list: HLSAttributeList) -> HLSRewriting.Child.Role {
        switch (tag, list["TYPE"]) {
        case ("EXT-X-I-FRAME-STREAM-INF", _): .iFrames
        case ("EXT-X-MEDIA", "AUDIO"): .audio
        case ("EXT-X-MEDIA", "VIDEO"): .video
        case ("EXT-X-MEDIA", "SUBTITLES"): .subtitles
        default: .other
        }
    }

    /// The keys of the preferred format among those that are there and can be used, each once.
    private func usable(_ keys: [HLSKey]) -> [HLSKey] {
        var seen: Set<HLSKey> = []
        for format in keyFormats {
            let found = keys.filter { key in
                let isKnown = key.method.encryptsSamples || key.method == .aes128
                return isKnown && key.keyFormat == format.name
                    && !format.versions.isDisjoint(with: key.keyFormatVersions)
            }
            if !found.isEmpty { return found.filter { seen.insert($0).inserted } }
        }
        return []
    }
}

extension HLSOutput {
    fileprivate mutating func addChild(_ url: String, role: HLSRewriting.Child.Role) {
        let child = HLSRewriting.Child(url: url, role: role)
        if routedChildren.insert(child).inserted { result.children.append(child) }
    }

    /// Writes a tag with the named attributes made absolute. A list that cannot be read stays as it is.
    mutating func writeAbsolute(
        _ line: HLSLine, tag: Substring, value: Substring, names: Set<String>
    ) throws(FormatError) {
        guard let list = try? HLSAttributeList(parsing: value) else { return try write(line) }
        try write(line, tag: tag, list: list) { output, attribute in
            guard names.contains(attribute.name), !attribute.value.isEmpty else { return nil }
            return output.absolute(attribute.value)
        }
    }
}

extension HLSPlaylistRewriter {
    private mutating func rewriteMedia(_ playlist: HLSPlaylist, to output: inout HLSOutput) throws(FormatError) {
        let variables = HLSVariables(imported: importedVariables, url: output.base.reference)
        let media = try HLSMediaPlaylist(
            playlist, base: output.base, variables: variables, keyFormats: keyFormats, window: window,
            keyLimit: keyLimit, urlLimit: urlLimit)
        var numbering = window.numbering
        // The stock demuxer goes back to where an older version ends: it has a newer one. One without segments is an error for it,
        // and a few in a row end playback; an encoder that starts anew may have none for a while.
        let isEmpty = media.segments.isEmpty && !media.isEnded && !media.isDelta
        if let last = window.last, isEmpty || numbering.isOlder(media) { return output.result = last }
        numbering.begin(media, known: Set(window.records.values.map(\.url)))
        let plan = HLSPlan(media, rewriter: self, front: numbering.front(of: media))
        try plan.write(media, to: &output)
        describe(media, plan, offset: numbering.offset, in: &output)

        // What is complete is not refreshed.
        guard !media.isEnded else { return }
        numbering.end(media, plan.placements)
        window.numbering = numbering
        window.hasSampleKeys = window.hasSampleKeys || plan.hasSamples
        window.hasFronts = window.hasFronts || plan.placements.contains { $0.front?.value.isRouted == true }
        window.sampleKey = media.segments.last { $0.sampleKey != nil }?.sampleKey ?? window.sampleKey
        let records = zip(media.segments, plan.placements).compactMap { segment, placement in
            segment.url.map { url in
                (
                    segment.sequence,
                    HLSWindow.Record(
                        url: url, byteRange: segment.byteRange, sharedKey: segment.sharedKey,
                        sharedMap: segment.sharedMap, placement: placement)
                )
            }
        }
        window.advance(first: media.mediaSequence, records: records, scopeChanges: media.scopeChanges)
        window.last = media.isDelta ? nil : output.result
    }

    /// `offset` is what numbers have more than those of the origin.
    private func describe(
        _ media: HLSMediaPlaylist, _ plan: HLSPlan, offset: UInt64, in output: inout HLSOutput
    ) {
        output.result.targetDuration = media.targetDuration
        output.result.mediaSequence = media.mediaSequence &+ offset
        output.result.isNumberedAnew = offset != 0
        output.result.isEnded = media.isEnded
        output.result.isDelta = media.isDelta
        let isPart = media.segments.last.map { $0.url == nil } ?? false
        let last = isPart ? [output.lastPart] : [output.lastSegment?.url, output.lastSegment?.part]
        output.result.lastURLs = Set(last.compactMap(\.self))
        var map: HLSShared<HLSMap>?
        for segment in media.segments where segment.sharedMap !== map {
            map = segment.sharedMap
            if let map { output.result.initURLs.insert(map.value.url) }
        }
        output.result.variables = media.variables
        output.result.upcomingKey = media.upcomingKey
        output.result.segmentToInspect = plan.segmentToInspect
        output.result.segmentToProbe = plan.segmentToProbe
        var start = 0.0
        var uses: [HLSRewriting.KeyUse] = []
        for (segment, placement) in zip(media.segments, plan.placements) {
            defer { start += segment.duration }
            // What opens an envelope, it says itself.
            if placement.delivery == .enveloped { output.result.isProtected = true }
            guard let key = segment.key, placement.delivery != .enveloped else { continue }
            let decryptor: HLSRewriting.Decryptor = placement.delivery == .direct ? .element : .server
            let number = segment.sequence &+ offset
            if let last = uses.indices.last, uses[last].key == key, uses[last].decryptor == decryptor,
                uses[last].segments.upperBound < number, uses[last].segments.upperBound &+ 1 == number
            {
                uses[last].segments = uses[last].segments.lowerBound...number
                uses[last].end = start + segment.duration
            } else {
                uses.append(
                    HLSRewriting.KeyUse(
                        key: key, decryptor: decryptor, segments: number...number, start: start,
                        end: start + segment.duration))
            }
        }
        output.result.announcedSegments = announced(media, plan)
        output.result.firstSegment = media.segments.first.map { $0.sequence &+ offset }
        output.result.durations = media.segments.map(\.duration)
        output.result.keys = uses
        if !uses.isEmpty { output.result.isProtected = true }
    }

    private func announced(_ media: HLSMediaPlaylist, _ plan: HLSPlan) -> [String: HLSRewriting.AnnouncedSegment] {
        var announced: [String: HLSRewriting.AnnouncedSegment] = [:]
        var last: HLSKeyNote?
        for (segment, placement) in zip(media.segments, plan.placements) {
            guard case .routed(.keyNote(let note)) = placement.front?.value else {
                last = nil
                continue
            }
            defer { last = note }
            guard let url = segment.url, segment.byteRange == nil else { continue }
            announced[url] = HLSRewriting.AnnouncedSegment(kind: note.kind, isFirst: note != last)
        }
        return announced
    }
}

/// Finds out which sound goes with each variant of a master playlist, while it is read.
struct HLSDefaultAudio {
    private struct Group {
        /// In order, each playlist once.
        var sounds: [HLSRewriting.Sound] = []
        /// The first with `DEFAULT=YES`.
        var preferred: String?
    }

    private static let limit = 64
    /// In order, and the places of their names.
    private var groups: [Group] = []
    private var places: [String: Int] = [:]
    private var variants: [(url: String, group: String)] = []
    /// The `AUDIO` of the variant whose URL comes next.
    private var pending: String?

    /// An `EXT-X-MEDIA` of the type AUDIO whose playlist is at `url`.
    mutating func add(_ list: HLSAttributeList, _ url: String) {
        guard let name = list["GROUP-ID"] else { return }
        let place = places[name] ?? groups.count
        if place == groups.count {
            places[name] = place
            groups.append(Group())
        }
        if groups[place].sounds.count < Self.limit, !groups[place].sounds.contains(where: { $0.url == url }) {
            groups[place].sounds.append(HLSRewriting.Sound(url: url, name: list["NAME"] ?? list["LANGUAGE"] ?? ""))
        }
        if list["DEFAULT"] == "YES", groups[place].preferred == nil { groups[place].preferred = url }
    }

    mutating func variantBegins(_ attributes: Substring) {
        pending = (try? HLSAttributeList(parsing: attributes))?["AUDIO"]
    }

    mutating func variantEnds(_ url: String) {
        if let pending { variants.append((url, pending)) }
        pending = nil
    }

    var byVariant: [String: String] {
        var found: [String: String] = [:]
        for (url, name) in variants where found[url] == nil {
            guard let group = places[name].map({ groups[$0] }) else { continue }
            found[url] = group.preferred ?? (group.sounds.count == 1 ? group.sounds.first?.url : nil)
        }
        return found
    }

    /// Those that may be chosen among, by groups.
    var choices: [[HLSRewriting.Sound]] {
        let urls = Set(groups.lazy.flatMap(\.sounds).map(\.url))
        return urls.count > 1 ? groups.map(\.sounds) : []
    }
}

/// A rewritten playlist in the making.
struct HLSOutput {
    let base: URIBase
    private let memoryLimit: Int
    private let route: (HLSResource) -> String
    private var routed: Set<HLSResource> = []
    /// Of the resource that was remembered last. Neighbours have mostly the same, which is there once.
    private var lastKeyURI: String?
    /// The scheme and the authority of the URL that was noted last.
    private var lastPlace = ""
    var routedChildren: Set<HLSRewriting.Child> = []
    /// The URLs of the segment that was written last and of its last part.
    var lastSegment: (url: String, part: String?)?
    /// The last part since then.
    var lastPart: String?
    /// The origin's playlist may have parts, and this one has none.
    var hasLostParts = false
    var result: HLSRewriting

    init(kind: HLSPlaylist.Kind, base: URIBase, memoryLimit: Int, route: @escaping (HLSResource) -> String) {
        self.base = base
        self.memoryLimit = memoryLimit
        self.route = route
        result = HLSRewriting(kind: kind)
        if let origin = base.reference.origin { result.origins.insert(origin) }
    }

    /// The URL of a resource; remembers the resource.
    mutating func url(_ resource: HLSResource) -> String {
        if routed.insert(resource).inserted {
            result.resources.append(resource)
            result.resourceSize += resource.size
            if let uri = resource.keyURI, uri != lastKeyURI {
                result.resourceSize += uri.utf8.count
                lastKeyURI = uri
            }
        }
        return route(resource)
    }

    /// `reference` as an absolute URL; remembers it and its origin.
    mutating func absolute(_ reference: some StringProtocol) -> String {
        let url = base.resolve(reference)
        note(url)
        return url
    }

    /// Remembers a URL and its origin.
    mutating func note(_ url: String) {
        if result.kind == .media { result.urls.insert(url) }
        // Neighbours have mostly the same, and to find it out takes longer.
        if !lastPlace.isEmpty, url.utf8.starts(with: lastPlace.utf8) { return }
        let reference = URIReference(url)
        guard let origin = reference.origin, let scheme = reference.scheme, let authority = reference.authority else {
            return
        }
        result.origins.insert(origin)
        lastPlace = "\(scheme)://\(authority)/"
    }

    mutating func write(_ line: HLSLine) throws(FormatError) {
        try write(line.text, ending: line.ending)
    }

    mutating func write(_ text: some StringProtocol, ending: Substring = "\n") throws(FormatError) {
        result.bytes += text.utf8
        if ending.utf8.starts(with: "\r\n".utf8) {
            result.bytes += "\r\n".utf8
        } else if !ending.isEmpty {
            // What a carriage return within the line hides from us is hidden from all others too.
            result.bytes += "\n".utf8
        }
        guard result.bytes.count <= HLSPlaylistRewriter.maximumResultSize else {
            throw .tooLarge("more than \(HLSPlaylistRewriter.maximumResultSize) bytes when rewritten")
        }
        guard result.memorySize <= memoryLimit else {
            throw .tooLarge(
                "it takes more than the \(memoryLimit) bytes of memory that the presentation's other playlists leave; "
                    + "playlist-memory in [latchkey] of the configuration file sets the limit for all of them")
        }
    }

    /// Writes a tag whose list was changed by `change`, which gives the new value of an attribute, or nil to leave it.
    mutating func write(
        _ line: HLSLine, tag: Substring, list: HLSAttributeList,
        change: (inout HLSOutput, HLSAttribute) -> String?
    ) throws(FormatError) {
        var list = list
        for index in list.attributes.indices {
            guard let value = change(&self, list.attributes[index]) else { continue }
            list.attributes[index].value = value
            list.attributes[index].isQuoted = true
        }
        try write("#\(tag):\(list.text)", ending: line.ending)
    }
}
