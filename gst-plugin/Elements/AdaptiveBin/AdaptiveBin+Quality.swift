// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyKeySession

/// Limits of what outputs may show become limits of what is fetched: a lower variant plays undisturbed, where larger
/// frames would lose detail or be black.
extension AdaptiveBin {
    /// Has all adaptive demuxers around a guard keep to what their sessions say of outputs.
    static func limitQualities(around element: ElementReference) {
        for factory in AdaptiveDemuxerFactory.all {
            element.forEachAround(madeBy: factory.factory) { ($0 as? AdaptiveBin)?.limitQuality() }
        }
    }

    /// Keeps to what the session says of outputs now. Any thread.
    func limitQuality() {
        guard withGuarded({ $0.pictureLimiting.begin() }) else { return }
        repeat {
            if let run = currentRun { limitPictures(to: run.session.maximumPixels) }
        } while !withGuarded { $0.pictureLimiting.finish() }
    }

    /// In bits a second; what the user set holds too. Nil: no limit.
    func setAllowedBitRate(_ rate: UInt32?) { changeRates { $0.allowed = rate } }

    private func changeRates(_ change: (inout RateLimits) -> Void) {
        let isMine = withGuarded {
            change(&$0.rates)
            return $0.rateLimiting.begin()
        }
        guard isMine else { return }
        repeat {
            let (before, after) = withGuarded { guarded in
                defer { guarded.appliedRates = guarded.rates }
                return (guarded.appliedRates, guarded.rates)
            }
            if before.effectiveMaximum != after.effectiveMaximum {
                child?.pointer.setProperty("max-bitrate", .uint(after.effectiveMaximum))
            }
            if before.effectiveConnection != after.effectiveConnection {
                child?.pointer.setProperty("connection-bitrate", .uint(after.effectiveConnection))
            }
        } while !withGuarded { $0.rateLimiting.finish() }
    }

    /// Those of the stock demuxer that outputs may lower. They keep what the user has set.
    static let rateProperties = [
        rate(
            "connection-speed", "Network connection speed in kbps; 0: measured", 0...4_294_967, scale: 1000,
            \.connection),
        rate(
            "connection-bitrate", "Network connection speed in bits/s; 0: measured", 0...UInt32.max, scale: 1,
            \.connection),
        rate(
            "max-bitrate", "Highest bitrate of a variant in bits/s; 0: no limit", 0...UInt32.max, scale: 1, \.maximum),
    ]

    private static func rate(
        _ name: String, _ blurb: String, _ range: ClosedRange<UInt32>, scale: UInt32,
        _ field: sending WritableKeyPath<RateLimits, UInt32>
    ) -> Property {
        let field = FieldPath(path: field)
        return Property(
            name, nick: name, blurb: blurb, kind: .uint(default: 0, range: range), mutability: .playing,
            get: { element in
                guard let bin = element as? AdaptiveBin else { return .none }
                return .uint(bin.withGuarded { $0.rates[keyPath: field.path] } / scale)
            },
            set: { element, value in
                guard case .uint(let number) = value, range.contains(number) else { return }
                (element as? AdaptiveBin)?.changeRates { $0[keyPath: field.path] = number * scale }
            })
    }

    private struct FieldPath: @unchecked Sendable {
        // SAFETY: a path to a stored field holds nothing but its place.
        let path: WritableKeyPath<RateLimits, UInt32>
    }
}
