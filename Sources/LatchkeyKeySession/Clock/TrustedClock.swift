// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection
import Synchronization

/// A clock that gives no advantage to a user who sets the system clock back.
///
/// It reads the machine's clocks whenever it is asked, notices when the system clock goes back, and says so until signed
/// time comes. What it knows is kept in the license store. Thread-safe; `now()` never blocks.
public final class TrustedClock: Sendable {
    /// What an observer gets.
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

/// Where signed time comes from: a time service, or a license service that acts as one. Thread-safe.
public protocol SignedTimeSource: Sendable {
    /// The name for messages: the printable URL, say.
    var name: String { get }

    /// The service's answer for a random nonce of 16 bytes, as it came. Nothing of it is believed before a
    /// `SignedTimeVerifier` has looked at it.
    func response(toNonce nonce: [UInt8]) async throws(TrustedClockError) -> [UInt8]
}

/// Reads and verifies the answers of a time service. Thread-safe.
public protocol SignedTimeVerifier: Sendable {
    /// The time in the answer. Throws `notGenuine` unless the answer is signed by who may, and for this nonce.
    func time(in response: [UInt8], nonce: [UInt8]) throws(TrustedClockError) -> UnixTime
}

/// A time service: how to ask it, and how to verify that it was the one that answered.
public struct SignedTimeService: Sendable {
    /// How to ask.
    public var source: any SignedTimeSource
    /// Verifies the origin of an answer.
    public var verifier: any SignedTimeVerifier

    /// Both are kept as long as the service and called on any task.
    public init(source: any SignedTimeSource, verifier: any SignedTimeVerifier) {
        self.source = source
        self.verifier = verifier
    }
}

/// How strict the trusted clock is.
public struct TrustedClockPolicy: Hashable, Sendable {
    /// Whether the system clock is taken for good as long as it does not go back (an anti-rollback clock). If not, only
    /// signed time counts (a secure clock), which has to come again after each start of the machine.
    public var takesSystemClock = true
    /// Milliseconds by which the system clock may be set back without losing trust, in all, between two signed times or
    /// starts: time services correct clocks that ran ahead.
    public var tolerance: Int64 = 300_000
    /// A system clock that shows an earlier time than this, in milliseconds since 1970, is not set: clocks without a
    /// battery start in 1970 or at the date of some build. 2026-01-01.
    public var earliestTime: Int64 = 1_767_225_600_000
    /// Milliseconds that a signed time may take from request to response. The true time may be so much later.
    public var maximumRoundTrip: Int64 = 60_000
    /// Milliseconds after which the latest good time is written again.
    public var saveInterval: Int64 = 60_000

    /// The defaults above: an anti-rollback clock.
    public init() {}
}

/// Why the trusted clock was not repaired.
public struct TrustedClockError: Error, Hashable, Sendable {
    private enum Code: String {
        case noService = "no time service"
        case serviceFailed = "time service failed"
        case notGenuine = "not genuine"
        case goesBack = "goes back"
        case tooSlow = "too slow"
        case notSaved = "not saved"
    }

    private let code: Code
    private let detail: String

    private init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    /// No time service is configured.
    public static func noService(_ detail: String) -> Self { Self(.noService, detail) }
    /// The time service cannot be reached, or answers with an error.
    public static func serviceFailed(_ detail: String) -> Self { Self(.serviceFailed, detail) }
    /// The answer is not signed by the configured time service, or answers another question.
    public static func notGenuine(_ detail: String) -> Self { Self(.notGenuine, detail) }
    /// The signed time is earlier than one that was taken before.
    public static func goesBack(_ detail: String) -> Self { Self(.goesBack, detail) }
    /// The answer took so long that its time says too little.
    public static func tooSlow(_ detail: String) -> Self { Self(.tooSlow, detail) }
    /// The clock is repaired, but could not be saved: after a start it may not know so.
    public static func notSaved(_ detail: String) -> Self { Self(.notSaved, detail) }

    /// The kind of failure alone.
    public var shortDescription: String { code.rawValue }

    /// Whether `other` is of the same kind, whatever the details.
    public func isSameKind(as other: Self) -> Bool { code == other.code }
}

extension TrustedClockError: CustomStringConvertible {
    /// The kind and the details, with the service's name and what to do.
    public var description: String { detail.isEmpty ? code.rawValue : "\(code.rawValue): \(detail)" }
}
