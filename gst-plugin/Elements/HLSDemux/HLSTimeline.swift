// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests

/// When the segments of a presentation are shown, and with that, which keys what is shown still needs.
///
/// Time counts in seconds from the first segment of the first media playlist that was read, as in the stock demuxer.
struct HLSTimeline {
    /// The segments of one playlist, as it was read last.
    private struct Window {
        var first: UInt64
        var start: Double
        var durations: [Double]

        /// When a segment begins; nil for one that is neither in here nor next.
        func start(of sequence: UInt64) -> Double? {
            guard sequence >= first, let count = Int(exactly: sequence - first), count <= durations.count else {
                return nil
            }
            return start + durations[..<count].reduce(0, +)
        }
    }

    private var windows: [String: Window] = [:]
    /// When the last segment ends that a key is for, by the key's URI. Infinite where that is not known.
    private var ends: [String: Double] = [:]
    /// A playlist that rotates keys for ever names ever more of them.
    static let limit = 16_384

    /// A playlist was read, for the first time or again.
    mutating func update(_ rewriting: HLSRewriting, of playlist: String) {
        guard rewriting.kind == .media, let first = rewriting.firstSegment else { return }
        // Renditions of one presentation number their segments alike.
        let known = windows[playlist]?.start(of: first) ?? windows.values.lazy.compactMap { $0.start(of: first) }.first
        let start = known ?? (windows.isEmpty ? 0 : nil)
        if let start { windows[playlist] = Window(first: first, start: start, durations: rewriting.durations) }
        if ends.count > Self.limit { ends = [:] }
        for use in rewriting.keys {
            guard let uri = use.key.uri else { continue }
            ends[uri] = max(ends[uri] ?? 0, start.map { $0 + use.end } ?? .infinity)
        }
    }

    /// Whether something that the key is for is shown at `position` or later, as far as is known.
    func needs(_ uri: String, at position: Double) -> Bool {
        // Segments are not exactly as long as playlists say.
        ends[uri].map { $0 + 1 > position } ?? true
    }
}
