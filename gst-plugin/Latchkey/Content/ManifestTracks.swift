// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyKeySystems
import LatchkeyManifests
import LatchkeyProtection

/// The tracks of a DASH manifest (ISO/IEC 23009-1): each Representation, over all Periods.
struct DASHTracks {
    private let root: XMLElement

    init(_ manifest: XMLElement) { root = manifest }

    func add(to content: inout InspectedContent) {
        var place: Double? = root[attribute: "type"] == "dynamic" ? nil : 0
        let periods = root.children.filter { $0.localName == "Period" }
        let total = Self.seconds(root[attribute: "mediaPresentationDuration"])
        for (index, period) in periods.enumerated() {
            let start = Self.seconds(period[attribute: "start"]) ?? place
            let next = index + 1 < periods.count ? Self.seconds(periods[index + 1][attribute: "start"]) : total
            let duration = Self.seconds(period[attribute: "duration"])
            let end = start.flatMap { start in duration.map { start + $0 } } ?? next
            place = end
            var keysOfPeriod = Keys()
            keysOfPeriod.add(period)
            for set in period.children where set.localName == "AdaptationSet" {
                var keysOfSet = keysOfPeriod
                keysOfSet.add(set)
                for representation in set.children where representation.localName == "Representation" {
                    guard content.tracks.count < InspectedContent.limit else { return }
                    var track = Self.track(representation, in: set)
                    var keys = keysOfSet
                    keys.add(representation)
                    track.keyPeriods = [
                        KeyPeriod(start: start, end: end, method: keys.method, keyIDs: keys.keyIDs.values)
                    ]
                    content.add(track)
                }
            }
        }
    }

    private static func seconds(_ text: String?) -> Double? {
        text.flatMap { Duration(iso8601: $0) }.map { Double($0.milliseconds) / 1000 }
    }

    private static func track(_ representation: XMLElement, in set: XMLElement) -> ContentTrack {
        func value(_ name: String) -> String? {
            (representation[attribute: name] ?? set[attribute: name]).flatMap { $0.isEmpty ? nil : $0 }
        }
        let type = value("contentType") ?? value("mimeType").map { String($0.prefix { $0 != "/" }) }
        let codecs = value("codecs")
        var track =
            switch type {
            case "video": ContentTrack(.video)
            case "audio": ContentTrack(.audio)
            case "text": ContentTrack(.text)
            case "application" where ["stpp", "wvtt"].contains(codecs.map { String($0.prefix(4)) }):
                ContentTrack(.text)
            default: ContentTrack(.other)
            }
        let label = set.child("Label")?.trimmedText ?? ""
        track.name = label.isEmpty ? nil : label
        track.language = value("lang")
        track.codecs = codecs
        track.bitRate = value("bandwidth").flatMap { UInt64($0) }
        track.width = value("width").flatMap { UInt32($0) }
        track.height = value("height").flatMap { UInt32($0) }
        return track
    }

    /// What descriptors say of the keys, the outermost ones first. Each element is read once, whatever is in it.
    private struct Keys {
        var method: String?
        var keyIDs = DistinctValues<KeyID>()

        mutating func add(_ element: XMLElement) {
            for child in element.children where child.localName == "ContentProtection" {
                let descriptor = DASHContentProtection(child)
                if descriptor.scheme == .commonEncryption, let scheme = descriptor.value { method = scheme }
                if descriptor.scheme != .other || !descriptor.defaultKeyIDs.isEmpty { method = method ?? "encrypted" }
                keyIDs.add(descriptor.defaultKeyIDs, limit: InspectedContent.limit)
            }
        }
    }
}

extension SmoothTracks {
    /// Each QualityLevel ([MS-SSTR], 2.2.2.5). All of video and sound has the keys of the manifest's header.
    func add(to content: inout InspectedContent, of manifest: SmoothManifest, root: XMLElement) {
        let scale = root[attribute: "TimeScale"].flatMap { Double($0) } ?? 10_000_000
        let ticks = root[attribute: "Duration"].flatMap { Double($0) } ?? 0
        let end: Double? = ticks > 0 && scale > 0 ? ticks / scale : nil
        for stream in streams {
            let name = stream[attribute: "Name"], language = stream[attribute: "Language"]
            for level in stream.children where level.localName == "QualityLevel" {
                var track = ContentTrack(
                    ContentTrack.Kind(rawValue: stream[attribute: "Type"]?.lowercased() ?? "") ?? .other)
                track.name = name?.isEmpty == false ? name : nil
                track.language = language?.isEmpty == false ? language : nil
                track.codecs = Self.codec(of: level, in: stream)
                track.bitRate = level[attribute: "Bitrate"].flatMap { UInt64($0) }
                track.width = (level[attribute: "MaxWidth"] ?? stream[attribute: "MaxWidth"]).flatMap { UInt32($0) }
                track.height = (level[attribute: "MaxHeight"] ?? stream[attribute: "MaxHeight"]).flatMap { UInt32($0) }
                let encryption = track.kind == .video || track.kind == .audio ? manifest.encryption : nil
                track.keyPeriods = [
                    KeyPeriod(
                        start: manifest.isLive ? nil : 0, end: end, method: encryption?.scheme.rawValue,
                        keyIDs: encryption == nil ? [] : manifest.keyIDs)
                ]
                content.add(track)
            }
        }
    }
}

extension ContentTrack {
    /// A track of an ISO file.
    init(_ track: ISOFileSummary.Track) {
        switch track.handler {
        case "vide": self.init(.video)
        case "soun": self.init(.audio)
        case "text", "subt", "sbtl", "clcp": self.init(.text)
        default: self.init(.other)
        }
        language = track.language
        codecs = track.codec
        let method = track.isProtected ? track.scheme?.rawValue ?? "encrypted" : nil
        keyPeriods = [KeyPeriod(start: 0, end: nil, method: method, keyIDs: track.keyIDs)]
    }
}

/// The streams that a Smooth Streaming manifest needs to have, by the Downloadable Agent manual, 5.3.2: a video of H.264
/// with a quality, and an audio of AAC with one quality.
struct SmoothTracks {
    let streams: [XMLElement]

    init(_ manifest: XMLElement) { streams = manifest.children.filter { $0.localName == "StreamIndex" } }

    /// Throws `invalidContent` with what is missing, `unsupportedContent` with the codec that there is in its place.
    func check(at url: String) throws(AgentError) {
        try check("video", at: url, codecs: "H.264", count: { $0 >= 1 }) { ["H264", "AVC1", "X264"].contains($0) }
        // Manifests without a FourCC have the WAVE format tag of AAC.
        try check("audio", at: url, codecs: "AAC, with one quality", count: { $0 == 1 }) {
            ["AACL", "AACH", "AACP", "255"].contains($0)
        }
    }

    private func check(
        _ type: String, at url: String, codecs: String, count isEnough: (Int) -> Bool, _ isKnown: (String) -> Bool
    ) throws(AgentError) {
        let ofType = streams.filter { $0[attribute: "Type"]?.lowercased() == type }
        guard !ofType.isEmpty else { throw .invalidContent("it has no StreamIndex of the type \(type)", at: url) }
        var others: Set<String> = []
        for stream in ofType {
            let levels = stream.children.filter { $0.localName == "QualityLevel" }
            let codes = levels.map { Self.codec(of: $0, in: stream) }
            if codes.allSatisfy(isKnown), isEnough(levels.count) { return }
            others.formUnion(codes.map { String($0.prefix(16)) })
            if levels.isEmpty { others.insert("no QualityLevel") }
        }
        throw .unsupportedContent(
            "it has no StreamIndex of the type \(type) that is played (\(codecs)); there is "
                + others.sorted().joined(separator: ", "), at: url)
    }

    static func codec(of level: XMLElement, in stream: XMLElement) -> String {
        let code = [level, stream].compactMap { $0[attribute: "FourCC"] }.first { !$0.isEmpty }
        return code?.uppercased() ?? level[attribute: "AudioTag"] ?? "no FourCC"
    }
}
