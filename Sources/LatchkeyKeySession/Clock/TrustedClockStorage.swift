// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// Where the state of the trusted clock outlives the process. Thread-safe.
public protocol TrustedClockStorage: Sendable {
    /// Replaces what is kept by what `change` makes of it, in one step, and returns that. Nil: nothing is kept yet.
    func update(
        _ change: @Sendable (TrustedClockState?) -> TrustedClockState
    ) async throws(LicenseStoreError) -> TrustedClockState

    /// Keeps this in place of what cannot be read.
    func replace(with state: TrustedClockState) async throws(LicenseStoreError)
}

/// The clock's state is one record of the store: sealed, and rolled back only together with the licenses.
extension LicenseStore: TrustedClockStorage {
    fileprivate static let clockID = RecordID(prefixOf: Array("latchkey clock 1".utf8))

    /// One transaction: what it returns is on disk. Throws `recordUnreadable` where the kept state cannot be read, and
    /// the store's own errors.
    public func update(
        _ change: @Sendable (TrustedClockState?) -> TrustedClockState
    ) async throws(LicenseStoreError) -> TrustedClockState {
        try transaction { transaction throws(LicenseStoreError) in
            let kept = try Self.keptClock(in: transaction)
            let changed = change(kept)
            if changed != kept { try transaction.keep(changed) }
            return changed
        }
    }

    /// One transaction. Throws the store's own errors.
    public func replace(with state: TrustedClockState) async throws(LicenseStoreError) {
        try transaction { transaction throws(LicenseStoreError) in try transaction.keep(state) }
    }

    /// Why what the trusted clock knew cannot be read; nil where it can, or where there is nothing.
    public func clockFailure() throws(LicenseStoreError) -> LicenseStoreError? {
        try read { transaction throws(LicenseStoreError) in try transaction.clockFailure() }
    }

    /// The time as a clock with this policy would tell it now. Changes nothing: what this process sees of the machine's
    /// clocks does not count for others, whose policy may be stricter.
    func time(by clocks: any ClockSource, policy: TrustedClockPolicy) throws(LicenseStoreError) -> TrustedTime {
        var state = try read { transaction throws(LicenseStoreError) in
            try transaction.clockFailure() == nil ? try Self.keptClock(in: transaction) ?? TrustedClockState() : .lost
        }
        _ = state.observe(clocks.reading(), policy: policy)
        return state.time
    }

    fileprivate static func keptClock(
        in transaction: LicenseStoreTransaction
    ) throws(LicenseStoreError) -> TrustedClockState? {
        guard let record = try transaction.record(clockID) else { return nil }
        do {
            return try TrustedClockState(serialized: record.payload)
        } catch {
            throw .recordUnreadable(
                "the trusted clock's record: \(error); licenses with dates stay disabled until signed time comes")
        }
    }
}

extension LicenseStoreTransaction {
    fileprivate func keep(_ clock: TrustedClockState) throws(LicenseStoreError) {
        try put(LicenseRecord(id: LicenseStore.clockID, kind: .clock, payload: clock.serialized()))
    }

    fileprivate func clockFailure() throws(LicenseStoreError) -> LicenseStoreError? {
        do throws(LicenseStoreError) {
            _ = try LicenseStore.keptClock(in: self)
            return nil
        } catch {
            guard error.isSameKind(as: .recordUnreadable("")) else { throw error }
            return error
        }
    }

    /// Gives up what the trusted clock knew, where that cannot be read: in its place there is a clock that only signed
    /// time makes good again. False where there was no need.
    public func replaceUnreadableClock() throws(LicenseStoreError) -> Bool {
        guard try clockFailure() != nil else { return false }
        try keep(.lost)
        return true
    }
}
