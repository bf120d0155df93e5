// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests

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

extension HLSPresentation.State {
    /// Rewrites a playlist, and keeps in `table` what it names. If there is no room for that, other playlists are forgotten, but
    /// not before this one can be played: if it is refused, the stock demuxer goes on with the one that it has.
    mutating func rewriting(
        of bytes: [UInt8], from url: String, as name: String, with rewriter: inout HLSPlaylistRewriter,
        keptIn table: HLSResourceTable, route: @escaping (HLSResource) -> String
    ) throws(FormatError) -> HLSRewriting {
        let role = roles[name]
        rewriter.memoryLimit = budget.room(for: name, as: role)
        let rewriting: HLSRewriting
        do throws(FormatError) {
            rewriting = try rewriter.rewrite(bytes, from: url, route: route)
            // The presentation is in a file.
            if rewriter.relaysFiles { try rewriting.checkFiles(from: url) }
        } catch {
            table.forgetUnused()
            throw error
        }
        table.keep(rewriting.resources, of: name)
        for forgotten in budget.didRead(name, as: role, size: rewriting.memorySize) { table.forget(forgotten) }
        return rewriting
    }
}
