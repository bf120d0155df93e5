// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import Synchronization

/// How much memory the playlists of one presentation and what they name take, and which playlists make room for another one. A
/// value.
///
/// The largest playlists of short names take less than the default limit. All together may not take more, so that the memory for a
/// presentation is bounded. The stock demuxer plays one playlist of each role, and asks again for the playlist of a variant that
/// it comes back to. So a playlist for which there is no room takes the place of others of its role.
struct HLSPlaylistBudget {
    private struct Playlist {
        let name: String
        let role: HLSRewriting.Child.Role?
        let size: Int
    }

    private let limit: Int
    /// In the order in which they were read last.
    private var playlists: [Playlist] = []

    /// `limit` is in bytes.
    init(limit: Int = HLSPlaylist.defaultMemoryLimit) { self.limit = limit }

    /// What the playlist of that name may take, in bytes, if others of its role make room for it.
    func room(for name: String, as role: HLSRewriting.Child.Role?) -> Int {
        let others = playlists.filter { $0.name != name && (role == nil || $0.role != role) }
        return max(0, limit - others.reduce(0) { $0 + $1.size })
    }

    /// The playlist was read, and takes so many bytes. Gives the names of those that are to be forgotten for that: of its role,
    /// those that were read longest ago, and no more than have to go.
    mutating func didRead(_ name: String, as role: HLSRewriting.Child.Role?, size: Int) -> [String] {
        playlists.removeAll { $0.name == name }
        var excess = playlists.reduce(size) { $0 + $1.size } - limit
        var forgotten: [String] = []
        for playlist in playlists where excess > 0 && role != nil && playlist.role == role {
            excess -= playlist.size
            forgotten.append(playlist.name)
        }
        playlists.removeAll { forgotten.contains($0.name) }
        playlists.append(Playlist(name: name, role: role, size: size))
        return forgotten
    }
}

extension HLSPlaylistRewriter {
    /// Rewrites a playlist, and keeps in `table` what it names. One at a time of a presentation.
    mutating func rewrite(
        _ bytes: [UInt8], from url: String, as name: String, keptIn table: HLSResourceTable,
        route: @escaping (HLSResource) -> String
    ) throws(FormatError) -> HLSRewriting {
        var rewriting: HLSRewriting
        do throws(FormatError) {
            rewriting = try rewrite(bytes, from: url, route: route)
            // The presentation is in a file.
            if relaysFiles { try rewriting.checkFiles(from: url) }
        } catch {
            table.forgetUnused()
            throw error
        }
        rewriting.resourceSize += table.keep(
            rewriting.resources, of: name, skipped: rewriting.skippedCount, room: memoryLimit - rewriting.memorySize)
        return rewriting
    }
}

/// Which task rewrites a playlist: one at a time, in the order in which they came. The others wait without a thread, since the
/// pool has few, and a stop needs one. Thread-safe.
final class HLSTurns: Sendable {
    private struct State {
        var isTaken = false
        var waiting: [CheckedContinuation<Void, Never>] = []
    }

    private let state = Mutex(State())

    /// Waits for a turn, which lasts until `pass`.
    func take() async {
        await withCheckedContinuation { continuation in
            let isFree = state.withLock { state in
                if state.isTaken { state.waiting.append(continuation) }
                defer { state.isTaken = true }
                return !state.isTaken
            }
            if isFree { continuation.resume() }
        }
    }

    /// The turn is over.
    func pass() {
        let next = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard state.waiting.isEmpty else { return state.waiting.removeFirst() }
            state.isTaken = false
            return nil
        }
        next?.resume()
    }
}

extension HLSPresentation {
    /// `rewrite`, for a task.
    func rewriteInTurn(
        _ bytes: [UInt8], from url: String, as name: String, kind: HLSSegmentKind? = nil, isEnveloped: Bool? = nil
    ) async throws(HLSFailure) -> HLSRewriting {
        await turns.take()
        defer { turns.pass() }
        return try rewrite(bytes, from: url, as: name, kind: kind, isEnveloped: isEnveloped)
    }
}

extension HLSPresentation.State {
    /// A playlist was rewritten by `rewriter`, which goes on from there. Gives the keys to ask for. If there is no room for what it
    /// names, other playlists are forgotten, but not before this one can be played: if it is refused, the stock demuxer goes on
    /// with the one that it has.
    mutating func take(
        _ rewriting: HLSRewriting, of name: String, by rewriter: HLSPlaylistRewriter, keptIn table: HLSResourceTable
    ) -> [HLSKey] {
        let role = roles[name]
        for forgotten in budget.didRead(name, as: role, size: rewriting.memorySize) { table.forget(forgotten) }
        rewriters[name] = rewriter
        if rewriting.isNumberedAnew { numberedAnew.insert(name) }
        timeline.update(rewriting, of: name)
        absent?.update(rewriting, of: name)
        if rewriting.kind == .master {
            variables = rewriting.variables
            sessionKeys = rewriting.sessionKeys
            defaultAudio = rewriting.defaultAudio
            qualities = rewriting.qualities
            variants.setVariants(
                rewriting.variants, among: rewriting.children, soundGroups: rewriting.soundGroups)
            audioTracks = rewriting.audioTracks
            roles = Dictionary(rewriting.children.map { ($0.url, $0.role) }) { first, _ in first }
        } else if let role, rewriting.keys.contains(where: { $0.decryptor == .element }) {
            encryptedRoles.insert(role)
        }
        if rewriting.resources.contains(where: \.hasNote) { hasNotes = true }
        if rewriting.resources.contains(where: \.isProtectedInitSegment) { hasProtectedInitSegments = true }
        // Where the segments may be in envelopes, what the playlist says of keys is not settled yet.
        return rewriting.segmentToProbe == nil ? schedule.update(rewriting, of: name) : []
    }
}
