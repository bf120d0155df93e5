// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit

/// Which audio track plays of those that a manifest names, and what the stock demuxer is to be asked for so that another one
/// does. A value.
struct AudioChoice {
    /// An audio track of the manifest.
    struct Track {
        var name: String
        var language: String?
    }

    /// What the user wants, by name or language; nil: the first track.
    var wanted: String?
    /// In the order of the manifest.
    private(set) var tracks: [Track] = []
    /// The index of the one that the stock demuxer has got in front of the others.
    private var first = 0
    private var idsHaveNames = false
    private var collection: [StreamDescription] = []
    private var selected: [StreamDescription] = []
    /// Another track is to play as soon as the stock demuxer has chosen: its streams were not known yet, or the wanted one could
    /// not be put in front.
    private var isChangeDue = false

    /// What the user wants, of content that is still to come.
    init(wanted: String? = nil) { self.wanted = wanted }

    /// The stock demuxer gets these, and that of the name `first` in front of the others; nil: all where they are.
    /// `idsHaveNames`: it has the names in the IDs of its streams.
    mutating func setTracks(_ tracks: [Track], withFirst first: String?, idsHaveNames: Bool = false) {
        self.tracks = tracks
        self.first = first.flatMap { index(of: $0) } ?? 0
        self.idsHaveNames = idsHaveNames
        isChangeDue = wanted.flatMap(index(of:)).map { $0 != self.first } ?? false
    }

    private func index(of name: String) -> Int? {
        tracks.firstIndex { $0.name == name } ?? tracks.firstIndex { $0.language?.lowercased() == name.lowercased() }
    }

    /// Takes what the stock demuxer says of its streams. Returns whether it is to be asked for another track now.
    mutating func note(_ message: borrowing Message) -> Bool {
        if let streams = message.streamCollection() {
            collection = streams
        } else if let streams = message.selectedStreams() {
            selected = streams
            defer { isChangeDue = false }
            return isChangeDue
        }
        return false
    }

    /// The streams to ask for, so that the wanted track plays; nil where it does, or where it is not there, or not yet.
    mutating func streamsToSelect() -> [String]? {
        isChangeDue = !tracks.isEmpty && collection.isEmpty
        guard let index = wanted.flatMap(index(of:)), let stream = stream(of: index), !selected.contains(stream) else {
            return nil
        }
        let others =
            selected.isEmpty
            ? collection.first { $0.kind == .video }.map { [$0] } ?? [] : selected.filter { $0.kind != .audio }
        return others.map(\.id) + [stream.id]
    }

    /// hlsdemux2 has the tracks of one group in its collection. The other demuxers have all tracks there, in their order.
    private func stream(of index: Int) -> StreamDescription? {
        let streams = collection.filter { $0.kind == .audio }
        if idsHaveNames {
            let name = "audio-\(tracks[index].name)"
            return streams.first { $0.id == name || $0.id.hasSuffix("/\(name)") }
        }
        let place = index == first ? 0 : index < first ? index + 1 : index
        return streams.count == tracks.count ? streams[place] : nil
    }
}

extension AdaptiveBin {
    /// The name of the audio that plays, or its language; nil: the first one. Another one may be set while it plays.
    final var audioTrack: String? {
        get { withGuarded { $0.audio.wanted } }
        set {
            withGuarded { $0.audio.wanted = newValue?.isEmpty == true ? nil : newValue }
            changeAudio()
        }
    }

    /// What plays gives way to what is wanted. A stock demuxer that is stopped has no streams.
    private func changeAudio() {
        let streams = withGuarded { $0.run == nil || $0.isStopping ? nil : $0.audio.streamsToSelect() }
        if let streams { _ = child?.send(.selectStreams(streams)) }
    }

    /// The stock demuxer says something, perhaps of its streams.
    final func noteAudio(_ message: borrowing Message) {
        guard withGuarded({ $0.audio.note(message) }) else { return }
        // Not on the thread of the stock demuxer that tells of its choice.
        let weak = WeakElement(reference)
        reference.callAsync { weak.withElement { ($0 as? AdaptiveBin)?.changeAudio() } }
    }

    /// The names of the audio tracks, in the order of the manifest. Each is there once.
    final var audioTracks: [String] { withGuarded { $0.audio.tracks.map(\.name) } }

    /// By which audio is chosen.
    static let audioProperties = [
        Property(
            "audio-track", nick: "Audio track",
            blurb:
                "The audio that plays, by its name in the manifest or else by its language; unset: the first. May change "
                + "while it plays",
            kind: .string(default: nil), mutability: .playing,
            get: { .string(($0 as? AdaptiveBin)?.audioTrack) },
            set: { element, value in
                guard case .string(let text) = value else { return }
                (element as? AdaptiveBin)?.audioTrack = text
            }),
        Property(
            "audio-tracks", nick: "Audio tracks",
            blurb: "The names of the audio tracks, one a line; the language of one without a name",
            kind: .string(default: nil),
            get: { .string(($0 as? AdaptiveBin)?.audioTracks.joined(separator: "\n")) }),
    ]
}
