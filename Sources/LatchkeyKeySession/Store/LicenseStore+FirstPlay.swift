// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

extension LicenseStore {
    /// Notes when a licence was first used for playing, unless it was noted before; returns the time that stands. On
    /// disk when the call returns. Throws `recordUnreadable` where the mark cannot be read, and the errors of
    /// `transaction`.
    public func markFirstPlay(for license: RecordID, at time: UnixTime) throws(LicenseStoreError) -> UnixTime {
        try transaction { transaction throws(LicenseStoreError) in
            if let mark = try Self.firstPlay(of: license, in: transaction) { return mark }
            var payload: [UInt8] = []
            payload.appendBigEndian(UInt64(bitPattern: time.seconds), size: 8)
            try transaction.put(
                LicenseRecord(
                    id: Self.markID(license), kind: .firstPlay, contentID: license.bytes, payload: payload))
            return time
        }
    }

    /// When a licence was first used for playing; nil where it was not. Throws `recordUnreadable` where the mark cannot
    /// be read, and the errors of `read`.
    public func firstPlay(of license: RecordID) throws(LicenseStoreError) -> UnixTime? {
        try read { transaction throws(LicenseStoreError) in try Self.firstPlay(of: license, in: transaction) }
    }

    /// The same within a transaction.
    static func firstPlay(
        of license: RecordID, in transaction: LicenseStoreTransaction
    ) throws(LicenseStoreError) -> UnixTime? {
        guard let record = try transaction.record(markID(license)) else { return nil }
        guard record.kind == .firstPlay, record.contentID == license.bytes, record.payload.count == 8 else {
            throw .recordUnreadable("the first-play mark of licence \(license); reset the licence store")
        }
        let bits = record.payload.reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
        return UnixTime(seconds: Int64(bitPattern: bits))
    }

    /// The mark's own id follows from the licence's, so that there is one at most.
    private static func markID(_ license: RecordID) -> RecordID {
        RecordID(prefixOf: zip(license.bytes, Array("first-play mark ".utf8)).map { $0 ^ $1 })
    }
}
