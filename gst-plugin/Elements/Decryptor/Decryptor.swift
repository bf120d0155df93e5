// SPDX-License-Identifier: MPL-2.0

import ElementKit
import KeySystems
import LicenseControl
import ProtectionModel
import SampleDecryption

/// The decryptor of samples, behind all four factories.
///
/// Buffers whose key is known go straight through, on the thread that brings them. A buffer whose key is missing goes
/// into a queue, and the source pad's own thread waits for the key: adaptive demuxers feed all their tracks from one
/// thread and stop it before they stop their children, so a wait on that thread could not be ended.
final class Decryptor: Element, @unchecked Sendable {
    // SAFETY: `flow` is guarded by `monitor`; `userSettings`, `sources`, `observation` and `counters` by `facts`. `stream`
    // belongs to whichever thread is the stream's at the moment: upstream's, or the source pad's while the queue is in
    // use.

    /// More than this waits upstream.
    static let queueByteLimit = 32 << 20
    static let queueDurationLimit: UInt64 = 30_000_000_000
    static let queueCountLimit = 20_000

    static let log = DebugCategory("latchkeydecryptor", "Latchkey's decryptors")

    let sinkPad: Pad
    let sourcePad: Pad

    /// Guards the data flow.
    let monitor = Monitor()
    /// Guards what properties and signals show. Never held while `monitor` is asked for: an application may read a
    /// property while GStreamer posts a message under `monitor`.
    let facts = Monitor()
    // Each has one owner at a time, as above, and no access lasts while another begins; the run-time check of that
    // would cost more than the rest of a sample's bookkeeping.
    @exclusivity(unchecked) var flow = FlowState()
    @exclusivity(unchecked) var stream = StreamState()
    private var userSettings = DecryptorSettings()
    private var sources: KeySources?
    private(set) var observation: KeyObservation?
    @exclusivity(unchecked) private var counters = DecryptorStatistics()

    /// The state of the data flow. Guarded by `monitor`.
    struct FlowState: ~Copyable {
        var isFlushing = true
        /// What downstream last said; returned to upstream when the source pad's thread got it.
        var result = FlowResult.ok
        /// An error message has told why `result` is a failure.
        var isFailureReported = false
        var queue = StreamItemQueue()
        /// The source pad's thread has the stream: nothing may overtake it.
        var isTaskActive = false
        var hasEnded = false
        /// Counts what happened to keys, so that no wake-up is missed.
        var keyEvents: UInt64 = 0
        /// Requests of this element that no loader took.
        var untaken: Set<UInt64> = []
        /// The stream has had caps: clear ones are taken from now on.
        var hasCaps = false
        /// KIDs that this element asked for: their fate is posted.
        var awaited: Set<KeyID?> = []
    }

    /// What belongs to the stream's thread.
    struct StreamState {
        var format: EncryptedFormat?
        var protection = SampleProtection()
        var keys: KeyRing?
        let output = OutputMemory()
    }

    required init(_ reference: ElementReference, _ description: ElementDescription) {
        sinkPad = Pad(DecryptorFactory.sinkTemplate(of: description), of: reference)
        sourcePad = Pad(DecryptorFactory.sourceTemplate, of: reference)
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
    var currentSources: KeySources? { facts.withLock { sources } }
    var currentSession: KeySession? { currentSources?.session }

    override func changeState(_ change: StateChange, perform: () -> StateChangeResult) -> StateChangeResult {
        switch change {
        case .readyToPaused:
            do {
                try start()
            } catch {
                DecryptorFailure.configuration(error).post(on: reference)
                return .failure
            }
        case .pausedToReady:
            beginFlush()
        default: break
        }
        let result = perform()
        if change == .pausedToReady || (change == .readyToPaused && result == .failure) { stop() }
        return result
    }

    private func start() throws(KeyError) {
        let settings = settings
        let shared = try SharedSession.obtain(for: reference)
        let weak = WeakElement(reference)
        let observation = shared.session.observe { event in
            weak.withElement { ($0 as? Decryptor)?.keyEvent(event) }
        }
        let sources: KeySources
        do {
            sources = try KeySources(settings: settings, shared: shared, observer: observation.id)
        } catch {
            observation.cancel()
            throw error
        }
        stream = StreamState()
        stream.keys = KeyRing(sources)
        monitor.withLock { flow.hasCaps = false }
        facts.withLock {
            self.sources = sources
            self.observation = observation
            counters = DecryptorStatistics()
        }
    }

    private func stop() {
        monitor.withLock {
            flow.queue.removeAll()
            flow.untaken.removeAll()
            flow.awaited.removeAll()
        }
        let observation = facts.withLock { () -> KeyObservation? in
            defer {
                self.observation = nil
                sources = nil
            }
            return self.observation
        }
        observation?.cancel()
        stream = StreamState()
    }
}
