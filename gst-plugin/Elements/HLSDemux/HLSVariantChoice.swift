// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests

/// Which variants and which sound of a presentation may be played, as far as their keys are known. A value.
///
/// Keys stand in the playlists of the variants, so a variant is found out when the stock demuxer asks for its playlist. It
/// gets that of another variant then: before 1.26, it does not begin without the first playlist that it asks for.
struct HLSVariantChoice {
    /// The most variants that are found out: each takes a playlist, and a request for its keys.
    private static let limit = 64

    /// How the stock demuxer comes to ask for another variant than the one that it plays. In bits a second.
    enum Departure: Hashable, Sendable {
        case atMost(UInt32)
        case atLeast(UInt32)
    }

    private var variants: [HLSRewriting.Variant] = []
    /// The playlists of sound by groups: another language is better than none.
    private var sounds: [[HLSRewriting.Sound]] = []
    /// Where each of them is the first time.
    private var soundPlaces: [String: (group: Int, name: String)] = [:]
    private var refused: Set<String> = []
    /// Those of them that play until a key which is needed later.
    private var beginning: Set<String> = []
    /// The variants whose playlists stand for those of others, also where these were made before they were asked for.
    private var given: [String: String] = [:]
    /// The variant whose playlist the stock demuxer has got last.
    private var current: String?

    /// All variants of the master playlist, which names these children and `soundGroups`. A playlist that is for the sound of
    /// others, too, is no matter of the choice: another variant is no such sound, and other sound may be no such variant.
    mutating func setVariants(
        _ variants: [HLSRewriting.Variant], among children: [HLSRewriting.Child],
        soundGroups: [[HLSRewriting.Sound]] = []
    ) {
        let audio = Set(children.lazy.filter { $0.role == .audio }.map(\.url))
        self.variants = variants.filter { !audio.contains($0.url) }
        let own = Set(variants.map(\.url))
        sounds = soundGroups.map { group in group.filter { !own.contains($0.url) } }
        soundPlaces = [:]
        for (number, group) in sounds.enumerated() {
            for sound in group where soundPlaces[sound.url] == nil { soundPlaces[sound.url] = (number, sound.name) }
        }
    }

    /// Keys of this variant's playlist may not be used. Beyond the limit, the variant stays: the decryptor tells then. `begins`:
    /// the first ones may.
    mutating func refuse(_ url: String, begins: Bool = false) {
        if refused.count < Self.limit { refused.insert(url) }
        beginning.remove(url)
        if begins, refused.contains(url) { beginning.insert(url) }
    }

    /// They may: they came after all.
    mutating func allow(_ url: String) {
        refused.remove(url)
        beginning.remove(url)
    }

    /// Whether the playlist is one of sound that another may stand in for.
    func isSound(_ url: String) -> Bool { soundPlaces.count > 1 && soundPlaces[url] != nil }

    func isRefused(_ url: String) -> Bool { refused.contains(url) }

    /// The playlist of `source` is the answer to a request for that of `url`, once there is one.
    mutating func give(_ source: String, for url: String) { given[url] = source == url ? nil : source }

    /// The stock demuxer has got the answer to a request for the playlist of `url`. False: that is no variant's.
    mutating func didAnswer(_ url: String) -> Bool {
        guard variants.contains(where: { $0.url == url }) else { return false }
        current = url
        return true
    }

    /// Nil where the variant that plays is not refused, and where none is left. Which of the others plays is told when the stock
    /// demuxer asks for one.
    var departure: Departure? {
        guard let current, refused.contains(given[current] ?? current),
            let own = variants.first(where: { $0.url == current })
        else { return nil }
        let all = variants.filter { !refused.contains($0.url) }
        guard !all.isEmpty else { return nil }
        // As in `playlist(for:)`.
        let isAlike = all.contains { $0.hasPictures == own.hasPictures }
        func rates(_ some: [HLSRewriting.Variant]) -> [UInt32] {
            some.filter { !isAlike || $0.hasPictures == own.hasPictures }.map(\.bitRate)
        }
        let (rate, rates, kept) = (own.bitRate, rates(variants), rates(all))
        return (kept.filter { $0 < rate }.max() ?? rates.filter { $0 < rate }.max()).map { .atMost($0) }
            ?? rates.filter { $0 > rate }.min().map { .atLeast($0) }
    }

    /// The variants that are not refused.
    var kept: [String] { variants.map(\.url).filter { !refused.contains($0) } }

    /// Whether the playlist is that of a variant, or of sound, and there are others.
    func isOpen(for url: String) -> Bool {
        isSound(url) || variants.contains { $0.url == url } && variants.contains { $0.url != url }
    }

    /// The playlist to give in the place of `url`: itself, unless its keys are refused and those of another variant are not.
    /// Of the others, it is the one of the next lower bit rate, or else of the next higher one. Where no variant has all keys,
    /// it is one that begins. Of sound, it is that of the same name in another group, or else the first of the own group, or else
    /// the first of all: the sound of all variants has the same times.
    func playlist(for url: String) -> String {
        if refused.contains(url), let own = soundPlaces[url] {
            let others = sounds.joined().filter { !refused.contains($0.url) }
            let found =
                others.first { $0.name == own.name } ?? sounds[own.group].first { !refused.contains($0.url) }
                ?? others.first
            return found?.url ?? url
        }
        guard refused.contains(url), let own = variants.first(where: { $0.url == url }) else { return url }
        var others = variants.filter { !refused.contains($0.url) }
        if others.isEmpty, !beginning.contains(url) { others = variants.filter { beginning.contains($0.url) } }
        let alike = others.filter { $0.hasPictures == own.hasPictures }
        let candidates = alike.isEmpty ? others : alike
        return
            (candidates.filter { $0.bitRate <= own.bitRate }.max { $0.bitRate < $1.bitRate }
            ?? candidates.min { $0.bitRate < $1.bitRate })?.url ?? url
    }
}
