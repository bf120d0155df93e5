// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyProtection
import Synchronization

/// A machine whose clocks a test sets.
final class TestMachine: ClockSource {
    private struct Clocks {
        var wall: Int64
        var sinceBoot: Int64 = 1000
        var boots = 0
    }

    private let clocks: Mutex<Clocks>

    /// `wall` in seconds since 1970.
    init(wall: Int64 = day(0)) { clocks = Mutex(Clocks(wall: wall * 1000)) }

    func reading() -> ClockReading {
        clocks.withLock { ClockReading(wall: $0.wall, sinceBoot: $0.sinceBoot, bootID: "boot \($0.boots)") }
    }

    /// Time goes by, awake or suspended: both clocks go on.
    func pass(seconds: Int64) {
        clocks.withLock {
            $0.wall += seconds * 1000
            $0.sinceBoot += seconds * 1000
        }
    }

    /// Somebody sets the system clock.
    func set(wall: Int64) { clocks.withLock { $0.wall = wall * 1000 } }

    func move(wallBySeconds seconds: Int64) { clocks.withLock { $0.wall += seconds * 1000 } }

    /// Off for so long, and on again with a system clock that went on, or that shows `wall`.
    func restart(after seconds: Int64 = 60, wall: Int64? = nil) {
        clocks.withLock {
            $0.wall = wall.map { $0 * 1000 } ?? $0.wall + seconds * 1000
            $0.sinceBoot = 500
            $0.boots += 1
        }
    }
}

/// Seconds since 1970 of a day, counted from 2026-03-01.
func day(_ number: Double) -> Int64 { 1_772_323_200 + Int64(number * 86_400) }

func date(_ number: Double) -> UnixTime { UnixTime(seconds: day(number)) }

/// What a process keeps between two of its lives.
final class KeptClock: TrustedClockStorage {
    let state = Mutex<TrustedClockState?>(nil)
    let failure = Mutex<LicenseStoreError?>(nil)

    func update(
        _ change: @Sendable (TrustedClockState?) -> TrustedClockState
    ) async throws(LicenseStoreError) -> TrustedClockState {
        if let failure = failure.withLock({ $0 }) { throw failure }
        return state.withLock {
            let changed = change($0)
            $0 = changed
            return changed
        }
    }

    func replace(with new: TrustedClockState) async throws(LicenseStoreError) {
        failure.withLock { $0 = nil }
        state.withLock { $0 = new }
    }
}

/// A time service that says what a test wants it to.
final class TestTimeService: SignedTimeSource, SignedTimeVerifier {
    let name = "test time service"
    let answer: Mutex<Result<UnixTime, TrustedClockError>>
    private let whileAsked: @Sendable () -> Void

    init(_ time: UnixTime, whileAsked: @escaping @Sendable () -> Void = {}) {
        answer = Mutex(.success(time))
        self.whileAsked = whileAsked
    }

    var service: SignedTimeService { SignedTimeService(source: self, verifier: self) }

    func response(toNonce nonce: [UInt8]) async throws(TrustedClockError) -> [UInt8] {
        whileAsked()
        return nonce
    }

    func time(in response: [UInt8], nonce: [UInt8]) throws(TrustedClockError) -> UnixTime {
        guard response == nonce else { throw .notGenuine("another nonce") }
        return try answer.withLock { $0 }.get()
    }
}

/// What happened, in order.
final class EventLog: Sendable {
    private let all = Mutex<[TrustedClock.Event]>([])
    var events: [TrustedClock.Event] { all.withLock { $0 } }
    func add(_ event: TrustedClock.Event) { all.withLock { $0.append(event) } }
}
