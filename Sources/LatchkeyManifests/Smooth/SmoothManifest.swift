// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// What a Smooth Streaming manifest ([MS-SSTR], 2.2.2) says about protection and about its streams, and the manifest
/// itself, for GStreamer's demuxer to read in a form that it gets right.
public struct SmoothManifest: Hashable, Sendable {
    /// The Type of a StreamIndex; `other` for one that is missing or not known.
    public enum StreamType: String, Sendable { case video, audio, text, other }

    /// A StreamIndex: one stream with all its qualities ([MS-SSTR], 2.2.2.3).
    public struct Stream: Hashable, Sendable {
        /// Read without regard to case.
        public var type: StreamType
        /// Nil where the manifest gives none.
        public var name: String?
        /// As the manifest spells it.
        public var language: String?
        /// Where it stands among the nodes of the manifest.
        fileprivate var node: Int

        /// What people choose it by: the name, else the language. No two audio streams have the same one, and each has
        /// one: where the manifest repeats itself, a number makes the difference.
        public internal(set) var label: String?
    }

    /// A ProtectionHeader: what one protection system needs ([MS-SSTR], 2.2.2.2).
    public struct ProtectionHeader: Hashable, Sendable {
        /// Nil where SystemID is missing or no UUID.
        public var system: ProtectionSystem?
        /// What it holds; nil where that is no Base64.
        public var data: [UInt8]?
    }

    /// A QualityLevel that others may stand in for ([MS-SSTR], 2.2.2.5): those of its stream or, of sound, those of all streams.
    package struct Quality: Hashable, Sendable {
        /// Of the fragment that it begins with. Absolute.
        package var fragmentURL: String
        package var media: OutputPolicy.Media
        /// Where the stream stands among the nodes of the manifest, and the number of the quality in the stream.
        fileprivate var stream: Int
        fileprivate var number: Int
        /// The stream, or the first one of sound.
        package fileprivate(set) var group: Int
    }

    /// `IsLive`: the manifest changes while it is played.
    public var isLive: Bool
    /// In the order of the manifest, 256 at most.
    public var streams: [Stream]
    /// There is a Protection element, empty or not.
    public var isProtected: Bool
    /// In the order of the manifest, those of all Protection elements.
    public var protectionHeaders: [ProtectionHeader]
    /// Of all video streams, those whose QualityLevel tells a bit rate and a size; 4,096 at most.
    public var qualities: [PictureQuality]
    /// Nil where it was dropped.
    private var root: XMLElement?

    /// The most streams and headers that are looked at.
    private static let limit = 256
    /// The most qualities that are looked at.
    private static let qualityLimit = 4096
    /// All headers together, in bytes.
    private static let dataLimit = 1 << 20

    /// Reads a manifest in UTF-8 or UTF-16. Throws what `XMLElement(reading:limits:)` throws, and `malformed` where the
    /// document is none.
    public init(_ bytes: some Collection<UInt8>) throws(FormatError) {
        let root = try XMLElement(reading: bytes, limits: .manifest)
        guard root.localName == "SmoothStreamingMedia" else {
            throw .malformed("no SmoothStreamingMedia: the document is something else")
        }
        isLive = root[attribute: "IsLive"]?.lowercased() == "true"
        streams = []
        qualities = []
        isProtected = false
        protectionHeaders = []
        var dataSize = 0
        for (index, node) in root.nodes.enumerated() {
            guard case .element(let element) = node else { continue }
            switch element.localName {
            case "StreamIndex" where streams.count < Self.limit:
                streams.append(Self.stream(element, at: index))
                if streams.last?.type == .video {
                    qualities += Self.qualities(of: element).prefix(Self.qualityLimit - qualities.count)
                }
            case "Protection":
                isProtected = true
                for child in element.children
                where child.localName == "ProtectionHeader" && protectionHeaders.count < Self.limit {
                    let header = Self.header(child)
                    dataSize += header.data?.count ?? 0
                    guard dataSize <= Self.dataLimit else {
                        throw .tooLarge("ProtectionHeaders of more than \(Self.dataLimit) bytes")
                    }
                    protectionHeaders.append(header)
                }
            default: break
            }
        }
        self.root = root
        nameAudio()
    }

    /// Gives the document itself up, which takes much more memory than what is said here: from then on, `serialized` has
    /// nothing to give.
    public mutating func dropDocument() { root = nil }

    private mutating func nameAudio() {
        var taken: Set<String> = []
        for index in streams.indices where streams[index].type == .audio {
            let own = streams[index].label ?? "audio"
            var label = own
            var number = 2
            while !taken.insert(label).inserted {
                label = "\(own) \(number)"
                number += 1
            }
            streams[index].label = label
        }
    }

    private static func stream(_ element: XMLElement, at node: Int) -> Stream {
        let type = StreamType(rawValue: element[attribute: "Type"]?.lowercased() ?? "") ?? .other
        func text(_ name: String) -> String? { element[attribute: name].flatMap { $0.isEmpty ? nil : $0 } }
        let (name, language) = (text("Name"), text("Language"))
        return Stream(type: type, name: name, language: language, node: node, label: name ?? language)
    }

    /// [MS-SSTR], 2.2.2.5; early encoders call the size Width and Height.
    private static func qualities(of stream: XMLElement) -> [PictureQuality] {
        stream.children.lazy.filter { $0.localName == "QualityLevel" }.compactMap { level in
            func number(_ names: String...) -> UInt32? {
                names.lazy.compactMap { level[attribute: $0].flatMap { UInt32($0) } }.first
            }
            guard let rate = number("Bitrate"), let width = number("MaxWidth", "Width"),
                let height = number("MaxHeight", "Height")
            else { return nil }
            return PictureQuality(bitRate: rate, width: width, height: height)
        }
    }

    private static func header(_ element: XMLElement) -> ProtectionHeader {
        let text = element.text.utf8.filter { $0 != 0x20 && !(0x09...0x0D ~= $0) }
        let data = Base64.decode(String(decoding: text, as: UTF8.self))
        return ProtectionHeader(
            system: element[attribute: "SystemID"].flatMap { ProtectionSystem(uuid: XMLElement.trimmed($0)) },
            data: data?.isEmpty == true ? nil : data)
    }
}

extension SmoothManifest {
    /// Changes the Url of every StreamIndex ([MS-SSTR], 2.2.2.3). False, and nothing changed, where `change` gives nil.
    private mutating func changeURLs(_ change: (String) -> String?) -> Bool {
        guard var root else { return false }
        for index in root.nodes.indices {
            guard case .element(var element) = root.nodes[index], element.localName == "StreamIndex",
                let place = element.attributes.firstIndex(where: { $0.localName == "Url" && $0.namespace.isEmpty })
            else { continue }
            guard let url = change(element.attributes[place].value) else { return false }
            element.attributes[place].value = url
            root.nodes[index] = .element(element)
        }
        self.root = root
        return true
    }

    /// The audio stream with that label or, where none has it, the first of that language.
    public func audio(labelled label: String) -> Stream? {
        let audio = streams.filter { $0.type == .audio }
        return audio.first { $0.label == label } ?? audio.first { $0.language?.lowercased() == label.lowercased() }
    }

    /// The manifest as GStreamer's demuxer reads it right: without protection, which is not its matter; without streams
    /// of text, which it may fail on; with a name of its own for each audio stream, by which it tells them apart; and
    /// with the audio stream `first` in front of the others.
    ///
    /// A live manifest is read again and again, stream by stream in the order of the first time: there all streams stay
    /// where they are.
    ///
    /// Empty after `dropDocument`.
    public func serialized(audioFirst first: Stream? = nil) -> [UInt8] {
        guard var root else { return [] }
        var order = Array(root.nodes.indices)
        if !isLive, let first, let place = streams.first(where: { $0.type == .audio })?.node, place != first.node,
            first.type == .audio, let source = order.firstIndex(of: first.node)
        {
            order.remove(at: source)
            order.insert(first.node, at: order.firstIndex(of: place) ?? 0)
        }
        for stream in streams where stream.type == .audio && stream.label != stream.name ?? stream.language {
            guard case .element(var element) = root.nodes[stream.node] else { continue }
            element.attributes.removeAll { $0.localName == "Name" && $0.prefix.isEmpty }
            element.attributes.append(.init("Name", stream.label ?? ""))
            root.nodes[stream.node] = .element(element)
        }
        let hidden = Set(isLive ? [] : streams.filter { $0.type == .text }.map(\.node))
        root.nodes = order.compactMap { index in
            if case .element(let element) = root.nodes[index], element.localName == "Protection" { return nil }
            return hidden.contains(index) ? nil : root.nodes[index]
        }
        return Array(root.canonicalText.utf8)
    }
}

extension SmoothManifest {
    /// The most qualities that a choice by keys looks at.
    private static let choiceLimit = 32

    /// What a player may choose among, stream by stream, pictures first: another language is better than no sound. `url`: where
    /// the manifest came from. None of a live presentation, which forgets its first fragments, and of streams whose fragments
    /// have URLs of a kind that is not known here.
    package func choices(from url: String) -> [Quality] {
        guard !isLive, let root else { return [] }
        let base = URIReference(url)
        var found: [Quality] = []
        let sounds = streams.filter { $0.type == .audio }
        for stream in streams.filter({ $0.type == .video }) + sounds {
            guard case .element(let element) = root.nodes[stream.node] else { continue }
            let levels = element.children.filter { $0.localName == "QualityLevel" }
            let (isSound, count) = (stream.type == .audio, levels.count)
            guard count > 1 || isSound && count == 1 && sounds.count > 1, found.count + levels.count <= Self.choiceLimit
            else { continue }
            let start = element.child("c")?[attribute: "t"].map { UInt64($0) } ?? 0
            let own = levels.enumerated().compactMap { number, level -> Quality? in
                guard let start, let rate = level[attribute: "Bitrate"].flatMap({ UInt64($0) }),
                    let text = Self.fragment(element[attribute: "Url"] ?? "", rate: rate, start: start)
                else { return nil }
                return Quality(
                    fragmentURL: URIReference.resolve(text, against: base),
                    media: isSound ? .audio : .video, stream: stream.node, number: number,
                    group: isSound ? sounds[0].node : stream.node)
            }
            if own.count == levels.count { found += own }
        }
        return found
    }

    /// [MS-SSTR], 2.2.2.3.1. Nil if it names something else, such as CustomAttributes.
    private static func fragment(_ pattern: String, rate: UInt64, start: UInt64) -> String? {
        var (url, rest) = ("", pattern[...])
        while let first = rest.firstIndex(of: "{") {
            guard let last = rest[first...].firstIndex(of: "}") else { return nil }
            url += rest[..<first]
            switch rest[rest.index(after: first)..<last].lowercased() {
            case "bitrate": url += String(rate)
            case "start time", "start_time": url += String(start)
            default: return nil
            }
            rest = rest[rest.index(after: last)...]
        }
        return url + rest
    }

    /// `serialized` has no such qualities then, and no stream that loses all.
    package mutating func leaveOut(_ qualities: some Sequence<Quality>) {
        guard var root else { return }
        for (node, own) in Dictionary(grouping: qualities, by: \.stream) {
            guard case .element(var element) = root.nodes[node] else { continue }
            var number = 0
            element.nodes.removeAll { child in
                guard case .element(let level) = child, level.localName == "QualityLevel" else { return false }
                defer { number += 1 }
                return own.contains { $0.number == number }
            }
            if number == own.count {
                streams.removeAll { $0.node == node }
                root.nodes[node] = .text("")
                continue
            }
            // The stock demuxer counts for itself, others believe it.
            if let place = element.attributes.firstIndex(where: { $0.localName == "QualityLevels" }) {
                element.attributes[place].value = String(number - own.count)
            }
            root.nodes[node] = .element(element)
        }
        self.root = root
    }
}

extension SmoothManifest {
    /// Leads the fragments of the manifest that was fetched from `url` to other origins: those that `route` gives for
    /// `scheme://authority`, without a slash at the end. `serialized` has it so then.
    ///
    /// False, and nothing changed, where that cannot be done soundly: where `route` gives nothing for the manifest's own
    /// origin, and where a stream's Url leads above its root.
    public mutating func route(from url: String, _ route: (String) -> String?) -> Bool {
        withoutActuallyEscaping(route) { routed(from: url, OriginRoutes(route: $0)) }
    }

    private mutating func routed(from url: String, _ routes: OriginRoutes) -> Bool {
        let base = URIReference(url).target(of: "")
        guard let home = OriginRoutes.origin(of: base), let other = routes.route(home) else { return false }
        let folder = base.path.lastIndex(of: "/").map { base.path[...$0] } ?? "/"
        return changeURLs { text in
            let steps = URIReference(text).stepsUp
            guard steps <= (ReferenceKind(text) == .below ? base.depth : 0) else { return nil }
            return switch ReferenceKind(text) {
            case .absolute: routes.routed(absolute: text) ?? text
            case .ofScheme: routes.routed(absolute: "\(home.prefix { $0 != ":" }):\(text)")
            case .ofOrigin: other + text
            case .below: "\(other)\(folder)\(text)"
            }
        }
    }
}
