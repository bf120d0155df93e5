// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

/// Whether the first samples behind a key look as if that were the right one. Nothing is looked at any more when that is
/// settled, or after `sampleLimit` samples or `unitLimit` NAL units.
struct SampleDoubt {
    /// So many samples that break a rule of their codec, and a third of those that tell anything, are no damage.
    static let wrongLimit = 8
    /// So many intra slices of H.264 are enough at the end, if no other sample tells anything.
    static let endLimit = 3
    /// So many that tell anything settle it.
    static let verdictLimit = 48
    /// So many breaches inside NAL units, where random bytes seldom show any.
    private static let breachLimit = 3
    /// Pictures have no more slices; H.265 allows 75 up to level 4.1 (ISO/IEC 23008-2, A.4.1).
    private static let unitsOfPicture = 96
    static let sampleLimit = 2000
    /// So many NAL units that were looked into say as much: random bytes would have shown a dozen zero ends.
    static let unitLimit = 3000
    private static let keyLimit = 64

    struct Use: Hashable {
        var keyID: KeyID?
        var codec: SampleCodec
    }

    struct Count: Equatable {
        private(set) var samples = 0
        private(set) var wrong = 0
        private(set) var plausible = 0
        private(set) var units = 0
        private(set) var zeroEnds = 0
        private(set) var startCodes = 0
        private var slices = SliceDoubt()
        private var oddElement: UInt8?
        private var frameWidths: Set<Int> = []
        /// Of the samples so far, as far as they are known.
        private var places: Set<UInt64> = []
        private var isStructureSettled = false
        private(set) var isSettled = false

        /// What VP9 frames state. Nil if that is several, as in two tracks with one key: a frame may be of either.
        var frameWidth: Int? { frameWidths.count == 1 ? frameWidths.first : nil }

        /// Whether the sample at that place was not looked at before.
        mutating func isNew(at place: UInt64) -> Bool { places.insert(place).inserted }

        /// Takes what one more sample tells. True, once, when the key has to be a wrong one.
        mutating func isConfirmed(by signs: SampleSigns) -> Bool {
            guard !isSettled else { return false }
            samples += 1
            switch signs.verdict {
            case .wrong where signs.oddElement != nil && signs.oddElement == oddElement: plausible += 1
            case .wrong: wrong += 1
            case .plausible: plausible += 1
            case .unknown: break
            }
            if signs.oddElement != nil { oddElement = signs.oddElement }
            if let width = signs.frameWidth, frameWidths.count < 2 { frameWidths.insert(width) }
            units += signs.units
            zeroEnds += signs.zeroEnds
            startCodes += signs.startCodes
            var isWrong = false
            if !isStructureSettled {
                isWrong = wrong >= SampleDoubt.wrongLimit && wrong * 3 >= wrong + plausible
                isStructureSettled = wrong + plausible >= SampleDoubt.verdictLimit
            }
            // Some packagers leave the first byte of the next picture's start code behind the last unit of a picture.
            let ends = zeroEnds * SampleDoubt.unitsOfPicture < units ? zeroEnds : 0
            if startCodes + ends >= SampleDoubt.breachLimit { isWrong = true }
            if slices.isConfirmed(whole: signs.wholeSlices, broken: signs.brokenSlices) { isWrong = true }
            // What the structure shows to be right is not looked into.
            isSettled =
                isWrong || samples >= SampleDoubt.sampleLimit || units >= SampleDoubt.unitLimit
                || (isStructureSettled && wrong == 0) || slices.isRefuted
            if isSettled { places = [] }
            return isWrong
        }

        /// No more samples come. True, once, if those that tell are few, and all are wrong. `startsTell`: so are the starts of
        /// samples.
        mutating func isConfirmedByEnd(startsTell: Bool) -> Bool {
            let areStartsWrong = startsTell && plausible == 0 && wrong >= SampleDoubt.endLimit
            guard !isSettled, slices.isConfirmedByEnd || areStartsWrong else { return false }
            isSettled = true
            places = []
            return true
        }

        /// Downstream has refused what was decrypted. True, once, if that is no wonder: all samples that tell break a rule.
        mutating func isConfirmedByRefusal() -> Bool {
            guard !isSettled, wrong > 0, plausible == 0 else { return false }
            isSettled = true
            places = []
            return true
        }
    }

    private var counts: [Use: Count] = [:]
    private var settled: Use?
    /// Those that are known to be wrong. One key may be that of several tracks.
    private var wrongKeys: Set<KeyID?> = []

    /// Whether samples that were decrypted with this key are still looked at.
    mutating func isOpen(for keyID: KeyID?, _ codec: SampleCodec) -> Bool {
        let use = Use(keyID: keyID, codec: codec)
        if settled == use { return false }
        guard let count = counts[use] else { return counts.count < Self.keyLimit }
        if count.isSettled { settled = use }
        return !count.isSettled
    }

    /// Looks at a decrypted sample, if that is still of interest, and once if its place is known. True, once a key, when that
    /// has to be a wrong one.
    mutating func isConfirmed(
        by sample: UnsafeRawBufferPointer, at place: UInt64? = nil, _ plan: SamplePlan, _ keyID: KeyID?,
        _ codec: SampleCodec
    ) -> Bool {
        guard isOpen(for: keyID, codec) else { return false }
        let use = Use(keyID: keyID, codec: codec)
        if let place, !counts[use, default: Count()].isNew(at: place) { return false }
        let width = counts[use]?.frameWidth
        return isConfirmed(by: SampleSigns(sample, plan, codec, frameWidth: width), keyID, codec)
    }

    /// Downstream has ended the stream with an error. The keys that have to be wrong ones, once each.
    mutating func refuse() -> [KeyID?] {
        counts.keys.filter { counts[$0]?.isConfirmedByRefusal() == true }.map(\.keyID)
            .filter { wrongKeys.insert($0).inserted }
    }

    /// The stream has ended. The keys that have to be wrong ones, once each.
    mutating func end() -> [KeyID?] {
        counts.keys.filter { use in
            guard case .h264(_, let sets) = use.codec else { return false }
            return counts[use]?.isConfirmedByEnd(startsTell: sets != H264ParameterSets()) == true
        }.map(\.keyID).filter { wrongKeys.insert($0).inserted }
    }

    /// Takes what a decrypted sample tells. True, once a key, when that has to be a wrong one.
    mutating func isConfirmed(by signs: SampleSigns, _ keyID: KeyID?, _ codec: SampleCodec) -> Bool {
        counts[Use(keyID: keyID, codec: codec), default: Count()].isConfirmed(by: signs)
            && wrongKeys.insert(keyID).inserted
    }
}

/// Whether the intra slices of H.264 behind a key look as if that were the right one. With a wrong key or a wrong IV, none is
/// whole. One that is whole is no accident, and settles it.
struct SliceDoubt: Equatable {
    /// So many that are broken are no damage.
    static let sliceLimit = 3
    /// One is enough behind so many samples. Clips of a few seconds may have no other.
    static let sampleLimit = 50

    private var samples = 0
    private var broken = 0
    private(set) var isRefuted = false

    /// Takes what one more sample has. True if the key has to be a wrong one.
    mutating func isConfirmed(whole: Int, broken: Int) -> Bool {
        samples += 1
        self.broken += broken
        if whole > 0 { isRefuted = true }
        return isConfirmedByEnd && (self.broken >= Self.sliceLimit || samples >= Self.sampleLimit)
    }

    /// The same if no more samples come.
    var isConfirmedByEnd: Bool { broken > 0 && !isRefuted }

    /// Whether the next samples do not change anything, or so many told nothing that no more are looked at.
    var isSettled: Bool { isRefuted || samples >= SampleDoubt.sampleLimit }
}
