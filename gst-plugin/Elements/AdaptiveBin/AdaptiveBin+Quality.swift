// SPDX-License-Identifier: MPL-2.0

import ElementKit
import LicenseControl
import MediaFormats

/// Limits of what outputs may show become limits of what is fetched: a lower variant plays undisturbed, where larger
/// frames would lose detail or be black.
extension AdaptiveBin {
    /// What the user wants of the stock demuxer, and what outputs allow.
    struct BitRates {
        /// 0: no limit.
        var wanted: UInt32 = 0
        /// Nil: no limit.
        var allowed: UInt32?

        var effective: UInt32 {
            guard let allowed else { return wanted }
            return wanted == 0 ? max(allowed, 1) : Swift.min(wanted, max(allowed, 1))
        }
    }

    /// Has all adaptive demuxers around a guard keep to what their sessions say of outputs.
    static func limitQualities(around element: ElementReference) {
        for factory in AdaptiveDemuxerFactory.all {
            element.forEachAround(madeBy: factory.factory) { ($0 as? AdaptiveBin)?.limitQuality() }
        }
    }

    /// Keeps to what the session says of outputs now. Any thread.
    func limitQuality() {
        guard let run = currentRun else { return }
        limitPictures(to: run.session.maximumPixels)
    }

    /// In bits a second; what the user set holds too. Nil: no limit.
    func setAllowedBitRate(_ rate: UInt32?) { changeBitRates { $0.allowed = rate } }

    private func changeBitRates(_ change: (inout BitRates) -> Void) {
        let rate = withGuarded { guarded -> UInt32? in
            let before = guarded.bitRates.effective
            change(&guarded.bitRates)
            let after = guarded.bitRates.effective
            return before == after ? nil : after
        }
        if let rate { child?.pointer.setProperty("max-bitrate", .uint(rate)) }
    }

    static let maximumBitRate = Property(
        "max-bitrate", nick: "max-bitrate", blurb: "Highest bitrate of a variant in bits/s; 0: no limit",
        kind: .uint(default: 0, range: 0...UInt32.max), mutability: .playing,
        get: { element in
            (element as? AdaptiveBin).map { bin in FieldValue.uint(bin.withGuarded { $0.bitRates.wanted }) } ?? .none
        },
        set: { element, value in
            if case .uint(let rate) = value { (element as? AdaptiveBin)?.changeBitRates { $0.wanted = rate } }
        })
}
