// SPDX-License-Identifier: MPL-2.0

import Glibc
public import LatchkeyKeySystems
public import LatchkeyProtection

/// What a session is made with beside its loaders.
public struct KeySessionConfiguration: Sendable {
    /// When leases are renewed.
    public var renewalPolicy = KeyRenewalPolicy()
    /// Makes and opens the keys of FairPlay-style exchanges. Nil: no SPC can be made.
    public var keyPayloadProvider: (any KeyPayloadProvider)?
    /// The anonymised device identifier, 20 bytes, for services that bind keys to a device. Nil: random in each request.
    public var deviceIdentifier: [UInt8]?
    /// Seals stored keys, as `DeviceSecret.keyForPersistableKeys` gives it. Nil: none can be stored.
    public var deviceSecret: SealingKey?
    /// The store whose trusted clock judges stored keys, also those that an application keeps. Nil: the user's own license
    /// store.
    public var persistableKeys: PersistableKeys?
    /// The user's own.
    var usersKeys: @Sendable () -> PersistableKeys? = { .ofUser }
    /// Where it is written down that sessions are over. Nil: nowhere.
    public var expiredSessionReports: ExpiredSessionReports?
    /// What becomes of keys in use whose lease, or license, ends. False: playback ends, at once. True: nothing more is
    /// decrypted, while what was decrypted plays on; the next sample asks for the key anew, and waits.
    public var holdsAtEndOfLease = false
    /// Whether keys are wanted to be stored, for playback later without a network, and nothing plays: as for a download. A
    /// loader that cannot store a key refuses it then (`KeyLoadingRequest.isForStorage`), and no time of a stored key that
    /// counts from the first playback begins. Only who stores keys ahead sets it: playback in such a session would begin no
    /// time that is to run.
    var isForStorage = false
    /// Whether only those keys are asked for ahead of the first sample that tracks use, where the media says so. False: all
    /// that its initialization data name, as those of other qualities and those that come later. True is for an application
    /// that acquires licenses by itself: it is not asked for keys that nothing needs.
    public var prefetchesUsedKeysOnly = false
    /// The session server that has to agree before licenses are asked for. Nil: no session server.
    public var viewing: ViewingConfiguration?
    /// Where it is written down which key servers send the code over a whole CKC, so that they have to send it after a
    /// restart too. Nil: this process alone remembers. `FairPlaySettings.apply` sets it.
    public var integrityStore: (any PersistableKeyStore)?
    /// Of this process.
    var integrityMemory = IntegritySenders.Memory.process
    /// The URL of media that a server of this process hands on, by the URL at that server; nil for others. Called on any thread;
    /// must not block.
    package var originalMediaURL: @Sendable (String) -> String? = { _ in nil }
    /// What ends the session if another process inspects this one: in the protected build. Nil: nothing does.
    var integrity = IntegrityWatch.standard
    /// Gets a line for each mistake that is not worth an error, as a request that is finished twice. No secret is in it.
    /// Called on any thread; must not block.
    public var log: @Sendable (String) -> Void = { _ in }
    /// Gets a line with the time that decryption took. Called as `log` is. Nil: no one reads it.
    package var decryptionLog: (@Sendable (String) -> Void)?

    /// No FairPlay-style keys, nothing stored, and no session server.
    public init() {}

    /// The store whose clock judges stored keys. Nil if none can be opened, or there is no place for a store.
    var storedKeyClock: PersistableKeys? { deviceSecret == nil ? nil : persistableKeys ?? usersKeys() }
}

extension KeySession {
    /// For `KeySessionConfiguration.decryptionLog`.
    package func logDecryption(_ line: @autoclosure () -> String) { configuration.decryptionLog?(line()) }
}

extension KeySessionConfiguration: Redacted {
    /// Says nothing of what is in it.
    public var description: String { "key session configuration" }
}

/// The time that a session lives by. Tests bring their own.
struct KeySessionClock: Sendable {
    /// Goes on while the system sleeps, and never back.
    var now: @Sendable () -> ContinuousClock.Instant
    /// In seconds since 1970-01-01 00:00 UTC, as the system has it.
    var date: @Sendable () -> Int64
    /// Waits without a thread, and throws when the task is cancelled.
    var sleep: @Sendable (_ deadline: ContinuousClock.Instant) async throws -> Void

    static let system = KeySessionClock(
        now: { ContinuousClock.now },
        date: { Int64(time(nil)) },
        sleep: { try await Task.sleep(until: $0, tolerance: .zero, clock: .continuous) })
}
