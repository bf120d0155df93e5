// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyContainers
import LatchkeyManifests
import Synchronization

/// The segments behind notes of one presentation. The stock demuxer fetches them by itself, and stops in silence at some that
/// are no media: so what its HTTP client gets is watched here, and nothing is fetched for that. Thread-safe.
///
/// The client tells of everything that this process fetches, on its own threads. So this has a lock of its own.
final class AnnouncedSegments: Sendable {
    private struct State {
        /// Nil while there is nothing to watch for.
        var servers: PresentationServers?
        /// By their playlists and the hash values of their URLs, which are up to 32 MiB of a playlist.
        var segments: [String: [Int: HLSRewriting.AnnouncedSegment]] = [:]
        /// Those in front of them, by their playlists.
        var notes: [String: Set<HLSKeyNote>] = [:]
        /// Playlists of which a segment was fetched since a note.
        var begun: Set<String> = []
        /// The segment that was fetched last.
        var last: String?
    }

    private let state = Mutex(State())
    private let table: HLSResourceTable
    private let output: PadWatch

    init(_ table: HLSResourceTable, _ output: PadWatch) { (self.table, self.output) = (table, output) }

    /// A playlist of that name was rewritten.
    func update(_ rewriting: HLSRewriting, of playlist: String, servers: PresentationServers?) {
        let notes = rewriting.resources.compactMap { if case .keyNote(let note) = $0 { note } else { nil } }
        var segments: [Int: HLSRewriting.AnnouncedSegment] = [:]
        segments.reserveCapacity(rewriting.announcedSegments.count)
        for (url, segment) in rewriting.announcedSegments { segments[url.hashValue] = segment }
        let announced = segments
        state.withLock { state in
            state.segments[playlist] = announced.isEmpty ? nil : announced
            state.notes[playlist] = notes.isEmpty ? nil : Set(notes)
            if let servers, !announced.isEmpty { state.servers = servers }
        }
    }

    func close() { state.withLock { ($0.servers, $0.segments) = (nil, [:]) } }

    /// A note goes to the stock demuxer, which starts or seeks, or has come to another key.
    func willServe(_ note: HLSKeyNote) {
        output.expect()
        state.withLock { state in
            let playlists = state.notes.filter { $0.value.contains(note) }.keys
            // Which of several is meant cannot be told, and in the middle of one an empty segment does no harm.
            if playlists.count == 1, let playlist = playlists.first { state.begun.remove(playlist) }
        }
    }

    /// Why the segment that the HTTP client got cannot be used; nil if it may be.
    func flaw(of answer: HTTPClientAnswer) -> HLSFailure? {
        guard [200, 204, 206].contains(HTTPResponse.plainStatus(answer.status)),
            let servers = state.withLock({ $0.segments.isEmpty ? nil : $0.servers })
        else { return nil }
        var url = answer.url
        if let path = servers.path(in: url) {
            let name = path.prefix { $0 != "." && $0 != "?" }
            guard let own = table.resource(String(name))?.originURL else { return nil }
            url = own
        }
        let found = state.withLock { state -> (kind: HLSSegmentKind, isFirst: Bool)? in
            for (playlist, segments) in state.segments {
                guard let segment = segments[url.hashValue] else { continue }
                state.last = url
                guard answer.isFinished else { return nil }
                return (segment.kind, state.begun.insert(playlist).inserted || segment.isFirst)
            }
            return nil
        }
        guard let (kind, isFirst) = found, let length = Self.length(of: answer),
            let flaw = Self.flaw(ofLength: length, kind, isFirst: isFirst)
        else { return nil }
        return .media("segment", at: url, flaw)
    }

    /// Nil where it is not known, or that of a part.
    private static func length(of answer: HTTPClientAnswer) -> UInt64? {
        switch HTTPResponse.plainStatus(answer.status) {
        case 200: answer.length
        case 204: 0
        default: nil
        }
    }

    /// Why so many bytes are no segment; nil where they may be one. `isFirst`: the first one behind a note.
    static func flaw(ofLength length: UInt64, _ kind: HLSSegmentKind, isFirst: Bool) -> String? {
        guard kind == .transportStream, length < SegmentKey.packetSize else { return nil }
        // The stock demuxer leaves out an empty one that has no note right in front.
        if length == 0 { return isFirst ? "it is empty" : nil }
        return "its \(length) bytes are less than a packet of a transport stream"
    }

    /// The stock demuxer has failed at what it fetched, and says no more than `details`. Nil where something came out since
    /// the last note: then anything may have failed. With several tracks, the segment that it fetched last may be another's.
    func failure(_ details: String) -> HLSFailure? {
        guard !output.hasOutput, let url = state.withLock({ $0.last }) else { return nil }
        return HLSFailure(
            kind: .format,
            text: "The segments cannot be used: GStreamer finds no media in one of them. It fetched "
                + "\(HTTPRequest(url: url).printableURL) last.",
            advice: "Either the key or the media is a wrong one.\n\(details)")
    }
}
