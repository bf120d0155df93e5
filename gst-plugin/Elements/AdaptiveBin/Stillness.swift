// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests

/// Counts looks, once a second, at a stream of which nothing came out although segments have come to their ends. A value.
struct MuteLooks {
    /// In looks.
    static let limit = 8

    /// A look counts as `ProcessorWait.factor`.
    private var count = 0
    /// The segments that had come to their ends at the last look.
    private var completed = 0

    /// True if it lasts too long: more than `limit` looks in a row; one if all streams have ended. `isMute`: nothing came out
    /// of a stream, without a reason. `isOpenEnded`: a stream may wait for its next segment, and two init segments alone
    /// become nothing. So a look counts only if segments have come to their ends since the last one. `isSlow`: see
    /// `ProcessorWait`.
    mutating func look(isMute: Bool, completed: Int, isEnded: Bool, isOpenEnded: Bool, isSlow: Bool = false) -> Bool {
        // One is not enough: an init segment is one.
        guard isMute, completed >= 2 || isEnded else {
            (count, self.completed) = (0, completed)
            return false
        }
        if isEnded || !isOpenEnded || completed > self.completed { count += isSlow ? 1 : ProcessorWait.factor }
        self.completed = completed
        // What has just ended may be on its way.
        return count > (isEnded ? 1 : Self.limit) * ProcessorWait.factor
    }
}

/// Tells whether the stock demuxer has stopped without an error. A value: the caller says what it sees, and when, in
/// nanoseconds of one clock.
struct Stillness {
    enum Verdict {
        case none
        /// All of a live presentation that has ended was fetched, and played as far as the player lets it. The demuxer waits for
        /// more. Told once, until more is fetched.
        case isAtEnd
        /// Segments were fetched, and nothing comes of them, or nothing more.
        case hasStopped
        /// No segment was fetched, although some are there.
        case hasNotBegun
        /// The same segments are fetched again and again.
        case isRepeating
    }

    /// What a refresh of a playlist says.
    struct Refresh {
        var isEnded = false
        /// The target duration in seconds.
        var target = 0.0
        /// What the master playlist names it for.
        var role: HLSRewriting.Child.Role?
        var urls: Set<String> = []
        /// Those of init segments.
        var inits: Set<String> = []
        /// How many segments it has.
        var count = 0
        /// The last segment and its last part, or the part alone.
        var last: Set<String> = []
        /// The media sequence number of the last segment.
        var lastNumber: UInt64?
        /// It leaves out what earlier refreshes have named.
        var isDelta = false
    }

    private struct Playlist {
        var role: HLSRewriting.Child.Role?
        /// The target duration in nanoseconds, if it is live.
        var target: UInt64?
        /// When it has to be asked for again, unless its stream is not wanted any more.
        var due: UInt64 = 0
        /// It was live and has ended.
        var hasEnded = false
        /// Hash values of what its last refreshes have named. Names are up to 32 MiB of a playlist, so they are not kept.
        var named: [Set<Int>] = []
        /// Of that, the init segments of the last one.
        var inits: Set<String> = []
        /// How many segments it has, and how many URLs.
        var count = 0
        var urlCount = 0
        /// All that its refreshes have named as the last segment of that number: the end may leave the parts out.
        var last: Set<String> = []
        var lastNumber: UInt64?
        /// What was fetched of it last.
        var fetched: String?

        func names(_ resource: String) -> Bool {
            let hash = resource.hashValue
            return named.contains { $0.contains(hash) }
        }
    }

    /// The refreshes of one playlist that are remembered, and the URLs of delta updates that count as one.
    private static let generations = 3
    private static let deltaLimit = 20_000
    /// How long what comes out of a segment may need, in nanoseconds.
    private static let certainty: UInt64 = 3_000_000_000
    /// How often one segment comes again, at least, before that counts as without end.
    private static let repeatLimit = 64
    /// The segments that are remembered to find that out. No circle is that long.
    private static let seenLimit = 20_000

    /// How long the first segment is waited for, in nanoseconds.
    private static let startLimit: UInt64 = 20_000_000_000

    /// How long nothing happens before the demuxer counts as stopped, and the same at the end of a live presentation.
    private let limit: UInt64
    private let limitAtEnd: UInt64

    private var playlists: [String: Playlist] = [:]
    private var hasFetched = false
    /// More is to come, and nothing says when: stillness alone is no stop. Stays so when a later manifest ends the
    /// presentation: the demuxer may read that one much later.
    private(set) var isOpenEnded = false
    /// Segments are there from the start.
    private var mayBegin = false
    /// How long the first one was not asked for, without a reason.
    private var startTime: UInt64 = 0
    private(set) var hasOutput = false
    /// The end was told, and nothing was fetched since.
    private(set) var wasEndTold = false
    private var lastChange: UInt64 = 0
    /// Segments that have come to their end, in all and since something came out.
    private(set) var completed = 0
    private var unplayed = 0
    /// How often something was seen to come out.
    private(set) var moves = 0
    /// What playlists are for of which all of a segment has come since something came out.
    private var wholeRoles: Set<HLSRewriting.Child.Role?> = []
    /// The segments that have come since the last seek, one of them, and how often that one has come again, with nothing new
    /// meanwhile. Each time that their number has doubled, it is another one: so it is one of those that come again and again,
    /// if any do.
    private var fetches = 0
    private var sample: (identity: Int, isRange: Bool)?
    /// What has come since that one.
    private var seen: Set<Int> = []
    private var recurrences = 0
    /// How long nothing has come out of them without a reason, and how long there have been two of them.
    private var muteTime: UInt64 = 0
    private var certainTime: UInt64 = 0
    /// How long a player holds up what is the rest of a presentation.
    private var heldUpTime: UInt64 = 0
    private var lastLook: UInt64 = 0

    init(limit: UInt64 = 8_000_000_000, limitAtEnd: UInt64 = 2_000_000_000) {
        self.limit = limit
        self.limitAtEnd = limitAtEnd
    }

    mutating func setOpenEnded() { isOpenEnded = true }

    /// Segments are there, and the demuxer is to begin.
    mutating func expectStart() { mayBegin = true }

    /// The demuxer asks for the playlist.
    mutating func didAsk(for name: String, at now: UInt64) {
        if let target = playlists[name]?.target { playlists[name]?.due = now &+ target &* 3 }
    }

    /// The demuxer gets the playlist.
    mutating func didRead(_ name: String, _ refresh: Refresh, at now: UInt64) {
        var playlist = playlists[name] ?? Playlist()
        playlist.role = refresh.role
        let named = Set(refresh.urls.lazy.map { Self.resource($0).hashValue })
        if refresh.isDelta, let count = playlist.named.last?.count, count < Self.deltaLimit {
            playlist.named[playlist.named.count - 1].formUnion(named)
        } else {
            playlist.named = playlist.named.suffix(Self.generations - 1) + [named]
        }
        if playlist.lastNumber != refresh.lastNumber { playlist.last = [] }
        playlist.lastNumber = refresh.lastNumber
        playlist.inits = Set(refresh.inits.map(Self.resource))
        (playlist.count, playlist.urlCount) = (refresh.count, refresh.urls.count)
        playlist.last.formUnion(refresh.last.map(Self.resource))
        if refresh.isEnded {
            if playlist.target != nil { playlist.hasEnded = true }
            playlist.target = nil
            lastChange = now
        } else {
            // A playlist may say anything.
            playlist.target = UInt64(max(1, min(refresh.target, 3600)) * 1e9)
        }
        playlists[name] = playlist
        didAsk(for: name, at: now)
    }

    /// Whether the last version of the playlist is live: the demuxer asks for such a playlist again and again.
    func isLive(_ name: String) -> Bool { playlists[name]?.target != nil }

    /// Whether a playlist names the URL.
    func names(_ url: String) -> Bool {
        let resource = Self.resource(url)
        return playlists.values.contains { $0.names(resource) }
    }

    /// Something of the segment comes. `url`: its origin's.
    mutating func didFetch(_ url: String, at now: UInt64) {
        (hasFetched, wasEndTold, lastChange) = (true, false, now)
        let resource = Self.resource(url)
        let roles = Set(playlists.values.filter { $0.names(resource) }.map(\.role))
        for (name, playlist) in playlists where roles.contains(playlist.role) {
            // The demuxer plays one playlist of each role.
            playlists[name]?.fetched = playlist.names(resource) ? resource : nil
        }
    }

    /// A segment has come to its end. `range`: the one of its file. `since`: `moves` when its first byte was asked for.
    mutating func didComplete(_ url: String = "", range: String? = nil, since begin: Int? = nil) {
        (completed, unplayed) = (completed + 1, unplayed + 1)
        let resource = Self.resource(url)
        let owners = playlists.values.filter { $0.names(resource) }
        let isInit = owners.contains { $0.inits.contains(resource) }
        if begin == moves, !isInit { wholeRoles.formUnion(owners.map(\.role)) }
        // Notes, which no playlist names, and init segments come again with each change of the key. An init segment that is a
        // range of a file of segments counts as a segment.
        guard playlists.isEmpty || !owners.isEmpty, !isInit || range != nil else { return }
        fetches &+= 1
        let identity = [resource, range].hashValue
        // An init segment of DASH comes again with each change to its representation. But what comes between is new.
        if seen.count >= Self.seenLimit { seen = [] }
        if seen.insert(identity).inserted { recurrences = 0 }
        if identity == sample?.identity { recurrences += 1 }
        if fetches & (fetches &- 1) == 0 { (sample, recurrences, seen) = ((identity, range != nil), 0, [identity]) }
    }

    /// What comes from here on may have come before.
    mutating func didSeek() { (fetches, sample, recurrences, seen) = (0, nil, 0, []) }

    /// Something came out of the demuxer.
    mutating func didMove(at now: UInt64) {
        (hasOutput, lastChange, moves) = (true, now, moves + 1)
        (unplayed, muteTime, certainTime, wholeRoles) = (0, 0, 0, [])
    }

    /// `isBusy`: there is a reason for the stillness. `isRefreshAwaited`: it is no more than a new version of a live playlist,
    /// or a manifest, that is on its way. `isHeldUp`: it is no more than that the player takes nothing. `isSlow`: see
    /// `ProcessorWait`.
    mutating func verdict(
        isBusy: Bool, isRefreshAwaited: Bool = false, isHeldUp: Bool = false, isSlow: Bool = false, at now: UInt64
    ) -> Verdict {
        if isRepeating { return .isRepeating }
        // Looks that are far apart, as after the machine was asleep, count as two seconds.
        let passed = min(now &- lastLook, 2_000_000_000)
        let time = isSlow ? passed / UInt64(ProcessorWait.factor) : passed
        lastLook = now
        lastChange = isBusy ? now : min(now, lastChange &+ (passed &- time))
        if isMute(isBusy: isBusy && !isRefreshAwaited, for: time, at: now) { return .hasStopped }
        // A player that pauses until enough is buffered may wait for the end.
        heldUpTime = isHeldUp && hasOutput && hasFetchedAll && !wasEndTold ? heldUpTime &+ time : 0
        if heldUpTime >= limitAtEnd &* 2 {
            (wasEndTold, lastChange) = (true, now)
            return .isAtEnd
        }
        let stillness = now &- lastChange
        let targets = playlists.values.compactMap(\.target)
        let isLive = playlists.values.contains { $0.target != nil && $0.due > now }
        if mayBegin, !hasFetched {
            startTime = isBusy && !isRefreshAwaited ? 0 : startTime &+ time
            return startTime >= Self.startLimit ? .hasNotBegun : .none
        }
        guard hasFetched, !isOpenEnded, !isLive || !hasOutput else { return .none }
        if hasOutput, hasFetchedAll, !wasEndTold {
            guard stillness >= limitAtEnd else { return .none }
            (wasEndTold, lastChange) = (true, now)
            return .isAtEnd
        }
        return stillness >= max(limit, (targets.max() ?? 0) &* 3) ? .hasStopped : .none
    }

    /// Whether segments come to their ends, and nothing comes out. With a live playlist, more come all the time. One is not
    /// enough: an init segment is one, and what comes out of the last one may come before its end is seen. It is if all of
    /// it was asked for after the last output, as in a live presentation that has come to noise.
    private mutating func isMute(isBusy: Bool, for time: UInt64, at now: UInt64) -> Bool {
        guard !isBusy, unplayed >= 1 else { return false }
        muteTime &+= time
        if unplayed >= 2 || hasWholeSegments(at: now) { certainTime &+= time }
        return muteTime >= limit && certainTime >= Self.certainty
    }

    /// Whether all that is played of a live presentation has a segment to play. If one is late, the others wait for it.
    private func hasWholeSegments(at now: UInt64) -> Bool {
        let played = playlists.values.filter {
            $0.target != nil && $0.due > now && $0.role != .subtitles && $0.role != .iFrames
        }
        return !played.isEmpty && wholeRoles.isSuperset(of: played.map(\.role))
    }

    /// Whether the demuxer goes round in circles.
    private var isRepeating: Bool {
        guard recurrences > Self.repeatLimit, let sample else { return false }
        // A live presentation may have a segment as often as it likes, if something comes of it.
        if isOpenEnded || playlists.values.contains(where: { $0.target != nil }) { return unplayed > Self.repeatLimit }
        // A playlist may name one URL for several segments.
        let named = playlists.values.map { sample.isRange ? $0.count : $0.count - $0.urlCount }
        return recurrences > named.max() ?? 0
    }

    /// Whether live playlists have ended, and the last segments of them were fetched last.
    private var hasFetchedAll: Bool {
        let ended = Dictionary(grouping: playlists.values.filter(\.hasEnded), by: \.role)
        return !ended.isEmpty
            && ended.values.allSatisfy { $0.contains { $0.fetched.map($0.last.contains) ?? false } }
    }

    /// What a URL has behind its host. GStreamer writes URLs in other ways: percent-encodings are taken out.
    static func resource(_ url: String) -> String {
        var bytes = url.utf8.prefix { $0 != UInt8(ascii: "#") }
        if let colon = bytes.firstIndex(of: UInt8(ascii: ":")), bytes[colon...].starts(with: "://".utf8) {
            bytes = bytes[colon...].dropFirst(3).drop { $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: "?") }
        }
        guard bytes.contains(UInt8(ascii: "%")) else { return String(decoding: bytes, as: UTF8.self) }
        var result: [UInt8] = []
        while let byte = bytes.popFirst() {
            if byte == UInt8(ascii: "%"), bytes.count >= 2, let value = UInt8(Substring(bytes.prefix(2)), radix: 16) {
                result.append(value)
                bytes.removeFirst(2)
            } else {
                result.append(byte)
            }
        }
        return String(decoding: result, as: UTF8.self)
    }
}
