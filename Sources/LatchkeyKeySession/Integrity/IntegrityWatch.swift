// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyProtection
import Synchronization

/// Ends sessions if another process inspects this one or has changed its code: in the protected build alone.
///
/// Checks when the first session begins, and then at random intervals as long as there are sessions. A finding holds for the
/// process from then on. This is a hurdle, not a wall: a program that may trace the process may change what this sees. It
/// never ends the process. Thread-safe.
final class IntegrityWatch: Sendable {
    /// Each says why not to decrypt, or nil.
    struct Checks: Sendable {
        /// May take a tenth of a second.
        var atStart: @Sendable () -> String?
        /// The same.
        var again: @Sendable () -> String?
    }

    #if LATCHKEY_PROTECTED
        /// That of all sessions.
        static let standard: IntegrityWatch? = IntegrityWatch(.ofThisProcess)
    #else
        /// No session is watched.
        static let standard: IntegrityWatch? = nil
    #endif

    /// Between two looks, in milliseconds.
    static let pause = 10_000...40_000

    private struct State {
        var violation: KeyError?
        var first: Task<Void, Never>?
        /// The first look is over, and found nothing.
        var isSound = false
        var loop: Task<Void, Never>?
        var sessions: [Weak] = []
    }

    private struct Weak: Sendable { weak let session: KeySession? }

    private let checks: Checks
    private let sleep: @Sendable (Duration) async throws -> Void
    private let random: @Sendable (ClosedRange<Int>) -> Int
    private let state = Mutex(State())

    init(
        _ checks: Checks,
        sleep: @escaping @Sendable (Duration) async throws -> Void = { try await Task.sleep(for: $0) },
        random: @escaping @Sendable (ClosedRange<Int>) -> Int = { .random(in: $0) }
    ) {
        (self.checks, self.sleep, self.random) = (checks, sleep, random)
    }

    deinit { state.withLock { $0.loop }?.cancel() }

    /// Why no key may be asked for, once the first look is over; nil where nothing was found.
    func violation() async -> KeyError? {
        await first().value
        return state.withLock { $0.violation }
    }

    /// Lets the session use its keys when the first look has found nothing, and closes it when something is found. It is not
    /// kept.
    func watch(_ session: KeySession) {
        _ = first()
        let (violation, isSound) = state.withLock { state -> (KeyError?, Bool) in
            state.sessions.removeAll { $0.session == nil }
            state.sessions.append(Weak(session: session))
            if state.loop == nil, state.violation == nil { state.loop = makeLoop() }
            return (state.violation, state.isSound)
        }
        if let violation { session.close(violation) } else if isSound { session.processIsSound() }
    }

    private func first() -> Task<Void, Never> {
        state.withLock { state in
            if let first = state.first { return first }
            let first = Task { [weak self, checks] in
                guard let reason = checks.atStart() else {
                    self?.didFindNothing()
                    return
                }
                self?.didFind(reason)
            }
            state.first = first
            return first
        }
    }

    private func makeLoop() -> Task<Void, Never> {
        Task { [weak self, sleep, random, checks] in
            await self?.first().value
            while self?.hasSessions == true {
                do {
                    try await sleep(.milliseconds(random(Self.pause)))
                } catch {
                    return
                }
                if let reason = checks.again() { self?.didFind(reason) }
            }
        }
    }

    /// False ends the loop; the next session begins another one.
    private var hasSessions: Bool {
        state.withLock { state in
            state.sessions.removeAll { $0.session == nil }
            if state.sessions.isEmpty || state.violation != nil { state.loop = nil }
            return state.loop != nil
        }
    }

    private func didFindNothing() {
        let sessions = state.withLock { state in
            state.isSound = true
            return state.sessions.compactMap(\.session)
        }
        for session in sessions { session.processIsSound() }
    }

    private func didFind(_ reason: String) {
        let error = KeyError.sessionClosed("this build does not decrypt here: \(reason)")
        let sessions = state.withLock { state in
            state.violation = state.violation ?? error
            return state.sessions.compactMap(\.session)
        }
        for session in sessions { session.close(error) }
    }
}

extension IntegrityWatch {
    /// A file of the kernel, or a small one. Nil if it cannot be read, or has more bytes than `limit`.
    static func contents(of path: String, limit: Int = 64 << 10) -> [UInt8]? {
        try? RegularFile(path: path, kind: "file", has: .untrusted).contents(limit: limit)
    }
}

extension IntegrityWatch.Checks {
    /// No tracer, and the code as it was built.
    private static var ofThisProcess: IntegrityWatch.Checks {
        let library = LibraryCheck()
        let tracer: @Sendable () -> String? = {
            TracerCheck.violation(status: IntegrityWatch.contents(of: "/proc/self/status"))
        }
        return IntegrityWatch.Checks(
            atStart: { tracer() ?? ExitGate.pass { library.violationAtStart() } },
            again: { tracer() ?? ExitGate.pass { library.violation() } })
    }
}

/// Whether a debugger is attached to this process, as the kernel says in `/proc/self/status` (proc(5), `TracerPid`).
enum TracerCheck {
    /// Why not to decrypt; nil if no debugger is attached. `status` is what the file says; nil if it cannot be read.
    static func violation(status: [UInt8]?) -> String? {
        guard let status else { return "/proc/self/status cannot be read, so a debugger cannot be ruled out" }
        for line in status.split(separator: UInt8(ascii: "\n")) where line.starts(with: "TracerPid:".utf8) {
            let text = String(decoding: line.dropFirst(10), as: UTF8.self)
            guard let number = UInt32(text.split(whereSeparator: \.isWhitespace).first ?? "") else { break }
            return number == 0 ? nil : "process \(number) traces this one"
        }
        return "/proc/self/status does not say who traces the process"
    }
}
