// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// What a DASH manifest (MPD, ISO/IEC 23009-1) says about protection and about its own refreshes. The media itself is
/// not looked at: that is the demuxer's work.
public struct DASHManifest: Hashable, Sendable {
    /// What holds for one Representation, or for an AdaptationSet and its Representations that have no descriptors of their
    /// own. Descriptors that are inherited are in it.
    public struct Protection: Hashable, Sendable {
        /// In the order of the manifest, those of the AdaptationSet that a Representation inherits included.
        public var descriptors: [DASHContentProtection]
        /// What it holds for; nil where that is not told.
        public var media: OutputPolicy.Media?
        /// Those of `descriptors` that no other one of the manifest's `protections` before it has, each once.
        package fileprivate(set) var newDescriptors: [DASHContentProtection]
        /// Where those of a Period, of an AdaptationSet and of a Representation begin.
        fileprivate var levels: [Int]
    }

    /// `type="dynamic"`: live, the manifest changes.
    public var isDynamic: Bool
    /// Nil where the manifest is not to be fetched again.
    public var minimumUpdatePeriod: Duration?
    /// No segment is longer; nil where the manifest does not say so.
    package var longestSegment: Duration?
    /// Where the next version is, as the manifest spells it.
    public var location: String?
    /// Each once, in order. Empty for clear media.
    public var protections: [Protection]
    /// The Representations that tell their bit rate and the size of their pictures.
    public var qualities: [PictureQuality]
    /// What a player may choose among whose parts have keys of their own.
    public var alternatives: Set<DASHAlternatives>
    /// Of the first Period.
    public var audioTracks: [DASHAudioTracks.Track]
    /// Those of protected Representations that a player may choose among, if the manifest does not tell their keys or how to
    /// ask for them. Each once.
    package var untold: [DASHInitSegment]

    /// Whether anything is marked as protected.
    public var isProtected: Bool { !protections.isEmpty }
    /// What could not be used, in words for a log, each once.
    public var flaws: [String] {
        var all: Set<String> = []
        for protection in protections {
            for descriptor in protection.descriptors { all.formUnion(descriptor.flaws) }
        }
        return all.sorted()
    }
}

extension DASHManifest.Protection {
    /// The KIDs of `default_KID`, each once.
    public var defaultKeyIDs: [KeyID] {
        var seen: Set<KeyID> = []
        return descriptors.flatMap(\.defaultKeyIDs).filter { seen.insert($0).inserted }
    }

    /// The protection systems, in the order of the manifest.
    public var systems: [ProtectionSystem] {
        descriptors.compactMap { if case .system(let system) = $0.scheme { system } else { nil } }
    }

    /// The descriptors, those that stand further inside first. In the order of the manifest within an element.
    package var innermostFirst: [DASHContentProtection] {
        var rest = descriptors[...]
        var result: [DASHContentProtection] = []
        for level in levels.reversed() {
            result += rest[level...]
            rest = rest[..<level]
        }
        return result + rest
    }

    /// Those of the innermost element that names a KID: its own go before those that it inherits.
    package var keyDescriptors: ArraySlice<DASHContentProtection> {
        var end = descriptors.count
        for level in ([0] + levels).reversed() {
            let own = descriptors[level..<end]
            if own.contains(where: { $0.defaultKeyIDs.contains { !$0.isZero } }) { return own }
            end = level
        }
        return []
    }

    /// The descriptor of that system.
    public func descriptor(of system: ProtectionSystem) -> DASHContentProtection? {
        descriptors.first { $0.scheme == .system(system) }
    }
}

extension XMLLimits {
    /// For manifests of adaptive streaming. Long timelines have an element for each segment. GStreamer's demuxers
    /// read no more bytes; with the documents that they make of it, the largest manifest takes less than 256 MiB.
    public static let manifest = XMLLimits(
        size: 10_000_000, elements: 131_072, markup: 440_000, isLenient: true)
}

extension XMLElement {
    /// The value of the attribute with this local name, in whatever namespace.
    func attribute(anyNamespace localName: String) -> String? {
        self[attribute: localName] ?? attributes.first { $0.localName == localName }?.value
    }
}

extension DASHManifest {
    /// The most different sets of descriptors that are kept; ads and languages repeat the same ones.
    private static let protectionLimit = 1024
    /// The most AdaptationSets and Representations that are looked at, and the most descriptors of one element.
    private static let setLimit = 8192
    private static let descriptorLimit = 32
    /// The most KIDs that the choice by keys looks at: of different descriptors, and of all alternatives together.
    /// Representations beyond count as such without a KID, and nothing is left out of Periods beyond.
    private static let keyLimit = 65_536
    /// Initialization data of all different descriptors together, in bytes.
    private static let dataLimit = 2 << 20

    /// The most init segments that are looked for, and of these the most that are of use.
    private static let initSegmentLimits = (all: 64, untold: 32)

    /// Reads a manifest. Throws what `XMLElement(reading:limits:)` throws, and `malformed` if the document is none.
    ///
    /// An error inside a descriptor does not throw: `flaws` reports it.
    public init(_ bytes: some Collection<UInt8>) throws(FormatError) { try self.init(bytes, from: nil) }

    /// The same. `url`: where it came from, for `untold`; nil: there is none. `known`: what init segments say.
    package init(
        _ bytes: some Collection<UInt8>, from url: String?,
        known: [DASHInitSegment: [DASHContentProtection]] = [:]
    ) throws(FormatError) {
        let root = try XMLElement(reading: bytes, limits: .manifest)
        guard root.localName == "MPD" else { throw .malformed("no MPD: the document is something else") }
        isDynamic = root[attribute: "type"] == "dynamic"
        minimumUpdatePeriod = root[attribute: "minimumUpdatePeriod"].flatMap { Duration(iso8601: $0) }
        longestSegment = root[attribute: "maxSegmentDuration"].flatMap { Duration(iso8601: $0) }
        location = root.child("Location").map(\.trimmedText).flatMap { $0.isEmpty ? nil : $0 }
        protections = []
        qualities = []
        alternatives = []
        audioTracks = []
        var collector = Collector(known: known)
        collector.collect(root, url.map { URIReference($0) })
        untold = collector.untold
        protections = collector.protections
        qualities = collector.qualities
        alternatives = Set(collector.alternatives)
        audioTracks = DASHAudioTracks(root).periods.first ?? []
    }

    /// Goes through Periods, AdaptationSets and Representations. Descriptors are told apart by numbers, because most
    /// are repeated many times.
    private struct Collector {
        private struct Part: Hashable {
            var numbers: [Int]
            var media: OutputPolicy.Media?
        }

        /// In which Period and in which AdaptationSet something stands; nil: above it.
        private struct Place {
            var period: Int?
            var set: Int?
        }

        /// Where a source is looked for. `ofPeriod` and `ofManifest`: in the element itself.
        private enum Scope: Hashable {
            case set(Int?, Int), ofPeriod(Int), period(Int), ofManifest, manifest
        }

        /// A descriptor with a `refId`, by its scheme; nil: the first with that `refId`.
        private struct SourceName: Hashable {
            var refID: String
            var scheme: DASHContentProtection.Scheme?
            var scope: Scope
        }

        /// A descriptor with a `refId`, and its own `ref`.
        private struct Source {
            var number: Int
            var reference: String?
            var place: Place
            /// What that leads to.
            var next: Int?
        }

        /// What a reference leads to, by way of others.
        private struct Chain: Hashable {
            var numbers: [Int] = []
            /// The last one refers to none that is there.
            var isBroken = false
        }

        /// A descriptor that refers to another one.
        private struct Use: Hashable {
            var number: Int
            var chain: Chain
        }

        private var descriptors: [DASHContentProtection] = []
        private var numbers: [DASHContentProtection: Int] = [:]
        private var parts: [(part: Part, levels: [Int])] = []
        private var known: Set<Part> = []
        /// Descriptors with a `refId`, which may stand behind their uses. Inserted Periods repeat those of others.
        private var sources: [Source] = []
        private var sourceNumbers: [SourceName: Int] = [:]
        /// Every `refId` that a descriptor refers to.
        private var references: Set<String> = []
        private var uses: [Use: Int] = [:]
        private var setCount = 0
        /// How many descriptors of the MPD hold for all.
        private var commonCount = 0
        private var dataSize = 0
        private(set) var qualities: [PictureQuality] = []
        private(set) var alternatives: [DASHAlternatives] = []
        /// The different sets of KIDs, and their numbers, by themselves and by descriptors.
        private var keySets: [Set<KeyID>] = []
        private var keySetPlaces: [Set<KeyID>: Int] = [:]
        private var keySetNumbers: [[Int]: Int] = [:]
        /// The KIDs that were looked at for that.
        private var keyCount = 0
        /// Those of all alternatives, each as often as it is there.
        private var choiceCount = 0
        private let knownSegments: [DASHInitSegment: [DASHContentProtection]]
        private(set) var untold: [DASHInitSegment] = []
        /// How many init segments were looked for, and those of the Period that are not known.
        private var initSegmentCount = 0
        private var unknown: [(place: DASHAlternatives.Place, segment: DASHInitSegment, hasKeys: Bool)] = []

        init(known: [DASHInitSegment: [DASHContentProtection]]) { knownSegments = known }

        var protections: [Protection] {
            var seen: Set<Int> = []
            return parts.map { part, levels in
                let new = part.numbers.filter { seen.insert($0).inserted }
                return Protection(
                    descriptors: part.numbers.map { descriptors[$0] }, media: part.media,
                    newDescriptors: new.map { descriptors[$0] }, levels: levels)
            }
        }

        /// `url` is where the manifest came from; nil: no init segment is looked for.
        mutating func collect(_ root: XMLElement, _ url: URIReference?) {
            // GStreamer's demuxer knows the sets of the next version by their numbers, so all stay.
            let isDynamic = root[attribute: "type"] == "dynamic"
            findSources(in: root, Place())
            for index in sources.indices {
                let source = sources[index]
                sources[index].next = source.reference.flatMap {
                    self.source($0, descriptors[source.number].scheme, source.place)
                }
            }
            let common = numbers(of: root, Place(), areForAll: true)
            commonCount = common.count
            for (number, period) in root.children.lazy.filter({ $0.localName == "Period" }).enumerated() {
                let inPeriod = common + numbers(of: period, Place(period: number), areForAll: true)
                let keysOfPeriod = keySet(of: inPeriod)
                unknown = []
                var found: [DASHAlternatives.Kind: (media: OutputPolicy.Media?, parts: [Int?: DASHAlternatives.Part])] =
                    [:]
                for (setNumber, set) in period.children.lazy.filter({ $0.localName == "AdaptationSet" }).enumerated() {
                    let kind = DASHAlternatives.Kind(
                        set, type: Self.mediaType(of: set), number: isDynamic ? setNumber : nil)
                    var same = found.removeValue(forKey: kind) ?? (Self.media(of: set), [:])
                    let first = DASHAlternatives.Place(period: number, set: setNumber, representation: 0)
                    let keys = collect(
                        set: set, first, url.map { ($0, [root, period, set]) }, inherited: inPeriod, keysOfPeriod)
                    for (representation, key) in keys.enumerated() {
                        var place = first
                        place.representation = representation
                        let part = DASHAlternatives.Part(keyIDs: key.map { keySets[$0] } ?? [])
                        same.parts[key, default: part].places.append(place)
                    }
                    found[kind] = same
                }
                let optional = DASHAlternatives.Kind.optional(among: found.keys)
                if !unknown.isEmpty {
                    findUntold(among: found.map { ($0.value.parts.values.map(\.places), optional.contains($0.key)) })
                }
                // Without these keys nothing plays: what is optional and needs no others is no matter of a choice.
                let needed = Set(
                    found.filter { !optional.contains($0.key) && $0.value.parts.count == 1 }.values
                        .flatMap(\.parts.keys))
                let choices = found.filter { kind, same in
                    let isLeftOut = optional.contains(kind) && same.parts[nil] == nil
                    return same.parts.count > 1 || isLeftOut && !needed.isSuperset(of: same.parts.keys)
                }
                choiceCount += choices.values.flatMap(\.parts.values).reduce(0) { $0 + $1.keyIDs.count }
                guard choiceCount <= DASHManifest.keyLimit else { continue }
                for (kind, same) in choices {
                    let parts = same.parts.sorted { ($0.key ?? -1) < ($1.key ?? -1) }.map(\.value)
                    alternatives.append(
                        DASHAlternatives(media: same.media, parts: parts, isOptional: optional.contains(kind)))
                }
            }
        }

        /// Gives the numbers of the KIDs of each Representation. `first` is the place of the first one. `outer` is where the
        /// manifest came from, and what is around a Representation; nil: no init segment is looked for.
        private mutating func collect(
            set: XMLElement, _ first: DASHAlternatives.Place, _ outer: (url: URIReference, levels: [XMLElement])?,
            inherited: [Int], _ outerKeys: Int?
        ) -> [Int?] {
            let inSet = Place(period: first.period, set: first.set)
            let ofSet = numbers(of: set, inSet)
            let levels = [commonCount, inherited.count, inherited.count + ofSet.count]
            let media = Self.media(of: set)
            let keysOfSet = keySet(of: ofSet) ?? outerKeys
            var keys: [Int?] = []
            var (ownParts, inherits): ([Part], Bool) = ([], false)
            for representation in set.children where representation.localName == "Representation" {
                note(representation)
                var own = numbers(of: representation, inSet)
                if let outer, needsInitSegment(inherited + ofSet + own, keySet(of: own) ?? keysOfSet),
                    let segment = DASHInitSegment(outer.levels + [representation], from: outer.url)
                {
                    if let found = knownSegments[segment] {
                        // What the manifest says itself goes before it.
                        let told = (inherited + ofSet + own).map { descriptors[$0] }.filter { !$0.systemBoxes.isEmpty }
                        own += found.filter { one in !told.contains { $0.scheme == one.scheme } }
                            .compactMap { number(of: $0) }
                    } else {
                        var place = first
                        place.representation = keys.count
                        unknown.append((place, segment, keySet(of: own) ?? keysOfSet != nil))
                    }
                }
                keys.append(keySet(of: own) ?? keysOfSet)
                if own.isEmpty {
                    inherits = true
                } else if ownParts.count < DASHManifest.protectionLimit {
                    ownParts.append(Part(numbers: inherited + ofSet + own, media: media))
                }
            }
            // Goes first: the others inherit its KIDs, beside data of their own.
            if inherits || ownParts.isEmpty { keep(Part(numbers: inherited + ofSet, media: media), levels) }
            for part in ownParts { keep(part, levels) }
            return keys
        }

        /// Whether what is protected has no KID, or nothing that a request could be made of, while more may be looked for.
        private mutating func needsInitSegment(_ numbers: [Int], _ keys: Int?) -> Bool {
            let canBeAskedFor = numbers.contains { number in
                switch descriptors[number].scheme {
                case .system(let system):
                    system == .clearKey || system == .common || !descriptors[number].systemBoxes.isEmpty
                case .commonEncryption: !descriptors[number].protectionBoxes.isEmpty
                case .other: false
                }
            }
            guard !numbers.isEmpty, keys == nil || !canBeAskedFor else { return false }
            initSegmentCount += 1
            return initSegmentCount <= DASHManifest.initSegmentLimits.all
        }

        /// Those of what is unknown that a choice may depend on. `choices`: what a player may choose among in the Period, by keys, and
        /// whether it may be left out as a whole.
        private mutating func findUntold(among choices: [(parts: [[DASHAlternatives.Place]], isOptional: Bool)]) {
            var (open, differing): (Set<DASHAlternatives.Place>, Set<DASHAlternatives.Place>) = ([], [])
            for (parts, isOptional) in choices {
                let isChoice = parts.count > 1 || isOptional
                if isChoice || parts.contains(where: { $0.count > 1 }) { open.formUnion(parts.joined()) }
                if isChoice { differing.formUnion(parts.joined()) }
            }
            for (place, segment, hasKeys) in unknown where (hasKeys ? differing : open).contains(place) {
                guard untold.count < DASHManifest.initSegmentLimits.untold else { return }
                if !untold.contains(segment) { untold.append(segment) }
            }
        }

        /// The number that stands for the KIDs of these descriptors; nil: they name none, or there are too many.
        private mutating func keySet(of numbers: [Int]) -> Int? {
            if numbers.isEmpty { return nil }
            if let known = keySetNumbers[numbers] { return known }
            let count = numbers.reduce(0) { $0 + descriptors[$1].defaultKeyIDs.count }
            keyCount += count
            guard count > 0, keyCount <= DASHManifest.keyLimit else { return nil }
            let keyIDs = numbers.reduce(into: Set<KeyID>()) { $0.formUnion(descriptors[$1].defaultKeyIDs) }
            let number = keySetPlaces[keyIDs] ?? keySets.count
            if number == keySets.count {
                keySets.append(keyIDs)
                keySetPlaces[keyIDs] = number
            }
            keySetNumbers[numbers] = number
            return number
        }

        private static func mediaType(of set: XMLElement) -> String? {
            let first = set.child("Representation")
            let name = set[attribute: "contentType"] ?? set[attribute: "mimeType"] ?? first?[attribute: "mimeType"]
            let type = name?.split(separator: "/").first.map(String.init)
            guard type == "application" else { return type }
            // As packagers write text that is in XML or in MP4 (RFC 6381), if they write no contentType.
            let codecs = set[attribute: "codecs"] ?? first?[attribute: "codecs"] ?? ""
            let isText = name == "application/ttml+xml" || textCodecs.contains(codecs.prefix { $0 != "." }.lowercased())
            return isText ? "text" : type
        }

        private static let textCodecs: Set<String> = ["stpp", "wvtt", "sbtt", "stxt", "tx3g"]

        private static func media(of set: XMLElement) -> OutputPolicy.Media? {
            switch mediaType(of: set) {
            case "video": .video
            case "audio": .audio
            default: nil
            }
        }

        /// GStreamer's demuxer goes by what the Representation says itself, and not by what it inherits.
        private mutating func note(_ representation: XMLElement) {
            guard qualities.count < DASHManifest.setLimit,
                let rate = representation[attribute: "bandwidth"].flatMap({ UInt32($0) }),
                let width = representation[attribute: "width"].flatMap({ UInt32($0) }),
                let height = representation[attribute: "height"].flatMap({ UInt32($0) })
            else { return }
            qualities.append(PictureQuality(bitRate: rate, width: width, height: height))
        }

        /// What holds in several places is kept once.
        private mutating func keep(_ part: Part, _ levels: [Int]) {
            guard !part.numbers.isEmpty, parts.count < DASHManifest.protectionLimit, known.insert(part).inserted else {
                return
            }
            parts.append((part, levels))
        }

        private static func descriptorElements(of element: XMLElement) -> some Sequence<XMLElement> {
            element.children.lazy.filter { $0.localName == "ContentProtection" }.prefix(DASHManifest.descriptorLimit)
        }

        /// What holds for an element. `areForAll`: it is a Period or the MPD, of which descriptors with a `refId` hold
        /// where they are referred to, and nowhere else. One that nothing refers to is as those without.
        private mutating func numbers(of element: XMLElement, _ place: Place, areForAll: Bool = false) -> [Int] {
            setCount += 1
            guard setCount <= DASHManifest.setLimit else { return [] }
            return Self.descriptorElements(of: element).compactMap { descriptor in
                let refID = areForAll ? descriptor.attribute(anyNamespace: "refId") : nil
                return refID.map { references.contains($0) } ?? false ? nil : number(of: descriptor, place)
            }
        }

        private mutating func number(of element: XMLElement, _ place: Place) -> Int? {
            guard let own = number(of: DASHContentProtection(element)) else { return nil }
            guard let reference = element.attribute(anyNamespace: "ref") else { return own }
            let use = Use(number: own, chain: chain(from: source(reference, descriptors[own].scheme, place)))
            if let known = uses[use] { return known }
            // It shares what it has from elsewhere, and costs little.
            uses[use] = descriptors.count
            descriptors.append(resolved(use))
            return uses[use]
        }

        private mutating func number(of descriptor: DASHContentProtection) -> Int? {
            if let known = numbers[descriptor] { return known }
            dataSize += descriptor.dataSize
            guard dataSize <= DASHManifest.dataLimit else { return nil }
            numbers[descriptor] = descriptors.count
            descriptors.append(descriptor)
            return descriptors.count - 1
        }

        // MARK: References

        /// The most descriptors in a chain of references.
        private static let chainLimit = 8

        private mutating func findSources(in element: XMLElement, _ place: Place) {
            for descriptor in Self.descriptorElements(of: element) {
                if let reference = descriptor.attribute(anyNamespace: "ref"), references.count < DASHManifest.setLimit {
                    references.insert(reference)
                }
                guard let refID = descriptor.attribute(anyNamespace: "refId"), sources.count < DASHManifest.setLimit,
                    let number = number(of: DASHContentProtection(descriptor))
                else { continue }
                for scope in Self.scopes(of: place) {
                    for scheme in [nil, descriptors[number].scheme] {
                        let name = SourceName(refID: refID, scheme: scheme, scope: scope)
                        if sourceNumbers[name] == nil { sourceNumbers[name] = sources.count }
                    }
                }
                let reference = descriptor.attribute(anyNamespace: "ref")
                sources.append(Source(number: number, reference: reference, place: place))
            }
            var (periods, sets) = (0, 0)
            for child in element.children {
                var inner = place
                switch child.localName {
                case "Period": (inner.period, periods) = (periods, periods + 1)
                case "AdaptationSet": (inner.set, sets) = (sets, sets + 1)
                case "Representation": break
                default: continue
                }
                findSources(in: child, inner)
            }
        }

        /// Those that a source counts in. `ofUse`: those that one is looked for in, the nearest first.
        private static func scopes(of place: Place, ofUse: Bool = false) -> [Scope] {
            var scopes: [Scope] = []
            if let set = place.set { scopes.append(.set(place.period, set)) }
            if let period = place.period {
                if ofUse || place.set == nil { scopes.append(.ofPeriod(period)) }
                scopes.append(.period(period))
            }
            if ofUse || place.set == nil && place.period == nil { scopes.append(.ofManifest) }
            return scopes + [.manifest]
        }

        /// The nearest one with that `refId`, of that scheme if there is one.
        private func source(_ refID: String, _ scheme: DASHContentProtection.Scheme, _ place: Place) -> Int? {
            let scopes = Self.scopes(of: place, ofUse: true)
            for scheme in [scheme, nil] {
                for scope in scopes {
                    let name = SourceName(refID: refID, scheme: scheme, scope: scope)
                    if let found = sourceNumbers[name] { return found }
                }
            }
            return nil
        }

        private func chain(from first: Int?) -> Chain {
            var (chain, next, leadsOn) = (Chain(), first, true)
            while leadsOn, chain.numbers.count < Self.chainLimit {
                guard let source = next.map({ sources[$0] }) else {
                    chain.isBroken = true
                    return chain
                }
                chain.numbers.append(source.number)
                (next, leadsOn) = (source.next, source.reference != nil)
            }
            return chain
        }

        private func resolved(_ use: Use) -> DASHContentProtection {
            var result = descriptors[use.number]
            var isBroken = use.chain.isBroken
            for number in use.chain.numbers {
                guard let inherited = result.inheriting(from: descriptors[number]) else {
                    isBroken = true
                    break
                }
                result = inherited
            }
            if isBroken { result.note("a ContentProtection has a ref that leads to no other of its scheme") }
            return result
        }
    }
}

extension Duration {
    /// Reads `P0Y0M…DT…H…M…S` (ISO 8601), days and less. Nil for anything else, for months and years, which have no fixed
    /// length, unless there are 0, and for a thousand years and more.
    public init?(iso8601 text: String) {
        var rest = Substring(text)
        guard rest.popFirst() == "P", !rest.isEmpty else { return nil }
        var seconds = 0.0
        var isTime = false
        while let first = rest.first {
            if first == "T" {
                isTime = true
                rest.removeFirst()
                continue
            }
            let digits = rest.prefix { $0.isASCII && ($0.isNumber || $0 == ".") }
            rest = rest.dropFirst(digits.count)
            guard let number = Double(digits), let unit = rest.popFirst() else { return nil }
            switch (unit, isTime) {
            case ("Y", false) where number == 0, ("M", false) where number == 0: break
            case ("D", false): seconds += number * 86_400
            case ("H", true): seconds += number * 3600
            case ("M", true): seconds += number * 60
            case ("S", true): seconds += number
            default: return nil
            }
        }
        guard seconds < 3.2e10 else { return nil }
        self = .milliseconds(Int64((seconds * 1000).rounded()))
    }
}

extension DASHManifest {
    /// The manifest that was fetched from `url`, with the media at other origins: those that `route` gives for
    /// `scheme://authority`, without a slash at the end. `route` gives nil for an origin whose media is to stay there.
    ///
    /// The result has an absolute BaseURL, so that it may come from anywhere. Nil where media cannot be led elsewhere
    /// soundly: where parts of the manifest come from another place (`xlink:href`), where a reference leads above the root of
    /// its origin, where one without an origin may belong to several, and where the result is too large for any reader.
    /// Throws as `init` does.
    public static func routed(
        _ bytes: some Collection<UInt8>, from url: String, route: (String) -> String?
    ) throws(FormatError) -> [UInt8]? {
        let root = try XMLElement(reading: bytes, limits: .manifest)
        guard root.localName == "MPD" else { throw .malformed("no MPD: the document is something else") }
        return withoutActuallyEscaping(route) { route in
            var routing = DASHRouting(routes: OriginRoutes(route: route))
            guard let text = routing.routed(root, from: url)?.canonicalText else { return nil }
            return text.utf8.count <= XMLLimits.manifest.size ? Array(text.utf8) : nil
        }
    }
}

/// One manifest on the way. Bases are combined as GStreamer's demuxer does: of several BaseURLs at one place, the first
/// holds for what is below.
private struct DASHRouting {
    let routes: OriginRoutes
    /// Of the bases of all media.
    private var origins: Set<String> = []
    /// Of the directory of the base that is nearest to its root.
    private var depth = Int.max
    /// The most steps up in a reference.
    private var steps = 0
    /// A reference has no origin of its own, or no scheme.
    private var hasRooted = false
    private var isSound = true
    /// The reader fetches the manifest again, at a place that stands for its own: what it fetches from elsewhere then, it
    /// would name that place to.
    private var isDynamic = false

    private static let containers: Set<String> = ["MPD", "Period", "AdaptationSet", "Representation"]
    /// Attributes that are URLs of media, by their elements (ISO/IEC 23009-1, 5.3.9).
    private static let references: [String: Set<String>] = [
        "SegmentTemplate": ["media", "index", "initialization", "bitstreamSwitching"],
        "SegmentURL": ["media", "index"], "Initialization": ["sourceURL"], "RepresentationIndex": ["sourceURL"],
        "BitstreamSwitching": ["sourceURL"],
    ]

    init(routes: OriginRoutes) { self.routes = routes }

    mutating func routed(_ root: XMLElement, from url: String) -> XMLElement? {
        var base = URIReference(url).target(of: "")
        guard let home = OriginRoutes.origin(of: base), routes.route(home) != nil else { return nil }
        isDynamic = root[attribute: "type"] == "dynamic"
        look(at: root, base)
        // Without an origin of its own, a reference needs one that is the same everywhere.
        guard isSound, steps <= depth, !hasRooted || origins.count == 1 else { return nil }
        var result = written(root, base, origins.first ?? home)
        if root.child("BaseURL") == nil {
            // Its query is no matter of the media.
            base.query = nil
            let name = XMLElement(
                "BaseURL", prefix: root.prefix, namespace: root.namespace, nodes: [.text(absolute(base.text))])
            result.nodes.insert(.element(name), at: 0)
        }
        return result
    }

    private func absolute(_ url: String) -> String { routes.routed(absolute: url) ?? url }

    // MARK: What there is

    private mutating func look(at element: XMLElement, _ outer: URIReference) {
        var base = outer
        if Self.containers.contains(element.localName) {
            let own = element.children.filter { $0.localName == "BaseURL" }.map(\.trimmedText)
            for text in own.dropFirst() { note(outer.target(of: text)) }
            if let first = own.first { base = outer.target(of: first) }
            note(base)
        }
        for attribute in element.attributes {
            if attribute.localName == "href", !attribute.namespace.isEmpty,
                attribute.value != "urn:mpeg:dash:resolve-to-zero:2013"
            {
                isSound = false
            }
            guard Self.isReference(attribute, of: element) else { continue }
            let count = URIReference(attribute.value).stepsUp
            switch ReferenceKind(attribute.value) {
            case .absolute: isSound = isSound && count == 0
            case .ofScheme, .ofOrigin: (hasRooted, isSound) = (true, isSound && count == 0)
            case .below: steps = max(steps, count)
            }
        }
        for child in element.children { look(at: child, base) }
    }

    private mutating func note(_ base: URIReference) {
        guard let origin = OriginRoutes.origin(of: base),
            !isDynamic && origin != OriginRoutes.files || routes.route(origin) != nil
        else {
            isSound = false
            return
        }
        origins.insert(origin)
        depth = min(depth, base.depth)
    }

    private static func isReference(_ attribute: XMLElement.Attribute, of element: XMLElement) -> Bool {
        attribute.namespace.isEmpty && references[element.localName]?.contains(attribute.localName) == true
    }

    // MARK: What becomes of it

    private func written(_ element: XMLElement, _ outer: URIReference, _ origin: String) -> XMLElement {
        var result = element
        var base = outer
        if Self.containers.contains(element.localName), let first = element.child("BaseURL") {
            base = outer.target(of: first.trimmedText)
        }
        for index in result.attributes.indices where Self.isReference(result.attributes[index], of: element) {
            result.attributes[index].value = written(result.attributes[index].value, origin)
        }
        result.nodes = element.nodes.map { node in
            guard case .element(var child) = node else { return node }
            guard child.localName == "BaseURL" else { return .element(written(child, base, origin)) }
            let text = child.trimmedText
            // At the root it is the manifest's own place no more.
            if element.localName == "MPD" || ReferenceKind(text) != .below || URIReference(text).stepsUp > 0 {
                child.nodes = [.text(absolute(outer.target(of: text).text))]
            }
            return .element(child)
        }
        return result
    }

    /// `origin` is where a reference belongs that has none.
    private func written(_ reference: String, _ origin: String) -> String {
        switch ReferenceKind(reference) {
        case .absolute: routes.routed(absolute: reference) ?? reference
        case .ofScheme: absolute("\(origin.prefix { $0 != ":" }):\(reference)")
        case .ofOrigin: absolute(origin + reference)
        case .below: reference
        }
    }
}

extension DASHManifest {
    /// How many bytes `isManifest(start:)` wants to see.
    public static let recognitionSize = 4096

    /// Whether the first bytes of a file are those of a manifest: its first element is an MPD of the namespace of DASH.
    /// Comments, the declaration and a document type in front of it are stepped over. The bytes may end anywhere behind
    /// the tag's name. They may be in UTF-16.
    public static func isManifest(start: [UInt8]) -> Bool {
        var rest = start.prefix(recognitionSize)
        let units = Array(rest.prefix(rest.count & ~1))
        // The second half of the last character may be missing.
        if let text = UTF16Text.decode(units) ?? UTF16Text.decode(Array(units.dropLast(2))) {
            rest = Array(text.utf8)[...]
        }
        if rest.starts(with: [0xEF, 0xBB, 0xBF]) { rest = rest.dropFirst(3) }
        while true {
            rest = rest.drop { $0 == 0x20 || 0x09...0x0D ~= $0 }
            guard rest.popFirst() == UInt8(ascii: "<"), let first = rest.first else { return false }
            switch first {
            case UInt8(ascii: "?"):
                guard let end = end(of: rest) else { return false }
                rest = rest[end...]
            case UInt8(ascii: "!"):
                let isComment = rest.starts(with: "!--".utf8)
                guard isComment || rest.starts(with: "!DOCTYPE".utf8),
                    let end = isComment ? end(ofComment: rest.dropFirst(3)) : end(ofDocumentType: rest)
                else { return false }
                rest = rest[end...]
            default:
                let tag = rest.prefix { $0 != UInt8(ascii: ">") }
                let name = tag.prefix { $0 > 0x20 && $0 != UInt8(ascii: "/") }
                let local = name.split(separator: UInt8(ascii: ":")).last ?? []
                // The edition of 2012 has capitals in it.
                return local.elementsEqual("MPD".utf8)
                    && String(decoding: tag, as: UTF8.self).lowercased().contains("urn:mpeg:dash:")
            }
        }
    }

    /// Behind the end of the processing instruction.
    private static func end(of instruction: ArraySlice<UInt8>) -> Int? {
        instruction.indices.dropFirst().first {
            instruction[$0] == UInt8(ascii: ">") && instruction[$0 - 1] == UInt8(ascii: "?")
        }.map { $0 + 1 }
    }

    /// Behind the end of the comment.
    private static func end(ofComment bytes: ArraySlice<UInt8>) -> Int? {
        var dashes = 0
        for index in bytes.indices {
            if dashes >= 2, bytes[index] == UInt8(ascii: ">") { return index + 1 }
            dashes = bytes[index] == UInt8(ascii: "-") ? dashes + 1 : 0
        }
        return nil
    }

    /// The index behind the document type. The reader of manifests refuses one that has declarations.
    private static func end(ofDocumentType bytes: ArraySlice<UInt8>) -> Int? {
        var (depth, quote) = (0, UInt8(0))
        for index in bytes.indices {
            switch bytes[index] {
            case quote where quote != 0: quote = 0
            case _ where quote != 0: break
            case UInt8(ascii: "\""), UInt8(ascii: "'"): quote = bytes[index]
            case UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: ">") where depth <= 0: return index + 1
            default: break
            }
        }
        return nil
    }
}
