// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

extension HLSPlaylistRewriter {
    /// Variants and renditions get routed URLs; the rest becomes absolute. Variants that the outputs may not show are left
    /// out.
    func rewriteMaster(_ playlist: HLSPlaylist, to output: inout HLSOutput) throws(FormatError) {
        var variables = HLSVariables(imported: [:], url: output.base.reference)
        var sessionKeys: [HLSKey] = []
        var isVariant = false
        var isLeftOut = false
        var sounds = HLSDefaultAudio()
        let hidden = hiddenVariants(of: playlist)
        for line in playlist.lines {
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
                    (isVariant, isLeftOut) = (true, false)
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
                    if isVariant {
                        output.addChild(url, role: .variant)
                        sounds.variantEnds(url)
                    }
                    isVariant = false
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
        guard let list = try? HLSAttributeList(parsing: attributes),
            let rate = (list["AVERAGE-BANDWIDTH"] ?? list["BANDWIDTH"]).flatMap({ UInt32($0) }),
            let size = list["RESOLUTION"]?.split(separator: "x"), size.count == 2,
            let width = UInt32(size[0]), let height = UInt32(size[1])
        else { return nil }
        return PictureQuality(bitRate: rate, width: width, height: height)
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
            let list = try HLSAttributeList(parsing: value)
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
