// SPDX-License-Identifier: MPL-2.0

/// What a refresh of a live playlist leaves behind for the next, so that a segment keeps what it was given.
struct HLSWindow: Sendable {
    /// The most segments that are remembered; a live window has far fewer.
    static let maximumRecords = 65_536
    /// The most key changes that are remembered, for delta updates.
    static let maximumScopes = 1024

    /// What a segment was given.
    struct Record: Sendable {
        var url: String
        var byteRange: HLSByteRange?
        var sharedKey: HLSShared<HLSKey>?
        /// As the playlist has it.
        var sharedMap: HLSShared<HLSMap>?
        var placement: HLSPlan.Placement
    }

    private(set) var records: [UInt64: Record] = [:]
    private(set) var scopes: [(sequence: UInt64, scope: HLSKeyScope)] = []
    /// Whether a segment with encrypted samples was ever seen.
    var hasSampleKeys = false
    /// Whether a map of our own was ever written.
    var hasFronts = false
    /// The last key of encrypted samples.
    var sampleKey: HLSKey?

    func record(_ sequence: UInt64) -> Record? { records[sequence] }

    /// What held at a segment.
    func scope(_ sequence: UInt64) -> HLSKeyScope? { scopes.last { $0.sequence <= sequence }?.scope }

    /// Forgets the segments before `first` and takes new ones.
    mutating func advance(
        first: UInt64, records new: [(UInt64, Record)], scopeChanges: [(sequence: UInt64, scope: HLSKeyScope)]
    ) {
        let last = new.last?.0 ?? .max
        // A number that goes back is a new start.
        records = records.filter { first <= $0.key && $0.key <= last }
        for (sequence, record) in new.suffix(Self.maximumRecords) { records[sequence] = record }
        if let start = new.first?.0 { scopes.removeAll { $0.sequence >= start } }
        if scopes.isEmpty { scopes = [(0, HLSKeyScope())] }
        scopes += scopeChanges
        if let needless = scopes.lastIndex(where: { $0.sequence <= first }) { scopes.removeFirst(needless) }
        if scopes.count > Self.maximumScopes { scopes.removeFirst(scopes.count - Self.maximumScopes) }
    }
}
