// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection

/// What all decryptors share: the way of buffers and events, the wait for keys, settings and the session.
///
/// Buffers whose key is known go straight through, on the thread that brings them. A buffer whose key is missing goes
/// into a queue, and the source pad's own thread waits for the key: adaptive demuxers feed all their tracks from one
/// thread and stop it before they stop their children, so a wait on that thread could not be ended.
class Decryptor: Element, @unchecked Sendable {
    // SAFETY: `flow` is guarded by `monitor`; `userSettings`, `sources`, `route`, `observation` and `counters` by `facts`.
    // `stream` belongs to whichever thread is the stream's at the moment: upstream's, or the source pad's while the queue
    // is in use.

    /// More than this waits upstream. Inside an adaptive demuxer, whose thread serves all tracks, only bytes count.
    static let queueByteLimit = 32 << 20
    /// The same while the demuxer around the element is asked to seek: its thread has to come out.
    static let queueByteLimitAtSeek = 128 << 20
    static let queueDurationLimit: UInt64 = 30_000_000_000
    static let queueCountLimit = 20_000

    static let log = DebugCategory("latchkeydecryptor", "Latchkey's decryptors")

    let sinkPad: Pad
    let sourcePad: Pad

    /// Guards the data flow. Never held where a message may be posted.
    let monitor = Monitor()
    /// Guards what properties and signals show. Never held while `monitor` is asked for.
    let facts = Monitor()
    // Each has one owner at a time, as above, and no access lasts while another begins; the run-time check of that
    // would cost more than the rest of a sample's bookkeeping.
    @exclusivity(unchecked) var flow = FlowState()
    @exclusivity(unchecked) var stream = StreamState()
    private var userSettings = DecryptorSettings()
    private var sources: KeySources?
    private var route: PictureRoute?
    private(set) var observation: KeyObservation?
    @exclusivity(unchecked) private var counters = DecryptorStatistics()
    /// Looks whether playback begins after a wrong key was told. Guarded by `facts`.
    var startWatch: Task<Void, Never>?

    /// The state of the data flow. Guarded by `monitor`.
    struct FlowState: ~Copyable {
        var isFlushing = true
        /// The source pad is active: its thread may be started.
        var isActive = false
        /// What downstream last said; returned to upstream when the source pad's thread got it.
        var result = FlowResult.ok
        /// An error message has told why `result` is a failure.
        var isFailureReported = false
        var queue = StreamItemQueue()
        /// The source pad's thread has the stream: nothing may overtake it.
        var isTaskActive = false
        var hasEnded = false
        /// What the adaptive demuxer said too early.
        var heldEnd: HeldEnd?
        /// The demuxer around the element was asked to seek; what is in the queue is about to be flushed.
        var isSeekExpected = false
        /// A thread waits for a key.
        var isAwaitingKey = false
        /// Counts what happened to keys, so that no wake-up is missed.
        var keyEvents: UInt64 = 0
        /// The stream has had caps: clear ones are taken from now on.
        var hasCaps = false
        /// Keys whose end was told.
        var expired: Set<KeyID?> = []
        /// KIDs that this element asked for: their fate is posted.
        var awaited: Set<KeyID?> = []
        /// Messages about their fate that are being posted.
        var settling = 0
    }

    /// What belongs to the stream's thread.
    struct StreamState {
        var keys: KeyRing?
        let output = OutputMemory()
        var doubt = SampleDoubt()
    }

    required init(_ reference: ElementReference, _ description: ElementDescription) {
        sinkPad = Pad(DecryptorFactory.template(.sink, of: description), of: reference)
        sourcePad = Pad(DecryptorFactory.template(.source, of: description), of: reference)
        super.init(reference, description)
        sinkPad.onChain { [unowned self] in self.chain($0) }
        sinkPad.onEvent { [unowned self] in self.sinkEvent($0) }
        sinkPad.onQuery { [unowned self] in self.sinkQuery($0) }
        sinkPad.onActivation { [unowned self] in self.sinkActivation($0) }
        sourcePad.onQuery { [unowned self] in self.sourceQuery($0) }
        sourcePad.onActivation { [unowned self] in self.sourceActivation($0) }
        sourcePad.onTask { [unowned self] in self.loop() }
        add(sinkPad)
        add(sourcePad)
    }

    var settings: DecryptorSettings { facts.withLock { userSettings } }
    func changeSettings(_ body: (inout DecryptorSettings) -> Void) { facts.withLock { body(&userSettings) } }
    var statistics: DecryptorStatistics { facts.withLock { counters } }
    func count(_ body: (inout DecryptorStatistics) -> Void) { facts.withLock { body(&counters) } }
    func countDecrypted(_ size: Int, since start: UInt64) {
        let elapsed = MonotonicTime.now &- start
        count {
            $0.samplesDecrypted &+= 1
            $0.bytesDecrypted &+= UInt64(size)
            $0.decryptTime &+= elapsed
        }
    }

    var currentSources: KeySources? { facts.withLock { sources } }
    var currentSession: KeySession? { currentSources?.session }

    // MARK: What each kind does its own way, on the stream's thread

    /// What became of a buffer.
    enum Prepared: ~Copyable {
        case ready(Buffer)
        /// The first goes on, and then what comes of the second.
        case partly(Buffer, rest: Buffer)
        /// More is needed before anything can go on.
        case nothing
        /// The buffer is to be prepared again when the key is there.
        case missingKey(Buffer, KeyID?)
        case failed(DecryptorFailure)
    }

    /// Decrypts what is encrypted.
    func prepare(_ buffer: consuming Buffer) -> Prepared { .ready(buffer) }

    /// Completes what is held back, in front of this event.
    func complete(before event: borrowing Event) -> Prepared { .nothing }

    /// Takes new caps into use. Returns those of the clear media; nil where there are none.
    func adopt(_ caps: Caps) -> Caps? { caps }

    /// Passes an event on when its turn has come.
    func pass(_ event: consuming Event) -> Bool {
        guard let caps = event.caps else { return sourcePad.push(event) }
        guard let clear = adopt(caps) else { return false }
        monitor.withLock { flow.hasCaps = true }
        return sourcePad.push(Event(caps: clear))
    }

    /// Keeps a sticky event that a flush took out of the queue.
    func keep(_ event: consuming Event) {
        guard let caps = event.caps else { return sourcePad.store(event) }
        guard let clear = adopt(caps) else { return }
        monitor.withLock { flow.hasCaps = true }
        sourcePad.store(Event(caps: clear))
    }

    /// The bytes that are held back do not belong to what comes next.
    func flushStream() {}

    /// A start or a stop.
    func resetStream() { stream = StreamState() }

    func sinkQuery(_ query: borrowing Query) -> Bool? { nil }
    func sourceQuery(_ query: borrowing Query) -> Bool? { nil }

    /// Whether something waits in here, as for a key.
    var isBehind: Bool { monitor.withLock { flow.isTaskActive } }

    /// Whether the source has nothing to give at the moment, as on a slow network.
    var isStarved: Bool { false }

    /// Whether the stream has had caps.
    var hasStarted: Bool { monitor.withLock { flow.hasCaps } }

    // MARK: States

    override func changeState(_ change: StateChange, perform: () -> StateChangeResult) -> StateChangeResult {
        switch change {
        case .readyToPaused:
            guard startUnlessStarted() else { return .failure }
        case .pausedToPlaying:
            currentSources?.setPlaying(true)
        case .playingToPaused:
            currentSources?.setPlaying(false)
        case .pausedToReady:
            beginFlush()
        default: break
        }
        let result = perform()
        if change == .pausedToReady || (change == .readyToPaused && result == .failure) { stop() }
        return result
    }

    /// In pull mode, what is behind starts this element, before its own state changes.
    func startUnlessStarted() -> Bool {
        guard currentSources == nil else { return true }
        do throws(KeyError) {
            try start()
            return true
        } catch {
            DecryptorFailure.configuration(error).post(on: reference)
            return false
        }
    }

    private func start() throws(KeyError) {
        let settings = settings
        let shared = try SharedSession.obtain(for: reference)
        UntoldNotices.tell(on: reference)
        shared.session.reportTeardown(on: reference)
        try GuardElement.joinAll(around: reference, shared.session)
        let weak = WeakElement(reference)
        let observation = shared.session.observe { event in
            weak.withElement { ($0 as? Decryptor)?.keyEvent(event) }
        }
        let source = PadReference(sharing: sourcePad.pointer)
        let route = PictureRoute(from: source, session: shared.session) { keyID, error in
            weak.withElement { ($0 as? Decryptor)?.end(keyID, because: error) }
        }
        let sources: KeySources
        do {
            sources = try KeySources(
                settings: settings, shared: shared, playback: shared.playback(around: reference),
                observer: observation.id,
                streamURL: {
                    weak.map { $0.reference.pad("sink")?.peerURI()?.base } ?? nil
                },
                openRoute: { [weak route] in route?.refusal(of: $0) }
            ) { keyID in
                weak.withElement { ($0 as? Decryptor)?.tellWrongKey(keyID, because: Self.otherChecksum) }
            }
        } catch {
            observation.cancel()
            throw error
        }
        resetStream()
        stream.keys = KeyRing(sources)
        monitor.withLock { flow.hasCaps = false }
        facts.withLock {
            self.sources = sources
            self.route = route
            self.observation = observation
            counters = DecryptorStatistics()
        }
    }

    private static let otherChecksum = "it has another checksum than the content's PlayReady header says"

    /// How long stopping waits for a disk that is slow to note first plays, in milliseconds.
    private static let notingTime: UInt64 = 2000

    private func stop() {
        endStartWatch()
        monitor.withLock {
            flow.queue.removeAll()
            flow.awaited.removeAll()
            flow.expired.removeAll()
        }
        let (observation, sources, route) = facts.withLock { () -> (KeyObservation?, KeySources?, PictureRoute?) in
            defer {
                self.observation = nil
                self.sources = nil
                self.route = nil
            }
            return (self.observation, self.sources, self.route)
        }
        route?.forget()
        sources?.waitForPlayNotes(milliseconds: Self.notingTime)
        sources?.end()
        observation?.cancel()
        resetStream()
    }
}
