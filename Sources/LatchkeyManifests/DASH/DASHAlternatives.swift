// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// The Representations of one Period that show the same: of a player's choice among them, the keys may leave some. A value.
///
/// Packagers put Representations with keys of their own into one AdaptationSet or into several: sets of the same media,
/// language, roles and properties count as one.
public struct DASHAlternatives: Hashable, Sendable {
    /// Where a Representation stands: the numbers of its Period, its AdaptationSet therein, and itself therein.
    struct Place: Hashable, Sendable {
        var period: Int
        var set: Int
        var representation: Int
    }

    /// What they are; nil where that is not told.
    public var media: OutputPolicy.Media?
    /// The KIDs of each, by `default_KID`. Empty for clear media, and where the manifest does not tell.
    private(set) var keyIDs: [Place: Set<KeyID>] = [:]

    init(media: OutputPolicy.Media?) { self.media = media }

    /// One that is not known is never left out.
    mutating func add(_ place: Place, _ keyIDs: Set<KeyID>) {
        if self.keyIDs.count < DASHManifest.setLimit { self.keyIDs[place] = keyIDs }
    }

    /// All KIDs that a choice depends on; none where all need the same.
    public var deciding: Set<KeyID> {
        Set(keyIDs.values).count > 1 ? keyIDs.values.reduce(into: []) { $0.formUnion($1) } : []
    }

    /// Those to leave out if these keys may not be used: none where no other would be left.
    func places(without refused: Set<KeyID>) -> Set<Place> {
        let places = keyIDs.filter { !$0.value.isDisjoint(with: refused) }.keys
        return places.count < keyIDs.count ? Set(places) : []
    }

    /// Those of the keys for which something is left out.
    public func keyIDs(leftOutFor refused: Set<KeyID>) -> Set<KeyID> {
        places(without: refused).reduce(into: Set<KeyID>()) { $0.formUnion(keyIDs[$1] ?? []) }.intersection(refused)
    }
}

extension DASHManifest {
    /// The manifest without the Representations whose keys may not be used, and without AdaptationSets that have none left.
    /// `alternatives` are those of the same bytes. Nil where none is left out. Throws as `init` does.
    public static func leavingOut(
        _ refused: Set<KeyID>, of alternatives: Set<DASHAlternatives>, in bytes: some Collection<UInt8>
    ) throws(FormatError) -> [UInt8]? {
        let places = alternatives.reduce(into: Set<DASHAlternatives.Place>()) {
            $0.formUnion($1.places(without: refused))
        }
        guard !places.isEmpty else { return nil }
        var root = try XMLElement(reading: bytes, limits: .manifest)
        root.replaceChildren("Period") { number, period in
            period.replaceChildren("AdaptationSet") { setNumber, set in
                var count = 0
                set.replaceChildren("Representation") { representation, _ in
                    let isKept = !places.contains(
                        DASHAlternatives.Place(period: number, set: setNumber, representation: representation))
                    if isKept { count += 1 }
                    return isKept
                }
                return count > 0
            }
            return true
        }
        return Array(root.canonicalText.utf8)
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
