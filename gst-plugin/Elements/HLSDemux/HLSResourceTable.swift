// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import LatchkeyProtection
import Synchronization

/// What the loopback server serves, by names that say nothing and that cannot be made up outside: a request can only
/// ask for what the presentation's own playlists named. Thread-safe.
///
/// A playlist keeps what its last refreshes named; what is in none of them is forgotten.
final class HLSResourceTable: Sendable {
    /// The refreshes of one playlist that are remembered.
    static let generations = 3

    private struct Entry {
        let resource: HLSResource
        var uses = 0
    }

    private struct State {
        var names: [HLSResource: String] = [:]
        var entries: [String: Entry] = [:]
        var playlists: [String: [[HLSResource]]] = [:]
        var lastNumber: UInt64 = 0

        mutating func release(_ resource: HLSResource) {
            guard let name = names[resource] else { return }
            entries[name]?.uses -= 1
            guard let entry = entries[name], entry.uses <= 0 else { return }
            entries[name] = nil
            names[resource] = nil
        }
    }

    private let state = Mutex(State())

    /// The name of a resource, always the same while it is known.
    func name(of resource: HLSResource) -> String {
        state.withLock { state in
            if let known = state.names[resource] { return known }
            state.lastNumber += 1
            let name = Self.prefix(resource) + String(state.lastNumber)
            state.names[resource] = name
            state.entries[name] = Entry(resource: resource)
            return name
        }
    }

    /// The name of a resource that a playlist named; nil for others.
    func knownName(of resource: HLSResource) -> String? { state.withLock { $0.names[resource] } }

    func resource(_ name: String) -> HLSResource? { state.withLock { $0.entries[name]?.resource } }

    var count: Int { state.withLock { $0.entries.count } }

    /// A playlist was rewritten, and names these resources now.
    func keep(_ resources: [HLSResource], of playlist: String) {
        state.withLock { state in
            var resources = resources
            for index in resources.indices {
                guard let name = state.names[resources[index]], let entry = state.entries[name] else { continue }
                state.entries[name]?.uses += 1
                // Refreshes share what is equal.
                resources[index] = entry.resource
            }
            var kept = state.playlists[playlist] ?? []
            kept.append(resources)
            while kept.count > Self.generations {
                for resource in kept.removeFirst() { state.release(resource) }
            }
            state.playlists[playlist] = kept
        }
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
            for (name, entry) in state.entries where entry.uses == 0 {
                state.entries[name] = nil
                state.names[entry.resource] = nil
            }
        }
    }

    private static func prefix(_ resource: HLSResource) -> String {
        switch resource {
        case .playlist: "p"
        case .initSegment: "i"
        case .segment: "s"
        case .relayedSegment: "r"
        case .envelope: "e"
        case .keyNote: "n"
        }
    }
}

extension HLSResource {
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
