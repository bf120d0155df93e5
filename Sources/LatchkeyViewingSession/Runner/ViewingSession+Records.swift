// SPDX-License-Identifier: MPL-2.0

import Glibc
import Synchronization

extension ViewingSession {
    /// How long a setup waits for what is ended before it.
    static let turn: Int64 = 1_000

    func write(_ change: SessionState.RecordChange) {
        switch change {
        case .write(let generation, let token, let reference):
            let record = SessionRecord(
                url: configuration.service.url, session: identifier(generation), reference: reference,
                token: configuration.service.adapter.endsWithToken ? token : nil,
                owner: configuration.records?.process)
            // A new token alone changes nothing in most records.
            let isNew = core.withLock { core in
                defer { core.record = record }
                return core.record != record
            }
            if isNew { configuration.records?.write(record) }
            Self.endAtExit
            Self.open.withLock { $0[identifier(generation)] = self }
        case .remove(let generation):
            configuration.records?.remove(identifier(generation))
            Self.open.withLock { _ = $0.removeValue(forKey: identifier(generation)) }
        case .leave(let generation): leaveRecord(of: generation)
        }
    }

    /// This process is done with the session, and the server may not be.
    private func leaveRecord(of generation: UInt32) {
        let session = identifier(generation)
        Self.open.withLock { _ = $0.removeValue(forKey: session) }
        guard let records = configuration.records, var record = records.record(session) else { return }
        record.owner = nil
        records.write(record)
    }

    /// A process that ends without having stopped its sessions ends them all the same, unless it is killed. That takes
    /// as long as the answers, and two seconds at most.
    private static let endAtExit: Void = {
        atexit {
            let sessions = ViewingSession.open.withLock { Array($0.values) }
            for session in sessions { session.stop() }
            for _ in 0..<400 where ViewingSession.open.withLock({ !$0.isEmpty }) { usleep(5_000) }
        }
    }()

    /// Sessions of this process that a server may count, by name.
    private static let open = Mutex<[String: ViewingSession]>([:])

    /// Ends what was left over at the server, and waits for sessions of this process that are being ended: a server that
    /// allows one session would refuse this one for its predecessor.
    func makeWay() async {
        let url = configuration.service.url
        let ending = Self.open.withLock { open in
            open.values.filter { $0 !== self && $0.configuration.service.url == url }
        }.filter { $0.state.phase == .tearingDown }
        let end = clock.now() + Self.turn
        // What takes longer goes on by itself.
        let work = Task {
            await withTaskGroup(of: Void.self) { group in
                for session in ending { group.addTask { await session.wait { $0.phase != .tearingDown } } }
                group.addTask { await self.endOrphans() }
            }
        }
        let (turns, turn) = AsyncStream<Void>.makeStream()
        let limit = Task { [clock] in
            try? await clock.sleep(end)
            turn.finish()
        }
        Task {
            await work.value
            turn.finish()
        }
        for await _ in turns {}
        limit.cancel()
    }

    /// Ends the sessions that earlier processes left behind at this server. What cannot be ended is tried again at later
    /// starts, a few times.
    public func endOrphans() async {
        guard let records = configuration.records else { return }
        for var record in records.orphans(of: configuration.service.url) {
            if Task.isCancelled { return }
            let request = SessionState.Request(
                kind: .teardown, generation: 0, number: 0, sentAt: clock.now(),
                timeout: configuration.policy.requestTimeout, token: record.token, reference: record.reference)
            var service = configuration.service
            service.credential = core.withLock(\.credential)
            let canEnd = record.reference != nil || record.token != nil || service.adapter.knowsClientSession
            let reply = canEnd ? await Self.exchange(request, session: record.session, service, transport) : nil
            switch reply {
            case nil, .granted?: records.remove(record.session)
            case .failed(let failure)? where failure.kind == .ended: records.remove(record.session)
            case .failed?:
                if Task.isCancelled { return }
                record.attempts += 1
                if record.attempts < SessionRecords.maximumAttempts {
                    records.write(record)
                } else {
                    records.remove(record.session)
                }
            }
        }
    }
}
