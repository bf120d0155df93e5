// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import LatchkeyProtection
import Synchronization

/// What the loopback server serves, by names that say nothing and that cannot be made up outside: a request can only
/// ask for what the presentation's own playlists named. Thread-safe.
///
/// A playlist keeps what its last refreshes named, and what a delta update leaves out; what is in none of them is forgotten.
final class HLSResourceTable: Sendable {
    /// The refreshes of one playlist that are remembered.
    static let generations = 3

    private struct Entry {
        let resource: HLSResource
        var uses = 0
    }

    private struct State {
        /// A name is a letter and a number. A presentation may have hundreds of thousands, so the numbers alone are kept.
        var numbers: [HLSResource: UInt64] = [:]
        var entries: [UInt64: Entry] = [:]
        var playlists: [String: [[HLSResource]]] = [:]
        var lastNumber: UInt64 = 0

        mutating func release(_ resource: HLSResource) {
            guard let number = numbers[resource] else { return }
            entries[number]?.uses -= 1
            guard let entry = entries[number], entry.uses <= 0 else { return }
            entries[number] = nil
            numbers[resource] = nil
        }
    }

    private let state = Mutex(State())

    /// The name of a resource, always the same while it is known.
    func name(of resource: HLSResource) -> String {
        let number = state.withLock { state -> UInt64 in
            if let known = state.numbers[resource] { return known }
            state.lastNumber += 1
            state.numbers[resource] = state.lastNumber
            state.entries[state.lastNumber] = Entry(resource: resource)
            return state.lastNumber
        }
        return Self.name(resource, number)
    }

    /// The name of a resource that a playlist named; nil for others.
    func knownName(of resource: HLSResource) -> String? {
        let number = state.withLock { $0.numbers[resource] }
        return number.map { Self.name(resource, $0) }
    }

    func resource(_ name: String) -> HLSResource? {
        guard let number = UInt64(name.dropFirst()),
            let resource = state.withLock({ $0.entries[number]?.resource })
        else { return nil }
        // It has no other names, as with another letter or with zeros in front of the number.
        return Self.name(resource, number) == name ? resource : nil
    }

    var count: Int { state.withLock { $0.entries.count } }

    /// A playlist was rewritten, and names these resources now. It leaves out `skipped` segments of the version before, which the
    /// stock demuxer goes on with (`EXT-X-SKIP`): what these need is kept, as far as it takes no more than `room`. Returns how much
    /// that is, in bytes, about.
    @discardableResult
    func keep(_ resources: [HLSResource], of playlist: String, skipped: Int = 0, room: Int = .max) -> Int {
        state.withLock { state -> Int in
            let left = Self.left(of: state.playlists[playlist]?.last ?? [], beside: resources, skipped, room)
            var all = left.resources + resources
            for index in all.indices {
                guard let number = state.numbers[all[index]], let entry = state.entries[number] else { continue }
                state.entries[number]?.uses += 1
                // Refreshes share what is equal.
                all[index] = entry.resource
            }
            var kept = state.playlists[playlist] ?? []
            kept.append(all)
            while kept.count > Self.generations {
                for resource in kept.removeFirst() { state.release(resource) }
            }
            state.playlists[playlist] = kept
            return left.size
        }
    }

    /// The newest of the version before. A segment may have a section or a note in front.
    private static func left(
        of last: [HLSResource], beside resources: [HLSResource], _ skipped: Int, _ room: Int
    ) -> (resources: [HLSResource], size: Int) {
        guard skipped > 0 else { return ([], 0) }
        let new = Set(resources)
        var left: [HLSResource] = []
        var size = 0
        var lastKeyURI: String?
        for resource in last.reversed() where !new.contains(resource) {
            var next = size + resource.size
            if let uri = resource.keyURI, uri != lastKeyURI {
                next += uri.utf8.count
                lastKeyURI = uri
            }
            guard left.count / 2 < skipped, next <= room else { break }
            left.append(resource)
            size = next
        }
        return (left.reversed(), size)
    }

    /// A playlist is played no more: what it alone named is forgotten.
    func forget(_ playlist: String) {
        state.withLock { state in
            let kept = state.playlists.removeValue(forKey: playlist) ?? []
            for resource in kept.joined() { state.release(resource) }
        }
    }

    /// A playlist was refused in the end: what it alone named is forgotten. No other one is read meanwhile.
    func forgetUnused() {
        state.withLock { state in
            let unused = state.entries.compactMap { $0.value.uses == 0 ? $0.key : nil }
            for number in unused {
                guard let entry = state.entries.removeValue(forKey: number) else { continue }
                state.numbers[entry.resource] = nil
            }
        }
    }

    private static func name(_ resource: HLSResource, _ number: UInt64) -> String {
        let prefix =
            switch resource {
            case .playlist: "p"
            case .initSegment: "i"
            case .segment: "s"
            case .relayedSegment: "r"
            case .envelope: "e"
            case .keyNote: "n"
            }
        return prefix + String(number)
    }
}

extension HLSResource {
    var isPlaylist: Bool { if case .playlist = self { true } else { false } }

    /// Whether the stream behind it starts with a note for the decryptor.
    var hasNote: Bool {
        switch self {
        case .keyNote: true
        case .envelope(let segment): segment.kind != .fragmentedMP4
        case .playlist, .initSegment, .segment, .relayedSegment: false
        }
    }

    /// What a URL's path ends with, for people who read logs: the stock demuxer looks at the bytes.
    var suffix: String {
        switch self {
        case .playlist: ".m3u8"
        case .initSegment: ".mp4"
        case .segment, .relayedSegment: ""
        case .envelope(let segment): segment.kind == .fragmentedMP4 ? "" : ".ts"
        case .keyNote(let note): note.kind == .transportStream ? ".ts" : ".id3"
        }
    }

    /// Scheme, host and port of where it comes from. Nil where it is made here.
    var mediaOrigin: String? { originURL.flatMap { URIReference($0).origin } }

    /// Where it comes from. Nil where it is made here.
    var originURL: String? {
        switch self {
        case .playlist(let url): url
        case .initSegment(let segment): segment.url
        case .segment(let segment): segment.url
        case .relayedSegment(let url): url
        case .envelope(let segment): segment.url
        case .keyNote: nil
        }
    }
}
