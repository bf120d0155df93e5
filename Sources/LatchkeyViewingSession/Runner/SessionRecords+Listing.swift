// SPDX-License-Identifier: MPL-2.0

extension SessionRecords {
    /// One session that a server may count, for people.
    public struct Entry: Hashable, Sendable {
        /// Of the session server. It may hold what nobody else should see in its query.
        public var serverURL: String
        /// The client's own name of the session, random.
        public var session: String
        /// The process that has it; nil where that is gone, and the session was left over.
        public var processID: Int32?
        /// How often ending it was tried in vain.
        public var attempts: Int
    }

    /// Every record that can be read, in no order.
    public var entries: [Entry] {
        all().map { record in
            Entry(
                serverURL: record.url, session: record.session,
                processID: record.owner.flatMap { $0.isRunning ? $0.pid : nil }, attempts: record.attempts)
        }
    }
}
