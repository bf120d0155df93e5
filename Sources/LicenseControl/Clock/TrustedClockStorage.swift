// SPDX-License-Identifier: MPL-2.0

import ProtectionModel

/// Where the state of the trusted clock outlives the process. Thread-safe.
public protocol TrustedClockStorage: Sendable {
    /// Replaces what is kept by what `change` makes of it, in one step, and returns that. Nil: nothing is kept yet.
    func update(
        _ change: @Sendable (TrustedClockState?) -> TrustedClockState
    ) async throws(LicenseStoreError) -> TrustedClockState
}

/// The clock's state is one record of the store: sealed, and rolled back only together with the licences.
extension LicenseStore: TrustedClockStorage {
    private static let clockID = RecordID(prefixOf: Array("latchkey clock 1".utf8))

    /// One transaction: what it returns is on disk. Throws `recordUnreadable` where the kept state cannot be read, and
    /// the store's own errors.
    public func update(
        _ change: @Sendable (TrustedClockState?) -> TrustedClockState
    ) async throws(LicenseStoreError) -> TrustedClockState {
        try transaction { transaction throws(LicenseStoreError) in
            let kept = try Self.keptClock(in: transaction)
            let changed = change(kept)
            if changed != kept {
                try transaction.put(
                    LicenseRecord(id: Self.clockID, kind: .clock, payload: changed.serialized()))
            }
            return changed
        }
    }

    /// The time as a clock with this policy would tell it now. Changes nothing: what this process sees of the machine's
    /// clocks does not count for others, whose policy may be stricter.
    func time(by clocks: any ClockSource, policy: TrustedClockPolicy) throws(LicenseStoreError) -> TrustedTime {
        let kept = try read { transaction throws(LicenseStoreError) in try Self.keptClock(in: transaction) }
        var state = kept ?? TrustedClockState()
        _ = state.observe(clocks.reading(), policy: policy)
        return state.time
    }

    private static func keptClock(
        in transaction: LicenseStoreTransaction
    ) throws(LicenseStoreError) -> TrustedClockState? {
        guard let record = try transaction.record(clockID) else { return nil }
        do {
            return try TrustedClockState(serialized: record.payload)
        } catch {
            throw .recordUnreadable("the trusted clock's record: \(error); reset the licence store")
        }
    }
}
