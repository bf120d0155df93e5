// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyContainers

/// A master playlist (RFC 8216, 4.3.4) with the tracks alone that are kept for playback offline. A value; what is not
/// kept, subtitles among it, is not named any more.
public struct HLSOfflineMaster: Sendable {
    /// The media playlists that are kept, absolute: the variant first. Empty for what is no master playlist.
    public private(set) var playlists: [String] = []
    /// For the media playlists (`EXT-X-DEFINE:IMPORT`).
    public private(set) var variables: [String: String] = [:]
    /// Whether it is a master playlist at all.
    public let isMaster: Bool

    private enum Line {
        case text(String)
        case url(String)
        case list(tag: Substring, HLSAttributeList)
    }

    private struct Audio {
        var group: String
        var name: String
        var language: String?
        var isDefault: Bool
        var list: HLSAttributeList
        var url: String?
    }

    private struct Variant {
        var bitRate: UInt64
        var list: HLSAttributeList
        var url: String
        /// Nil if its list can be read.
        var unread: Unread?
    }

    /// The tag of a variant whose list cannot be read, and why not.
    private struct Unread {
        var text: String
        var error: FormatError
    }

    private var lines: [Line] = []

    /// Reads what was fetched from `url`. Throws `malformed` and `tooLarge`, with the line.
    public init(
        _ bytes: some Collection<UInt8>, from url: String, selection: TrackSelection
    ) throws(FormatError) {
        let playlist = try HLSPlaylist(bytes)
        isMaster = playlist.kind == .master
        guard isMaster else { return }
        let base = URIBase(URIReference(url))
        var values = HLSVariables(imported: [:], url: base.reference)
        var variants: [Variant] = []
        var audio: [Audio] = []
        var pending: (list: HLSAttributeList, unread: Unread?)?
        for var line in playlist.lines {
            do throws(FormatError) {
                line.text = try values.substituting(line.text)
                switch line.content {
                case .tag("EXT-X-DEFINE", let value):
                    try values.define(try HLSAttributeList(parsing: value ?? ""))
                case .tag("EXT-X-STREAM-INF", let value):
                    do throws(FormatError) {
                        pending = (try HLSAttributeList(parsing: value ?? ""), nil)
                    } catch {
                        let unread = Unread(text: String(line.text), error: error.within("line \(line.number)"))
                        pending = (HLSAttributeList([]), unread)
                    }
                case .tag("EXT-X-MEDIA", let value):
                    guard let list = try Self.rendition(value ?? ""), list["TYPE"] == "AUDIO" else { break }
                    let url = list["URI"].flatMap { $0.isEmpty ? nil : base.resolve($0) }
                    audio.append(
                        Audio(
                            group: list["GROUP-ID"] ?? "", name: list["NAME"] ?? list["LANGUAGE"] ?? "audio",
                            language: list["LANGUAGE"],
                            isDefault: list["DEFAULT"] == "YES", list: list, url: url))
                case .tag("EXT-X-SESSION-KEY", let value):
                    if let list = try? HLSAttributeList(parsing: value ?? "") {
                        lines.append(.list(tag: "EXT-X-SESSION-KEY", list.withAbsoluteURI(base)))
                    }
                case .tag("EXT-X-VERSION", _), .tag("EXT-X-INDEPENDENT-SEGMENTS", _),
                    .tag("EXT-X-START", _):
                    lines.append(.text(String(line.text)))
                case .uri(let reference):
                    guard let (list, unread) = pending else { break }
                    pending = nil
                    let rate = list["BANDWIDTH"].flatMap { hlsInteger($0) } ?? 0
                    variants.append(
                        Variant(bitRate: rate, list: list, url: base.resolve(reference), unread: unread))
                case .tag, .blank, .comment: break
                }
            } catch {
                throw error.within("line \(line.number)")
            }
        }
        variables = values.values
        if let unread = variants.first?.unread, variants.allSatisfy({ $0.unread != nil }) {
            // Which sound belongs to it is not known either.
            guard !audio.contains(where: { $0.url != nil }) else { throw unread.error }
        } else {
            variants.removeAll { $0.unread != nil }
        }
        guard let best = selection.variant(of: variants.map(\.bitRate)) else {
            throw .malformed("a master playlist without variants")
        }
        keep(variants[best], with: audio, selection)
    }

    /// The list of a rendition. Nil if it cannot be read and names no playlist, as those of closed captions.
    private static func rendition(_ value: Substring) throws(FormatError) -> HLSAttributeList? {
        do throws(FormatError) {
            return try HLSAttributeList(parsing: value)
        } catch {
            guard HLSAttributeList.uris(inUnread: value).isEmpty else { throw error }
            return nil
        }
    }

    private mutating func keep(_ variant: Variant, with audio: [Audio], _ selection: TrackSelection) {
        playlists = [variant.url]
        let group = audio.filter { $0.group == variant.list["AUDIO"] }
        let chosen = selection.audio(
            of: group.map { ($0.name, [$0.language].compactMap(\.self)) },
            preferred: group.firstIndex(where: \.isDefault))
        for (place, index) in chosen.enumerated() {
            var list = group[index].list
            // Something has to play by default.
            if place == 0, !chosen.contains(where: { group[$0].isDefault }) {
                list.attributes.removeAll { $0.name == "DEFAULT" || $0.name == "AUTOSELECT" }
                list.attributes.append(HLSAttribute(name: "DEFAULT", value: "YES", isQuoted: false))
                list.attributes.append(HLSAttribute(name: "AUTOSELECT", value: "YES", isQuoted: false))
            }
            if let url = group[index].url {
                list.set("URI", url)
                if !playlists.contains(url) { playlists.append(url) }
            }
            lines.append(.list(tag: "EXT-X-MEDIA", list))
        }
        if let unread = variant.unread {
            lines += [.text(unread.text), .url(variant.url)]
            return
        }
        var list = variant.list
        let gone: Set<String> = ["SUBTITLES", "VIDEO"]
        list.attributes.removeAll { gone.contains($0.name) || $0.name == "CLOSED-CAPTIONS" && $0.value != "NONE" }
        if chosen.isEmpty { list.attributes.removeAll { $0.name == "AUDIO" } }
        lines.append(.list(tag: "EXT-X-STREAM-INF", list))
        lines.append(.url(variant.url))
    }

    /// The playlist, with what `route` makes of the URLs of its media playlists, and of those of keys that are in
    /// `keptKeys`.
    public func serialized(keptKeys: Set<String> = [], route: (String) -> String) -> [UInt8] {
        var text = "#EXTM3U\n"
        for line in lines {
            switch line {
            case .text(let line): text += line
            case .url(let url): text += route(url)
            case .list(let tag, var list):
                if tag == "EXT-X-MEDIA", let url = list["URI"] { list.set("URI", route(url)) }
                if tag == "EXT-X-SESSION-KEY" { list.route(keptKeys, route) }
                text += "#\(tag):\(list.text)"
            }
            text += "\n"
        }
        return Array(text.utf8)
    }
}

extension HLSAttributeList {
    mutating func set(_ name: String, _ value: String) {
        if let index = attributes.firstIndex(where: { $0.name == name }) { attributes[index].value = value }
    }

    /// Of a key: takes what `route` makes of its URI, where the key itself is kept.
    mutating func route(_ keptKeys: Set<String>, _ route: (String) -> String) {
        guard self["KEYFORMAT"] ?? HLSKeyFormat.identity.name == HLSKeyFormat.identity.name, let uri = self["URI"],
            keptKeys.contains(uri)
        else { return }
        set("URI", route(uri))
    }

    /// With the `URI` as seen from `base`. Keys stay where they are.
    func withAbsoluteURI(_ base: URIBase) -> HLSAttributeList {
        guard let uri = self["URI"], !uri.isEmpty else { return self }
        var list = self
        list.set("URI", base.resolve(uri))
        return list
    }
}
