// SPDX-License-Identifier: MPL-2.0

/// A moment, in whole seconds since 1970-01-01 00:00:00 UTC without leap seconds, as licenses and servers count them.
///
/// Arithmetic stops at the ends of the range, so that dates from outside cannot trap.
public struct UnixTime: Hashable, Sendable {
    /// Since 1970-01-01T00:00:00Z, without leap seconds.
    public var seconds: Int64

    /// Any number; negative before 1970.
    public init(seconds: Int64) { self.seconds = seconds }

    /// The moment so many seconds later; the last one there is, where there are not so many.
    public func advanced(bySeconds count: Int64) -> UnixTime {
        let (sum, isTooMuch) = seconds.addingReportingOverflow(count)
        return UnixTime(seconds: isTooMuch ? (count < 0 ? .min : .max) : sum)
    }

    /// Seconds from this moment to `other`; negative where `other` is earlier.
    public func seconds(to other: UnixTime) -> Int64 {
        let (difference, isTooMuch) = other.seconds.subtractingReportingOverflow(seconds)
        return isTooMuch ? (other < self ? .min : .max) : difference
    }
}

extension UnixTime: Comparable {
    /// The earlier one is the smaller.
    public static func < (left: UnixTime, right: UnixTime) -> Bool { left.seconds < right.seconds }
}

extension UnixTime: CustomStringConvertible {
    /// "2026-03-01 12:00:00 UTC". Outside the years 1 to 9999, the number of seconds.
    public var description: String {
        guard (-62_135_596_800..<253_402_300_800).contains(seconds) else { return "\(seconds) s since 1970" }
        let ofDay = Int(((seconds % 86_400) + 86_400) % 86_400)
        let (year, month, day) = Self.civilDate(dayNumber: Int((seconds - Int64(ofDay)) / 86_400))
        let time = [ofDay / 3600, ofDay / 60 % 60, ofDay % 60].map { Self.digits($0, 2) }.joined(separator: ":")
        return "\(Self.digits(year, 4))-\(Self.digits(month, 2))-\(Self.digits(day, 2)) \(time) UTC"
    }

    /// The proleptic Gregorian date of a day, counted from 1970-01-01, after Howard Hinnant's `civil_from_days`
    /// (<https://howardhinnant.github.io/date_algorithms.html>).
    private static func civilDate(dayNumber: Int) -> (year: Int, month: Int, day: Int) {
        let shifted = dayNumber + 719_468
        let era = (shifted >= 0 ? shifted : shifted - 146_096) / 146_097
        let dayOfEra = shifted - era * 146_097
        let yearOfEra = (dayOfEra - dayOfEra / 1460 + dayOfEra / 36_524 - dayOfEra / 146_096) / 365
        let dayOfYear = dayOfEra - (365 * yearOfEra + yearOfEra / 4 - yearOfEra / 100)
        let shiftedMonth = (5 * dayOfYear + 2) / 153
        let month = shiftedMonth < 10 ? shiftedMonth + 3 : shiftedMonth - 9
        return (
            yearOfEra + era * 400 + (month <= 2 ? 1 : 0), month, dayOfYear - (153 * shiftedMonth + 2) / 5 + 1
        )
    }

    private static func digits(_ value: Int, _ count: Int) -> String {
        let text = String(value)
        return String(repeating: "0", count: max(0, count - text.utf8.count)) + text
    }
}
