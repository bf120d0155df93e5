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
    func setAllowedBitRate(_ rate: UInt32?) { changeRates { $0.rates.allowed = rate } }

    /// Which of the variants are left to choose among, as the keys of one that played are refused; nil: all. A run that is over,
    /// to which that `origin` belongs, has no say.
    func setDeparture(_ departure: HLSVariantChoice.Departure?, of origin: PresentationOrigin?) {
        changeRates { if $0.run?.origin === origin { $0.rates.departure = departure } }
    }

    private func changeRates(_ change: (inout Guarded) -> Void) {
        let isMine = withGuarded {
            change(&$0)
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
                (element as? AdaptiveBin)?.changeRates { $0.rates[keyPath: field.path] = number * scale }
            })
    }

    private struct FieldPath: @unchecked Sendable {
        // SAFETY: a path to a stored field holds nothing but its place.
        let path: WritableKeyPath<RateLimits, UInt32>
    }
}

/// What the user wants of the stock demuxer's choice of qualities, and what outputs allow. In bits a second; a value.
struct RateLimits: Hashable {
    /// The highest rate of a variant; 0: no limit.
    var maximum: UInt32 = 0
    /// What the network is taken for; 0: it is measured. The stock demuxer looks at nothing else where it is set.
    var connection: UInt32 = 0
    /// By the outputs; nil: no limit.
    var allowed: UInt32?
    /// By keys; nil: no limit.
    var departure: HLSVariantChoice.Departure?

    private var limit: UInt32? {
        guard case .atMost(let rate)? = departure else { return allowed }
        return min(rate, allowed ?? rate)
    }

    /// For the stock demuxer, to which 0 is no limit.
    var effectiveMaximum: UInt32 {
        guard let limit else { return maximum }
        return maximum == 0 ? max(limit, 1) : min(maximum, max(limit, 1))
    }

    var effectiveConnection: UInt32 {
        var wanted = connection
        if case .atLeast(let rate)? = departure { wanted = max(wanted, rate) }
        guard let limit, wanted > 0 else { return wanted }
        return min(wanted, max(limit, 1))
    }
}

/// The same of the size of pictures, in pixels; 0: no limit.
struct FrameLimits: Hashable {
    struct Size: Hashable {
        var width: UInt32 = 0
        var height: UInt32 = 0
    }

    var wanted = Size()
    var allowed = Size()

    var effective: Size {
        Size(width: Self.lower(wanted.width, allowed.width), height: Self.lower(wanted.height, allowed.height))
    }

    private static func lower(_ one: UInt32, _ other: UInt32) -> UInt32 {
        one == 0 || other == 0 ? max(one, other) : min(one, other)
    }
}

/// Work that several threads ask for, outside of the lock that guards what it reads: one thread at a time does it, and again
/// where it was asked for meanwhile. So the last state is what is applied last. A value, under the caller's lock.
struct SerialWork {
    private var isUnderWay = false
    private var isDue = false

    /// True: the caller does the work, until `finish` says that it is done. False: the thread that has it under way does it
    /// once more.
    mutating func begin() -> Bool {
        isDue = isUnderWay
        defer { isUnderWay = true }
        return !isUnderWay
    }

    /// False: once more.
    mutating func finish() -> Bool {
        defer { isDue = false }
        isUnderWay = isDue
        return !isDue
    }
}
