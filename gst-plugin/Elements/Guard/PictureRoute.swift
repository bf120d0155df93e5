// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization

/// Whether the pictures that leave a decryptor come to a guard in front of any sink. Thread-safe.
///
/// Players link what is behind a decryptor step by step, as media flows. So the way is walked when a key with rules for
/// pictures is used for the first time, and where it ends without a sink, a gate stands there from then on: the first
/// buffer that passes has it walked again, and waits for that. So no buffer is ahead of what is known of its way, and
/// none is looked at behind a guard.
///
/// What changes on the way is told by elements that may hold their locks, which a walk needs. So nothing is walked then: a
/// gate is put where it changed, and the next use of the key has the way walked, too. A link that goes is such a change: not
/// every element tells those in front of it that it has another link.
///
/// Where pictures are known to come, they are followed, through elements that join streams, too: the caps behind such an
/// element are those of the stream that came last. Where only the caps tell, other caps are such a change.
final class PictureRoute: Sendable {
    private enum Verdict {
        /// Every branch is guarded, or ends nowhere yet.
        case closed
        /// A branch leads to this sink, without a guard.
        case open(sink: String)
    }

    private struct Outcome {
        var verdict = Verdict.closed
        /// Whether keys that were usable are not, or the other way round.
        var isNews = false
        /// The sinks of which nothing tells what comes there, by the pads with the gates in front.
        var untyped: [UnsafeMutableRawPointer: String] = [:]
    }

    private typealias Gate = (pad: PadReference, probe: PadProbe)

    private struct State {
        /// How often something on the way has changed.
        var changes = 0
        /// What the last walk has found, and the session's revision when it began: that tells of each change, and of guards that
        /// join or leave.
        var found: (verdict: Verdict, revision: UInt64)?
        /// The key that was used last.
        var keyID: KeyID?
        var gates: [Gate] = []
        var watches: [PadsWatch] = []
        var links: [PadSignalWatch] = []
        var caps: [PadSignalWatch] = []
        /// Tells of a new link where neither a gate nor a watch is: at a source pad that no template of its element announced.
        var reconfigurations: PadProbe?
        var isForgotten = false
    }

    private let source: PadReference
    private let session: KeySession
    /// Hears that pictures of a key were dropped, and why.
    private let onOpen: @Sendable (KeyID?, KeyError) -> Void
    private let state = Mutex(State())
    /// Held during a walk: what comes to a gate meanwhile waits.
    private let turn = Monitor()

    init(from source: PadReference, session: KeySession, onOpen: @escaping @Sendable (KeyID?, KeyError) -> Void) {
        self.source = source
        self.session = session
        self.onOpen = onOpen
    }

    /// Why pictures of this key, whose license has rules for them, may not leave; nil where they may. On the stream's
    /// thread.
    func refusal(of keyID: KeyID?) -> KeyError? {
        let revision = session.revision
        let known = state.withLock { state in
            state.keyID = keyID
            return state.found.flatMap { $0.revision == revision ? $0.verdict : nil }
        }
        return Self.error(known ?? walk().verdict, keyID)
    }

    /// A key whose license has rules for pictures was used before the pad was there. The first media that leaves it has the way
    /// walked, and is refused if that is open. On the thread that adds the pad, which may hold the locks of elements.
    func expect(_ keyID: KeyID?) {
        state.withLock { $0.keyID = keyID }
        didChange(at: source)
    }

    /// The element stops, or its pad goes. On a thread that may hold the locks of elements: a walk that is under way takes away
    /// what it has put, at its end.
    func forget() {
        let old = state.withLock { state in
            defer {
                state = State()
                state.isForgotten = true
            }
            return state
        }
        old.reconfigurations?.remove()
        for gate in old.gates { gate.probe.remove() }
    }

    private static func error(_ verdict: Verdict, _ keyID: KeyID?) -> KeyError? {
        guard case .open(let sink) = verdict else { return nil }
        return .denied(
            "\(DecryptorFailure.name(keyID)): its license has rules for the outputs of pictures, and no guard is in front of "
                + "the sink for pictures \u{201C}\(sink)\u{201D}: put latchkeyguard there, as in "
                + "video-sink=\"latchkeyguard ! autovideosink\"")
    }

    // MARK: Changes

    /// Something changed on the way, at this pad if one is named. On the thread that changes it, which may hold the locks of
    /// elements.
    private func didChange(at pad: PadReference? = nil) {
        // No walk that is under way takes a gate away now.
        state.withLock { $0.changes += 1 }
        if let pad {
            // Even if there is one: a buffer that waits there for a walk comes to the new one next.
            let gate = (pad: pad, probe: closedGate(at: pad))
            let isForgotten = state.withLock { state in
                if !state.isForgotten { state.gates.append(gate) }
                return state.isForgotten
            }
            if isForgotten { gate.probe.remove() }
        }
        session.pictureRouteDidChange()
    }

    private func closedGate(at pad: PadReference) -> PadProbe {
        // The pad keeps this: it must not keep the pad.
        let place = UnsafeMutableRawPointer(pad.pointer)
        return pad.gateBuffers { [weak self] in self?.passes(at: place) ?? true }
    }

    // MARK: Walks

    /// Media has come to the gate at this pad. Whether it may pass: what has no caps by now may be pictures.
    private func passes(at pad: UnsafeMutableRawPointer) -> Bool {
        let outcome = walk()
        let keyID = state.withLock { $0.keyID }
        let verdict = outcome.untyped[pad].map { Verdict.open(sink: $0) } ?? outcome.verdict
        guard let error = Self.error(verdict, keyID) else { return true }
        onOpen(keyID, error)
        return false
    }

    /// Follows every branch, and puts gates where one ends.
    @discardableResult
    private func walk() -> Outcome {
        turn.lock()
        let (outcome, old) = walkInTurn()
        turn.unlock()
        // What the old ones keep may go here.
        withExtendedLifetime(old) {}
        if outcome.isNews { session.pictureRouteDidChange() }
        return outcome
    }

    private func walkInTurn() -> (Outcome, old: State) {
        let revision = session.revision
        let old = state.withLock { $0 }
        guard !old.isForgotten else { return (Outcome(), old) }
        let reconfigurations =
            old.reconfigurations
            ?? source.probeEvents(.upstream) { [weak self] event in
                if event.isReconfigure { self?.didChange() }
                return event
            }
        var walk = RouteWalk(
            session: session,
            gate: { pad in
                old.gates.first { $0.pad.isSame(as: pad) }?.probe ?? self.closedGate(at: pad)
            },
            watch: { element in
                old.watches.first { $0.element.isSame(as: element) }
                    ?? element.watchSourcePads { [weak self] in self?.didChange(at: $0) }
            },
            link: { pad in
                old.links.first { $0.pad.isSame(as: pad) } ?? pad.watchLink { [weak self] in self?.didChange(at: $0) }
            },
            caps: { pad in
                old.caps.first { $0.pad.isSame(as: pad) } ?? pad.watchCaps { [weak self] in self?.didChange(at: $0) }
            })
        walk.follow(source)
        let verdict = walk.openSink.map { Verdict.open(sink: $0) } ?? .closed
        let needless = state.withLock { state -> [Gate]? in
            guard !state.isForgotten else { return nil }
            let isSettled = state.changes == old.changes
            let others = state.gates.filter { gate in !walk.gates.contains { $0.probe === gate.probe } }
            state.found = (verdict, revision)
            state.gates = isSettled ? walk.gates : walk.gates + others
            (state.watches, state.links, state.caps) = (walk.watches, walk.links, walk.capsWatches)
            state.reconfigurations = reconfigurations
            return isSettled ? others : []
        }
        guard let needless else {
            // What was there before has gone with the rest.
            for gate in walk.gates where !old.gates.contains(where: { $0.probe === gate.probe }) { gate.probe.remove() }
            if old.reconfigurations == nil { reconfigurations.remove() }
            var unused = old
            unused.watches += walk.watches
            unused.links += walk.links
            unused.caps += walk.capsWatches
            return (Outcome(verdict: verdict, untyped: walk.untyped), unused)
        }
        for gate in needless { gate.probe.remove() }
        let isNews =
            switch (old.found?.verdict, verdict) {
            case (.closed, .open), (.open, .closed): true
            default: false
            }
        return (Outcome(verdict: verdict, isNews: isNews, untyped: walk.untyped), old)
    }
}

/// The same for media that is decrypted in front of a bin and leaves that by several pads, which come and go. Thread-safe.
final class PictureRoutes: Sendable {
    private struct State {
        var routes: [(pad: PadReference, route: PictureRoute)] = []
        /// Whether a key with rules for pictures was used: before that, nothing is walked.
        var isUsed = false
        /// The key that was used last.
        var keyID: KeyID?
    }

    private let session: KeySession
    private let onOpen: @Sendable (KeyID?, KeyError) -> Void
    private let state = Mutex(State())

    /// `onOpen` hears that pictures of a key came to where no guard is, and why they were dropped.
    init(session: KeySession, onOpen: @escaping @Sendable (KeyID?, KeyError) -> Void) {
        self.session = session
        self.onOpen = onOpen
    }

    /// Why pictures of this key, whose license has rules for them, may not leave; nil where they may.
    func refusal(of keyID: KeyID?) -> KeyError? {
        let routes = state.withLock { state in
            (state.isUsed, state.keyID) = (true, keyID)
            return state.routes.map { $0.route }
        }
        return routes.lazy.compactMap { $0.refusal(of: keyID) }.first
    }

    /// The bin has this pad. Nothing has left it yet. On the thread that adds it, which may hold the locks of elements.
    func add(_ pad: PadReference) {
        let route = PictureRoute(from: pad, session: session, onOpen: onOpen)
        let (isUsed, keyID) = state.withLock { state in
            state.routes.append((pad, route))
            return (state.isUsed, state.keyID)
        }
        if isUsed { route.expect(keyID) }
    }

    /// The bin has this pad no more.
    func remove(_ pad: PadReference) {
        let removed = state.withLock { state in
            let removed = state.routes.filter { $0.pad.isSame(as: pad) }.map { $0.route }
            state.routes.removeAll { $0.pad.isSame(as: pad) }
            return removed
        }
        for route in removed { route.forget() }
    }

    /// The bin stops.
    func forget() {
        let old = state.withLock { state in
            defer { state = State() }
            return state.routes.map { $0.route }
        }
        for route in old { route.forget() }
    }
}

/// What is known of the pictures in a stream. More is known in later cases.
private enum Pictures: Comparable {
    /// It is sound or text.
    case absent
    /// It has no caps yet.
    case unknown
    /// Something else is inside, which the caps behind an element will tell.
    case wrapped
    /// It has some, or is a container that may have.
    case present
}

/// One walk along all branches behind a pad.
private struct RouteWalk {
    let session: KeySession
    /// The gate at a pad, which may be there from before.
    let gate: (PadReference) -> PadProbe
    let watch: (SharedElement) -> PadsWatch
    let link: (PadReference) -> PadSignalWatch
    let caps: (PadReference) -> PadSignalWatch
    private(set) var gates: [(pad: PadReference, probe: PadProbe)] = []
    private(set) var watches: [PadsWatch] = []
    private(set) var links: [PadSignalWatch] = []
    private(set) var capsWatches: [PadSignalWatch] = []
    private(set) var openSink: String?
    private(set) var untyped: [UnsafeMutableRawPointer: String] = [:]
    /// The pads that were followed, with what was known of them. The watches keep them.
    private var followed: [UnsafeMutableRawPointer: Pictures] = [:]

    /// More pads than any pipeline has.
    private static let limit = 10_000

    init(
        session: KeySession, gate: @escaping (PadReference) -> PadProbe, watch: @escaping (SharedElement) -> PadsWatch,
        link: @escaping (PadReference) -> PadSignalWatch, caps: @escaping (PadReference) -> PadSignalWatch
    ) {
        self.session = session
        self.gate = gate
        self.watch = watch
        self.link = link
        self.caps = caps
    }

    /// Follows what leaves a source pad. `inherited`: what is known of it from what is in front.
    mutating func follow(_ source: PadReference, after inherited: Pictures = .unknown) {
        var pictures = Self.pictures(in: source, after: inherited)
        if pictures <= .unknown {
            // Caps may come, or others than these, and may have come before the watch.
            watchCaps(of: source)
            pictures = Self.pictures(in: source, after: inherited)
            if pictures == .absent { return }
        }
        let place = UnsafeMutableRawPointer(source.pointer)
        // Several ways may lead here, and more may be known on a later one.
        if let before = followed[place], before >= pictures { return }
        followed[place] = pictures
        guard followed.count <= Self.limit else {
            openSink = source.name
            return
        }
        // Before the link is looked at.
        if !links.contains(where: { $0.pad.isSame(as: source) }) { links.append(link(source)) }
        guard let arrival = source.peer else {
            addGate(at: source)
            // Linked before the gate was there.
            if source.peer != nil { followAgain(source, after: inherited) }
            return
        }
        guard let element = arrival.element else {
            // The border of a bin, or a pad that stands alone, as those of test harnesses do.
            let links = arrival.internalLinks
            if !links.isEmpty { return follow(links, pictures) }
            return end(source, at: arrival, of: nil, after: inherited, pictures)
        }
        if let outputGuard = element.implementation as? GuardElement, outputGuard.guards(for: session) {
            // It goes by the caps, and takes for sound what these call sound.
            watchCaps(of: source)
            if Self.pictures(in: source) != .absent { return }
        }
        let isDemuxer = element.addsSourcePads
        let mayGrow = isDemuxer || element.givesSourcePads
        // Before its pads are listed.
        if mayGrow { add(watch(element)) }
        let links = arrival.internalLinks
        if !links.isEmpty {
            for pad in links {
                // What a demuxer takes apart is something else on each pad. A multiqueue only looks like one: each of its
                // source pads goes with a sink pad that was requested. A pad without an element is the border of a bin.
                let isPart = isDemuxer && !arrival.isRequested && !pad.isAlwaysThere && pad.element != nil
                follow(pad, after: isPart ? .unknown : pictures)
            }
            return
        }
        // One that calls itself a sink may show what comes, or send it elsewhere, even if its source pads come later.
        if mayGrow, !element.isSink { return }
        if !element.isSink {
            // Such as a selector, which has no link between its output and a pad that is not the active one.
            let exits = element.sourcePads
            if !exits.isEmpty { return follow(exits, pictures) }
            if let around = Self.demuxer(around: element) {
                // Such as an adaptive demuxer, which takes over what the elements inside make.
                add(watch(around))
                return follow(around.sourcePads, .unknown)
            }
        }
        end(source, at: arrival, of: element, after: inherited, pictures)
    }

    private mutating func followAgain(_ source: PadReference, after inherited: Pictures) {
        followed[UnsafeMutableRawPointer(source.pointer)] = nil
        follow(source, after: inherited)
    }

    private mutating func follow(_ pads: [PadReference], _ pictures: Pictures) {
        for pad in pads { follow(pad, after: pictures) }
    }

    /// The stream ends in a sink. What is not known to be pictures may be sound: its caps will tell.
    private mutating func end(
        _ source: PadReference, at arrival: PadReference, of element: SharedElement?, after inherited: Pictures,
        _ pictures: Pictures
    ) {
        addGate(at: source)
        // What is taken apart loses its links first, and then what would have shown the way on.
        guard source.peer?.isSame(as: arrival) == true else { return followAgain(source, after: inherited) }
        let sink = element?.reference.name ?? arrival.name
        let place = UnsafeMutableRawPointer(source.pointer)
        if pictures == .unknown {
            untyped[place] = sink
        } else {
            untyped[place] = nil
            openSink = openSink ?? sink
        }
    }

    private mutating func addGate(at pad: PadReference) {
        // Several ways may end here.
        if !gates.contains(where: { $0.pad.isSame(as: pad) }) { gates.append((pad, gate(pad))) }
    }

    private mutating func add(_ watch: PadsWatch) {
        if !watches.contains(where: { $0.element.isSame(as: watch.element) }) { watches.append(watch) }
    }

    private mutating func watchCaps(of pad: PadReference) {
        if !capsWatches.contains(where: { $0.pad.isSame(as: pad) }) { capsWatches.append(caps(pad)) }
    }

    /// The innermost bin around an element that something may come out of.
    private static func demuxer(around element: SharedElement) -> SharedElement? {
        var parent = element.parent
        while let bin = parent {
            if !bin.sourcePads.isEmpty || bin.addsSourcePads { return bin }
            parent = bin.parent
        }
        return nil
    }

    /// Containers that are named after the sound which they mostly have.
    private static let soundContainers: Set = ["audio/x-m4a", "audio/ogg", "audio/webm", "audio/x-matroska"]

    private static let typesWithoutPictures = [
        "audio/", "text/", "subpicture/", "closedcaption/", "meta/", "application/x-ass", "application/x-ssa",
        "application/x-subtitle", "application/x-teletext", "application/ttml+xml",
    ]

    /// What elements that are no demuxers take off. Packed audio has a tag in front.
    private static let wrappers = EncryptedFormat.encryptedTypes.union(["application/x-id3", "application/x-apetag"])

    /// What is known of what leaves a pad. Pictures that come to its element do not end there if the caps say so: these may be of
    /// another stream that the element joins with them, and elements such as `capssetter` write what they are told to.
    private static func pictures(in pad: PadReference, after inherited: Pictures) -> Pictures {
        if inherited == .present { return .present }
        let own = pictures(in: pad)
        return own == .unknown ? inherited : own
    }

    /// What the caps tell.
    private static func pictures(in pad: PadReference) -> Pictures {
        let current = pad.currentCaps
        let caps = current ?? pad.templateCaps
        guard !caps.isAny, !caps.isEmpty else { return .unknown }
        let types = (0..<caps.count).map { caps.mediaType(at: $0) ?? "" }
        let isWithout = types.allSatisfy { type in
            !soundContainers.contains(type) && typesWithoutPictures.contains { type.hasPrefix($0) }
        }
        if isWithout { return .absent }
        if current == nil { return .unknown }
        return types.allSatisfy(wrappers.contains) ? .wrapped : .present
    }
}
