// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyGStreamer
import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyHTTP
public import LatchkeyKeySession
import LatchkeyProtection
import Synchronization

/// The KeySession that the elements of one pipeline share, with the settings that it was made from.
final class SharedSession: Sendable {
    let session: KeySession
    let settings: ControlSettings

    /// The application brought the session; settings from files and contexts do not apply to it.
    let isAttached: Bool

    init(_ session: KeySession, _ settings: ControlSettings, isAttached: Bool = true) {
        self.session = session
        self.settings = settings
        self.isAttached = isAttached
    }

    /// What the elements of the pipeline around `element` share while they are started.
    func playback(around element: ElementReference) -> KeyPlayback {
        session.playback(of: element.withTopLevel { UInt(bitPattern: $0) })
    }

    /// The type of the `GstContext`. Its structure may hold, set by the application, `license-url`, `keys-file`,
    /// `key-system` (strings) and `key-timeout` (milliseconds); the element that makes the session adds `session`.
    static let contextType = "latchkey.session"
    private static let sessionField = "session"
    private static let objectType = SharedObjectType<Reference>("LatchkeySharedSession")
    private static let ownedName = "latchkey.owned-session"

    /// What a context has of a session. Weak: stock elements leak contexts, and the pipeline owns the session.
    private final class Reference: @unchecked Sendable {
        // SAFETY: written by `init` alone; to read a weak reference is thread-safe.
        private(set) weak var shared: SharedSession?
        init(_ shared: SharedSession) { self.shared = shared }
    }

    /// The session of a pipeline, which lives as long as it.
    private final class Owned: Sendable {
        private let session = Mutex<SharedSession?>(nil)

        /// In the place of the one before, which goes with the elements that still use it.
        func set(_ shared: SharedSession) {
            let before = session.withLock { session in
                defer { session = shared }
                return session
            }
            // Its end may call out: not under the lock.
            withExtendedLifetime(before) {}
        }
    }

    /// The session of the pipeline around `element`: from a context, from another element, or a new one with the
    /// settings of the context and the configuration.
    static func obtain(for element: ElementReference) throws(KeyError) -> SharedSession {
        if let known = try current(element.context(type: contextType)) { return known.owned(byPipelineOf: element) }
        element.requestContext(type: contextType)
        let context = element.context(type: contextType)
        if let known = try current(context) { return known.owned(byPipelineOf: element) }

        let settings = try settings(from: context)
        // Settings that changed since make a new session; the old one goes with the elements that still use it.
        var configuration = try settings.makeConfiguration()
        let log = configuration.log
        configuration.log = { line in
            Decryptor.log.log(.warning, nil, line)
            log(line)
        }
        let shared = element.sharedInPipeline(contextType, while: { $0.settings == settings && !$0.session.isClosed }) {
            // What the application registered comes before what a file says.
            let session = KeySession(
                loaders: ResourceLoaderFactory.default.makeLoaders(), configuration: configuration)
            let transport = session.transport(over: CurlTransport.shared)
            for loader in settings.makeLoaders(transport: transport, sharesCertificates: true) {
                session.addLoader(loader)
            }
            return SharedSession(session, settings, isAttached: false)
        }
        if let published = Context(type: contextType, persistent: true, copying: context) {
            published.set(sessionField, Reference(shared), of: objectType)
            element.publish(published)
        }
        return shared
    }

    /// A context that carries a session which is there already. It does not keep the session.
    static func context(for shared: SharedSession) -> Context? {
        let context = Context(type: contextType, persistent: true)
        context?.set(sessionField, Reference(shared), of: objectType)
        return context
    }

    /// Another pipeline may have brought it, and may go first.
    private func owned(byPipelineOf element: ElementReference) -> SharedSession {
        element.sharedInPipeline(Self.ownedName) { Owned() }.set(self)
        return self
    }

    /// Lives as long as the element from now on.
    fileprivate func owned(by element: ElementReference) {
        element.ownObject(Self.ownedName) { Owned() }.set(self)
    }

    /// The session that a context brings, unless it is stale. Posts nothing.
    static func carried(by context: Context) -> KeySession? { (try? current(context))?.session }

    /// The context's session, unless settings have changed since it was made.
    private static func current(_ context: Context?) throws(KeyError) -> SharedSession? {
        guard let known = context?.object(sessionField, of: objectType)?.shared else { return nil }
        if known.isAttached { return known }
        let settings = try settings(from: context)
        // One that was closed, as that of a lost viewing session, gives way to a new one at the next start.
        return known.settings == settings && !known.session.isClosed ? known : nil
    }

    /// The context's settings come before the environment's keys file, and that before the configuration.
    fileprivate static func settings(from context: Context?) throws(KeyError) -> ControlSettings {
        var settings = try Configuration.load()
        if let path = Environment.variable("LATCHKEY_KEYS_FILE") { settings.keysFile = path }
        guard let context else { return settings }
        if let path = context.string("keys-file") { settings.keysFile = path }
        if let url = context.string("license-url") { settings.licenseURL = url }
        if let name = context.string("key-system") { settings.keySystem = try Configuration.keySystem(name) }
        if let timeout = context.uint("key-timeout") { settings.keyTimeout = .milliseconds(Int64(timeout)) }
        return settings
    }
}

/// Brings an application's session to a pipeline.
public enum PipelineSession {
    /// Warnings about files that others may read go to GStreamer's log.
    package static func logFileWarnings() {
        FileWarnings.setHandler { Decryptor.log.log(.warning, nil, $0) }
    }

    /// Makes the Latchkey elements in `element`, now and later, use `session`. Call it before the pipeline leaves
    /// READY. The pipeline keeps the session. `settings` are what the elements themselves go by, such as `keyTimeout`; no
    /// loaders are made of them. Thread-safe.
    public static func attach(
        _ session: KeySession, settings: ControlSettings = ControlSettings(),
        to element: UnsafeMutablePointer<GstElement>
    ) {
        let shared = SharedSession(session, settings)
        guard let context = SharedSession.context(for: shared) else { return }
        shared.owned(by: ElementReference(element))
        ElementReference(element).set(context)
        ContextAnswers.set(
            on: element, type: "drm-preferred-decryption-system-id", list: "available-stream-encryption-systems",
            field: "decryption-system-id"
        ) { [weak session] available in
            session?.preferredSystem(of: available.compactMap { ProtectionSystem(uuid: $0) })?.uuid
        }
    }

    /// What a pipeline without settings of its own would go by: the configuration file, and the environment's keys file.
    /// Throws `invalidConfiguration` for a file that cannot be used.
    public static func settings() throws(KeyError) -> ControlSettings { try SharedSession.settings(from: nil) }

    /// What a configuration file says, and nothing else. Throws `invalidConfiguration` for one that cannot be used.
    public static func settings(file: String) throws(KeyError) -> ControlSettings {
        try Configuration.read(file, required: true)
    }
}

extension StaticKeys {
    /// The keys that are named by a KID.
    var keysByID: [KeyID: ContentKey] {
        var keys: [KeyID: ContentKey] = [:]
        for entry in entries {
            if case .keyID(let keyID) = entry.subject { keys[keyID] = entry.key }
        }
        return keys
    }
}
