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
        var size: Int
    }

    private let limit: Int
    /// In the order in which they were read last.
    private var playlists: [Playlist] = []

    /// `limit` is in bytes.
    init(limit: Int = HLSPlaylist.defaultMemoryLimit) { self.limit = limit }

    /// What the playlist of that name may take, in bytes.
    func room(for name: String) -> Int {
        max(0, limit - playlists.reduce(0) { $1.name == name ? $0 : $0 + $1.size })
    }

    /// The playlist was read, and takes so many bytes.
    mutating func didRead(_ name: String, as role: HLSRewriting.Child.Role?, size: Int) {
        playlists.removeAll { $0.name == name }
        playlists.append(Playlist(name: name, role: role, size: size))
    }

    /// There is not enough room for the playlist. Gives the names of those that are to be forgotten: all others of its role but
    /// the one that was read last, and if that is alone, this one. None if there are no others.
    mutating func makeRoom(for name: String, as role: HLSRewriting.Child.Role?) -> [String] {
        guard let role else { return [] }
        let others = playlists.filter { $0.role == role && $0.name != name && $0.size > 0 }.map(\.name)
        let forgotten = others.count > 1 ? Array(others.dropLast()) : others
        playlists.removeAll { forgotten.contains($0.name) }
        return forgotten
    }
}

extension HLSPresentation.State {
    /// Rewrites a playlist, and keeps in `table` what it names. If there is no room for that, other playlists are forgotten.
    mutating func rewriting(
        of bytes: [UInt8], from url: String, as name: String, with rewriter: inout HLSPlaylistRewriter,
        keptIn table: HLSResourceTable, route: @escaping (HLSResource) -> String
    ) throws(FormatError) -> HLSRewriting {
        let role = roles[name]
        while true {
            rewriter.memoryLimit = budget.room(for: name)
            do throws(FormatError) {
                let rewriting = try rewriter.rewrite(bytes, from: url, route: route)
                // The presentation is in a file.
                if rewriter.relaysFiles { try rewriting.checkFiles(from: url) }
                table.keep(rewriting.resources, of: name)
                budget.didRead(name, as: role, size: rewriting.memorySize)
                return rewriting
            } catch {
                table.forgetUnused()
                let forgotten = rewriter.lacksMemory ? budget.makeRoom(for: name, as: role) : []
                guard !forgotten.isEmpty else { throw error }
                for name in forgotten { table.forget(name) }
            }
        }
    }
}
