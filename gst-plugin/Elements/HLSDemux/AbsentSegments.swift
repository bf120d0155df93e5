// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyManifests

/// What becomes of segments of live playlists that their origin does not have: they are there no more, or not there yet. A value.
///
/// Workaround (GStreamer <1.26): at such a segment, the stock demuxer aborts the process or plays on, by chance, with clear media
/// too: when it waits for the next version of the playlist, and that comes before it has ended the download. So the loopback
/// server, through which segments of playlists with keys come, gives it nothing in their place, or waits.
struct AbsentSegments: Sendable {
    enum Verdict: Equatable {
        /// It is the last one of its playlist: ask again after so long.
        case isToCome(Duration)
        /// Playback goes on behind it.
        case isLeftOut
        /// Too many in a row: the presentation is there no more.
        case isTheEnd
    }

    /// Whether the stock demuxer has to be kept from them.
    static func isNeeded(
        _ version: (major: UInt32, minor: UInt32, micro: UInt32) = Environment.gstreamerVersion
    ) -> Bool { version.major == 1 && version.minor < 26 }

    private struct Playlist {
        var urls: Set<String> = []
        var last: Set<String> = []
        var target = Duration.zero
        /// How many were left out since one came, and how many of them because they are refused.
        var count = 0
        var refusedCount = 0
    }

    /// In a row. The stock demuxer of later versions gives up sooner.
    private static let limit = 8
    /// The same of those that are refused: a token that has expired is to be told soon.
    private static let refusedLimit = 2
    /// How often in a target duration what is to come is asked for again, and for how many target durations.
    private static let attempts = (each: 4, targets: 2)
    /// In seconds. A playlist may state any number, and `Duration` traps on large ones.
    private static let longestTarget = 60.0

    /// The live ones. What was in none of their latest versions has left its window.
    private var playlists: [String: Playlist] = [:]
    private var strays = Playlist()

    var isLive: Bool { !playlists.isEmpty }

    /// A playlist of that name was rewritten.
    mutating func update(_ rewriting: HLSRewriting, of name: String) {
        guard rewriting.kind == .media, !rewriting.isEnded else { return playlists[name] = nil }
        var playlist = playlists[name] ?? Playlist()
        (playlist.urls, playlist.last) = (rewriting.urls, rewriting.lastURLs)
        playlist.target = .seconds(min(rewriting.targetDuration ?? 0, Self.longestTarget))
        playlists[name] = playlist
    }

    /// The origin has answered 404 or 410 for that segment, before which it was asked for so often. `isRefused`: another error of
    /// the client, which stores of objects answer as well (403). Nil: nothing is live, so that it is the stock demuxer's matter.
    mutating func verdict(on url: String, attempt: Int, isRefused: Bool = false) -> Verdict? {
        guard isLive else { return nil }
        let name = playlists.first { $0.value.urls.contains(url) }?.key
        var playlist = name.flatMap { playlists[$0] } ?? strays
        if !isRefused, playlist.last.contains(url), attempt < Self.attempts.each * Self.attempts.targets {
            return .isToCome(playlist.target / Self.attempts.each)
        }
        playlist.count += 1
        playlist.refusedCount += isRefused ? 1 : 0
        if let name { playlists[name] = playlist } else { strays = playlist }
        return playlist.count > Self.limit || playlist.refusedCount > Self.refusedLimit ? .isTheEnd : .isLeftOut
    }

    /// A segment has come.
    mutating func didCome(_ url: String) {
        (strays.count, strays.refusedCount) = (0, 0)
        for (name, playlist) in playlists where playlist.count > 0 && playlist.urls.contains(url) {
            playlists[name]?.count = 0
            playlists[name]?.refusedCount = 0
        }
    }
}
