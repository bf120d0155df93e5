// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection
import Synchronization

/// A clock that nobody gains anything by setting back.
///
/// It reads the machine's clocks whenever it is asked, notices when the system clock goes back, and says so until signed
/// time comes. What it knows is kept in the licence store. Thread-safe; `now()` never blocks.
public final class TrustedClock: Sendable {
    /// What an observer is told.
    public enum Event: Hashable, Sendable {
        /// The system clock was set back: once each time, not again before the clock was repaired.
        case rolledBack
        /// The clock can be trusted, and could not before.
        case trusted
        /// The clock's state could not be written. It goes on; a rollback while the machine is off may go unnoticed.
        case notSaved(LicenseStoreError)
        /// What was kept of the clock cannot be read. It counts as set back; signed time replaces it.
        case lost(LicenseStoreError)
    }

    private struct Core {
        var state: TrustedClockState
        /// The latest good time when the state was written.
        var savedTime: Int64
        var isSaving = false
        /// What is kept cannot be read, and stays until signed time comes.
        var isLost = false
    }

    private let core: Mutex<Core>
    private let storage: any TrustedClockStorage
    private let clocks: any ClockSource
    private let service: SignedTimeService?
    private let policy: TrustedClockPolicy
    private let onEvent: @Sendable (Event) -> Void

    /// Reads what is kept and takes a first look at the machine's clocks. Where it cannot be read, the clock is not trusted
    /// before signed time comes.
    ///
    /// `onEvent` is called on the thread that noticed, outside the clock's lock; it must not block.
    public static func open(
        storage: any TrustedClockStorage, clocks: any ClockSource = SystemClocks(), service: SignedTimeService? = nil,
        policy: TrustedClockPolicy = TrustedClockPolicy(), onEvent: @escaping @Sendable (Event) -> Void = { _ in }
    ) async throws(LicenseStoreError) -> TrustedClock {
        let kept: TrustedClockState
        var loss: LicenseStoreError?
        do throws(LicenseStoreError) {
            kept = try await storage.update { $0 ?? TrustedClockState() }
        } catch {
            guard error.isSameKind(as: .recordUnreadable("")) else { throw error }
            kept = .lost
            loss = error
        }
        let clock = TrustedClock(
            kept, storage: storage, clocks: clocks, service: service, policy: policy, onEvent: onEvent)
        if let loss {
            clock.core.withLock { $0.isLost = true }
            onEvent(.lost(loss))
        }
        _ = clock.now()
        try await clock.save()
        return clock
    }

    private init(
        _ state: TrustedClockState, storage: any TrustedClockStorage, clocks: any ClockSource,
        service: SignedTimeService?, policy: TrustedClockPolicy, onEvent: @escaping @Sendable (Event) -> Void
    ) {
        core = Mutex(Core(state: state, savedTime: state.latestGood))
        self.storage = storage
        self.clocks = clocks
        self.service = service
        self.policy = policy
        self.onEvent = onEvent
    }

    /// The time, and whether it can be relied on. Reads the machine's clocks; what changed is written in the background.
    public func now() -> TrustedTime {
        let (time, event, isDue) = core.withLock { core -> (TrustedTime, TrustedClockState.Event?, Bool) in
            // Read under the lock: two threads must not bring their readings in the wrong order.
            let event = core.state.observe(clocks.reading(), policy: policy)
            let isDue = event != nil || core.state.latestGood &- core.savedTime >= policy.saveInterval
            let starts = isDue && !core.isSaving
            if starts { core.isSaving = true }
            return (core.state.time, event, starts)
        }
        report(event)
        if isDue {
            Task {
                do throws(LicenseStoreError) { try await save() } catch { onEvent(.notSaved(error)) }
            }
        }
        return time
    }

    /// Writes what the clock knows, and takes over what other processes found out. Call it before the process ends.
    /// Throws the errors of the storage; the clock goes on with what it knows.
    public func save() async throws(LicenseStoreError) {
        let (mine, isLost) = core.withLock { ($0.state, $0.isLost) }
        defer { core.withLock { $0.isSaving = false } }
        // What was made up says nothing against what is kept, where that can be read again.
        let isMadeUp = isLost && mine.repairs == 0
        let merged: TrustedClockState
        do throws(LicenseStoreError) {
            merged = try await storage.update { kept in kept.map { isMadeUp ? $0 : mine.merged(with: $0) } ?? mine }
        } catch {
            guard isLost, error.isSameKind(as: .recordUnreadable("")) else { throw error }
            if isMadeUp { return }
            try await storage.replace(with: mine)
            merged = mine
        }
        let event = core.withLock { core -> TrustedClockState.Event? in
            let before = core.state.time
            core.state = isMadeUp && core.state.repairs == 0 ? merged : core.state.merged(with: merged)
            core.isLost = false
            core.savedTime = merged.latestGood
            let after = core.state.time
            if after.trust == .rolledBack { return before.trust == .rolledBack ? nil : .rolledBack }
            return after.isTrusted && !before.isTrusted ? .trusted : nil
        }
        report(event)
    }

    /// Asks the time service, and trusts the clock from then on. Returns the time. Throws `noService`, `serviceFailed`,
    /// `notGenuine`, `tooSlow`, `goesBack`, and `notSaved` with the clock repaired.
    @discardableResult
    public func repair() async throws(TrustedClockError) -> TrustedTime {
        guard let service else {
            throw .noService("no time service is configured; name one, or set the system clock before the first use")
        }
        let nonce = (0..<16).map { _ in UInt8.random(in: 0...255) }
        let before = clocks.reading()
        let response = try await service.source.response(toNonce: nonce)
        let signed = try service.verifier.time(in: response, nonce: nonce)
        let wasTaken = try core.withLock { core throws(TrustedClockError) -> (event: Bool, time: TrustedTime) in
            let reading = clocks.reading()
            let (elapsed, isTooMuch) = reading.sinceBoot.subtractingReportingOverflow(before.sinceBoot)
            guard reading.bootID == before.bootID, !isTooMuch, 0...policy.maximumRoundTrip ~= elapsed else {
                throw .tooSlow("\(service.source.name) took \(elapsed) ms; try again")
            }
            let wasTrusted = core.state.time.isTrusted
            guard core.state.repair(signed: signed, at: reading, policy: policy) else {
                throw .goesBack("\(service.source.name) says \(signed), which is earlier than it said before")
            }
            return (!wasTrusted, core.state.time)
        }
        if wasTaken.event { report(.trusted) }
        do throws(LicenseStoreError) {
            try await save()
        } catch {
            throw .notSaved("\(error)")
        }
        return wasTaken.time
    }

    private func report(_ event: TrustedClockState.Event?) {
        switch event {
        case .rolledBack: onEvent(.rolledBack)
        case .trusted: onEvent(.trusted)
        case nil: break
        }
    }
}
