// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyProtection
import Synchronization

/// The audio tracks of a file in a player: which one plays, and what the player is asked for so that another one does. A
/// value.
struct FileAudio: Sendable {
    /// What chooses streams: decodebin3.
    var chooser: WeakPipeline?
    /// Those that play; empty before the player has chosen.
    private var selected: [StreamDescription] = []
    /// Another track is to play as soon as the player has chosen.
    private var isChangeDue = false
    private var streams: [StreamDescription] = []

    /// Whether a stream of a collection plays, where the track with that `track_ID` is to; nil: the player decides.
    mutating func isSelected(
        _ stream: StreamDescription, of collection: [StreamDescription], track: UInt32?
    ) -> Bool? {
        streams = collection
        guard stream.kind == .audio, let chosen = track.flatMap({ self.stream(of: $0) }) else { return nil }
        return stream == chosen
    }

    /// Takes what the player has chosen. Returns whether another track is to play than it knew of.
    mutating func note(selected streams: [StreamDescription]) -> Bool {
        selected = streams
        defer { isChangeDue = false }
        return isChangeDue
    }

    /// The streams to ask for; nil where the track plays, or is not there, or not yet.
    mutating func streamsToSelect(track: UInt32) -> [String]? {
        isChangeDue = selected.isEmpty
        guard !isChangeDue, let chosen = stream(of: track), !selected.contains(chosen) else { return nil }
        return selected.filter { $0.kind != .audio }.map(\.id) + [chosen.id]
    }

    /// qtdemux ends the IDs of its streams with the `track_ID`, in three digits or more.
    private func stream(of track: UInt32) -> StreamDescription? {
        let digits = String(track)
        let suffix = "/" + String(repeating: "0", count: max(0, 3 - digits.count)) + digits
        return streams.first { $0.kind == .audio && $0.id.hasSuffix(suffix) }
    }
}

extension AgentCore {
    /// Lets the name of the audio track decide what plays of a file. Adaptive demuxers take the name themselves.
    func chooseAudio(with chooser: ElementReference, in id: UInt64) {
        guard isFile else { return }
        guarded.withLock { $0.attachments[id]?.fileAudio.chooser = WeakPipeline(chooser.pointer) }
        chooser.onStreamSelection { [weak self] stream, collection in
            guard let self else { return nil }
            return guarded.withLock { guarded in
                let track = guarded.selectedFileTrack
                return guarded.attachments[id]?.fileAudio.isSelected(stream, of: collection, track: track) ?? nil
            }
        }
    }

    /// The names are in the file, which the application may not have had looked into.
    func lookForFileAudio() {
        let isNeeded = guarded.withLock {
            $0.selectedAudioTrack != nil && $0.content == nil && !$0.attachments.isEmpty
        }
        guard isFile, isNeeded else { return }
        Task { [weak self] in
            guard let self, let parts = try? session() else { return }
            // A file that cannot be read is told of as it plays.
            _ = try? await inspect(parts, waits: false)
        }
    }

    /// What plays already gives way.
    func changeFileAudio() {
        let changes = guarded.withLock { guarded -> [(WeakPipeline?, [String])] in
            guard let track = guarded.selectedFileTrack else { return [] }
            return guarded.attachments.keys.compactMap { id in
                let streams = guarded.attachments[id]?.fileAudio.streamsToSelect(track: track) ?? nil
                return streams.map { (guarded.attachments[id]?.fileAudio.chooser, $0) }
            }
        }
        for (chooser, streams) in changes { chooser?.with { _ = $0.send(.selectStreams(streams)) } }
    }

    func note(selected streams: [StreamDescription], in id: UInt64) {
        let isChangeDue = guarded.withLock { $0.attachments[id]?.fileAudio.note(selected: streams) ?? false }
        // Not on the thread of the player that tells of its choice.
        if isChangeDue { Task { [weak self] in self?.changeFileAudio() } }
    }

    private var isFile: Bool { type == .mp4 || type == .piff }

    /// The application says that it is such a file, and it is on this device. The end of its name does not count.
    var isLocalFile: Bool { isFile && URIReference(contentURL).scheme?.lowercased() == "file" }
}

extension AgentCore.Guarded {
    /// The `track_ID` of the audio that is to play of a file; nil: the default, or no file.
    fileprivate var selectedFileTrack: UInt32? {
        guard let selectedAudioTrack, let content,
            let index = content.audioTrackNames.firstIndex(of: selectedAudioTrack),
            content.audioTrackIDs.indices.contains(index)
        else { return nil }
        return content.audioTrackIDs[index]
    }
}
