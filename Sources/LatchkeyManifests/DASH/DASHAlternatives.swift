// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// The Representations of one Period that may stand in for each other: of a player's choice among them, the keys may leave
/// some. A value.
///
/// Packagers put Representations with keys of their own into one AdaptationSet or into several: sets of the same media,
/// language, roles and properties count as one. So does all sound: another language is better than none. Each set of a live
/// manifest stands for itself.
public struct DASHAlternatives: Hashable, Sendable {
    /// Where a Representation stands: the numbers of its Period, its AdaptationSet therein, and itself therein.
    struct Place: Hashable, Sendable {
        var period: Int
        var set: Int
        var representation: Int
    }

    /// Those that need the same keys.
    struct Part: Hashable, Sendable {
        /// By `default_KID`. Empty for clear media, and where the manifest does not tell.
        var keyIDs: Set<KeyID>
        var places: [Place] = []
    }

    /// What they are; nil where that is not told.
    public var media: OutputPolicy.Media?
    /// Each with other KIDs.
    var parts: [Part]
    /// Whether the rest plays without any of them, as without subtitles or pictures of a trick mode.
    var isOptional = false

    /// All KIDs that a choice depends on; none where all need the same.
    public var deciding: Set<KeyID> { parts.count > 1 || isOptional ? Self.keyIDs(of: parts) : [] }

    /// What is left out if these keys may not be used: nothing where no other part would be left, unless that is optional.
    func parts(without refused: Set<KeyID>) -> [Part] {
        let found = parts.filter { !$0.keyIDs.isDisjoint(with: refused) }
        return found.count < parts.count || isOptional ? found : []
    }

    /// Those of the keys for which something is left out.
    public func keyIDs(leftOutFor refused: Set<KeyID>) -> Set<KeyID> {
        Self.keyIDs(of: parts(without: refused)).intersection(refused)
    }

    private static func keyIDs(of parts: [Part]) -> Set<KeyID> {
        parts.reduce(into: []) { $0.formUnion($1.keyIDs) }
    }
}

extension DASHAlternatives {
    /// What an AdaptationSet is, for the choice among several: what a viewer would miss of another one. Of sound, any is
    /// better than none.
    struct Kind: Hashable {
        private var type: String?
        private var language: String?
        private var properties: Set<String>
        private var number: Int?

        /// Whether not every player takes it: trick modes, among others.
        private var isSpecial: Bool { properties.contains { $0.hasPrefix("EssentialProperty ") } }

        /// Those without which the others play: text, and special pictures beside those for all players.
        static func optional(among kinds: some Collection<Kind>) -> Set<Kind> {
            let hasOthers = kinds.contains { $0.type != "text" }
            let hasPictures = kinds.contains { $0.type == "video" && !$0.isSpecial }
            let optional = kinds.filter { kind in
                switch kind.type {
                case _ where kind.number != nil: false
                case "text": hasOthers
                case "video", "image": hasPictures && kind.isSpecial
                default: false
                }
            }
            return Set(optional)
        }

        /// `type`: such as “video”. `number`: of a set that no other may stand for.
        init(_ set: XMLElement, type: String?, number: Int?) {
            self.number = number
            self.type = type
            language = type == "audio" ? nil : set[attribute: "lang"]
            var names: Set<String> = ["EssentialProperty"]
            if type != "audio" { names.formUnion(["Role", "Accessibility", "Viewpoint"]) }
            properties = Set(
                set.children.filter { names.contains($0.localName) }.map { property in
                    let scheme = property[attribute: "schemeIdUri"] ?? ""
                    return "\(property.localName) \(scheme) \(property[attribute: "value"] ?? "")"
                })
        }
    }
}

extension DASHManifest {
    /// The manifest without the Representations whose keys may not be used, and without AdaptationSets that have none left.
    /// `alternatives` are those of the same bytes. Nil where none is left out, and where the result is too large for any reader.
    /// Throws as `init` does.
    public static func leavingOut(
        _ refused: Set<KeyID>, of alternatives: Set<DASHAlternatives>, in bytes: some Collection<UInt8>
    ) throws(FormatError) -> [UInt8]? {
        try leavingOut(
            alternatives.reduce(into: [DASHAlternatives: Set<KeyID>]()) { $0[$1] = refused }, in: bytes)
    }

    /// The same. For each of the alternatives, its own keys may not be used: a license may be for sound and not for pictures.
    package static func leavingOut(
        _ refused: [DASHAlternatives: Set<KeyID>], in bytes: some Collection<UInt8>
    ) throws(FormatError) -> [UInt8]? {
        let places = refused.reduce(into: Set<DASHAlternatives.Place>()) { places, one in
            places.formUnion(one.key.parts(without: one.value).flatMap(\.places))
        }
        guard !places.isEmpty else { return nil }
        var root = try XMLElement(reading: bytes, limits: .manifest)
        root.replaceChildren("Period") { number, period in
            period.replaceChildren("AdaptationSet") { setNumber, set in
                // One without Representations may get them from elsewhere.
                var isKept = set.child("Representation") == nil
                set.replaceChildren("Representation") { representation, _ in
                    let place = DASHAlternatives.Place(period: number, set: setNumber, representation: representation)
                    guard !places.contains(place) else { return false }
                    isKept = true
                    return true
                }
                return isKept
            }
            return true
        }
        let text = root.canonicalText
        return text.utf8.count <= XMLLimits.manifest.size ? Array(text.utf8) : nil
    }
}

extension XMLElement {
    /// Changes the children of that name, each with its number among them, or takes them out where `change` returns false.
    fileprivate mutating func replaceChildren(_ localName: String, _ change: (Int, inout XMLElement) -> Bool) {
        var number = 0
        nodes = nodes.compactMap { node in
            guard case .element(var child) = node, child.localName == localName else { return node }
            defer { number += 1 }
            return change(number, &child) ? .element(child) : nil
        }
    }
}
