// SPDX-License-Identifier: MPL-2.0

import NIOCore
import NIOHTTP1
import Synchronization

/// The open connections of one server. Thread-safe.
final class LoopbackConnections: Sendable {
    private struct Entry {
        let channel: any Channel
        /// Showed the token once.
        var isKnown = false
    }

    private struct State {
        /// In the order of arrival.
        var entries: [Entry] = []
        var isClosed = false
    }

    private let limit: Int
    private let state = Mutex(State())

    init(limit: Int) { self.limit = limit }

    var count: Int { state.withLock { $0.entries.count } }

    /// Takes a connection in and makes it answer, or fails, which ends it.
    func add(_ channel: any Channel, _ service: LoopbackService) -> EventLoopFuture<Void> {
        let (isWelcome, evicted) = state.withLock { state -> (Bool, (any Channel)?) in
            guard !state.isClosed else { return (false, nil) }
            var evicted: (any Channel)?
            if state.entries.count >= limit {
                guard let stranger = state.entries.firstIndex(where: { !$0.isKnown }) else { return (false, nil) }
                evicted = state.entries.remove(at: stranger).channel
            }
            state.entries.append(Entry(channel: channel))
            return (true, evicted)
        }
        evicted?.close(promise: nil)
        guard isWelcome else { return channel.eventLoop.makeFailedFuture(ChannelError.eof) }
        channel.closeFuture.whenComplete { [weak self] _ in self?.remove(channel) }
        return channel.eventLoop.makeCompletedFuture {
            try LoopbackSocket.keepFromChildren(channel)
            var limits = NIOHTTPDecoderLimitConfiguration()
            limits.maxHeaderFieldSize = service.limits.requestSize
            limits.maxHeaderListSize = service.limits.requestSize
            limits.maxHeaderFieldCount = service.limits.fieldCount
            let pipeline = channel.pipeline.syncOperations
            let gate = LoopbackGate(limits: service.limits)
            try pipeline.addHandler(gate)
            try pipeline.configureHTTPServerPipeline(
                withErrorHandling: false, withEncoderConfiguration: .init(), withDecoderLimitConfiguration: limits)
            try pipeline.addHandler(
                LoopbackConnection(service: service, gate: gate) { [weak self] in self?.know(channel) })
        }
    }

    /// The connections to close; nil where that was asked for before.
    func close() -> [any Channel]? {
        state.withLock { state in
            guard !state.isClosed else { return nil }
            state.isClosed = true
            defer { state.entries = [] }
            return state.entries.map(\.channel)
        }
    }

    private func know(_ channel: any Channel) {
        state.withLock { state in
            if let index = state.entries.firstIndex(where: { $0.channel === channel }) {
                state.entries[index].isKnown = true
            }
        }
    }

    private func remove(_ channel: any Channel) {
        state.withLock { $0.entries.removeAll { $0.channel === channel } }
    }
}
