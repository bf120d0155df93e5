// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Glibc
import LatchkeyHTTP
import LatchkeyOffline
import Synchronization

/// Tells when the machine goes to sleep and when it wakes up, as logind says it (`PrepareForSleep`). Nothing comes on a
/// machine without a system bus. Ends with the last reference. Thread-safe.
public final class SleepWatch: Sendable {
    private let listener: SleepListener

    /// Calls `body` with true before the machine sleeps, and with false when it is awake again: on a thread of this watch,
    /// one call at a time.
    public init(_ body: @escaping @Sendable (Bool) -> Void) {
        listener = SleepListener(body)
        listener.start()
    }

    deinit { listener.stop() }
}

/// The thread of a watch, with its main loop. The thread keeps this.
private final class SleepListener: @unchecked Sendable {
    // SAFETY: constants; GLib's main contexts and loops are thread-safe.
    private let context = g_main_context_new()
    private let loop: OpaquePointer?
    fileprivate let body: @Sendable (Bool) -> Void

    init(_ body: @escaping @Sendable (Bool) -> Void) {
        loop = g_main_loop_new(context, 0)
        self.body = body
    }

    deinit {
        // What ends the loop, if the loop never ran.
        while g_main_context_iteration(context, 0) != 0 {}
        g_main_loop_unref(loop)
        g_main_context_unref(context)
    }

    func start() {
        // SAFETY: retained here, released by the thread, or below if there is no thread.
        let argument = Unmanaged.passRetained(self)
        var thread = pthread_t()
        let status = withSignalsBlocked {
            pthread_create(
                &thread, nil,
                { argument in
                    if let argument { Unmanaged<SleepListener>.fromOpaque(argument).takeRetainedValue().run() }
                    return nil
                }, argument.toOpaque())
        }
        if status == 0 { pthread_detach(thread) } else { argument.release() }
    }

    /// As a source of the loop: a loop that does not run yet cannot be ended otherwise.
    func stop() {
        let source = g_idle_source_new()
        g_source_set_callback(
            source,
            { loop in
                g_main_loop_quit(loop.map { OpaquePointer($0) })
                return 0
            }, g_main_loop_ref(loop).map { UnsafeMutableRawPointer($0) },
            { loop in g_main_loop_unref(loop.map { OpaquePointer($0) }) })
        g_source_attach(source, context)
        g_source_unref(source)
    }

    private func run() {
        g_main_context_push_thread_default(context)
        defer { g_main_context_pop_thread_default(context) }
        // GIO and what it connects with are loaded here. While the process exits, that would run GLib's constructors again.
        let opened = ExitGate.pass { BusLibrary.shared.flatMap { bus in bus.connect().map { (bus, $0) } } }
        guard let (bus, connection) = opened else { return }
        // SAFETY: the loop runs within this function, so that this object outlives the subscription.
        let subscription = bus.subscribe(
            connection, "org.freedesktop.login1", "org.freedesktop.login1.Manager", "PrepareForSleep",
            "/org/freedesktop/login1", nil, 0, sleepChanged, Unmanaged.passUnretained(self).toOpaque(), nil)
        g_main_loop_run(loop)
        bus.unsubscribe(connection, subscription)
        // Calls that are on their way.
        while g_main_context_iteration(context, 0) != 0 {}
        g_object_unref(connection)
    }
}

private func sleepChanged(
    _ connection: UnsafeMutableRawPointer?, _ sender: UnsafePointer<CChar>?, _ path: UnsafePointer<CChar>?,
    _ interface: UnsafePointer<CChar>?, _ signal: UnsafePointer<CChar>?, _ parameters: OpaquePointer?,
    _ listener: UnsafeMutableRawPointer?
) {
    guard let parameters, let listener, String(cString: g_variant_get_type_string(parameters)) == "(b)" else { return }
    let value = g_variant_get_child_value(parameters, 0)
    defer { g_variant_unref(value) }
    // SAFETY: the listener that `run` gave, which is still in it.
    Unmanaged<SleepListener>.fromOpaque(listener).takeUnretainedValue().body(g_variant_get_boolean(value) != 0)
}

/// The functions of GIO for D-Bus. GIO is loaded with the first watch: playing needs none of it.
private struct BusLibrary: @unchecked Sendable {
    typealias Connection = UnsafeMutableRawPointer
    typealias Text = UnsafePointer<CChar>?
    typealias Signal =
        @convention(c) (Connection?, Text, Text, Text, Text, OpaquePointer?, UnsafeMutableRawPointer?) -> Void
    typealias Failure = UnsafeMutablePointer<UnsafeMutablePointer<GError>?>?

    // SAFETY: the types are those of GIO 2.26, which has had these functions since.
    private let address: @convention(c) (Int32, OpaquePointer?, Failure) -> UnsafeMutablePointer<CChar>?
    private let open: @convention(c) (Text, UInt32, OpaquePointer?, OpaquePointer?, Failure) -> Connection?
    let subscribe:
        @convention(c) (
            Connection?, Text, Text, Text, Text, Text, UInt32, Signal?, UnsafeMutableRawPointer?,
            (@convention(c) (UnsafeMutableRawPointer?) -> Void)?
        ) -> UInt32
    let unsubscribe: @convention(c) (Connection?, UInt32) -> Void

    /// Nil if there is no GIO.
    static let shared = BusLibrary()

    private init?() {
        guard let library = dlopen("libgio-2.0.so.0", RTLD_LAZY),
            let address = dlsym(library, "g_dbus_address_get_for_bus_sync"),
            let open = dlsym(library, "g_dbus_connection_new_for_address_sync"),
            let subscribe = dlsym(library, "g_dbus_connection_signal_subscribe"),
            let unsubscribe = dlsym(library, "g_dbus_connection_signal_unsubscribe")
        else { return nil }
        self.address = unsafeBitCast(address, to: type(of: self.address))
        self.open = unsafeBitCast(open, to: type(of: self.open))
        self.subscribe = unsafeBitCast(subscribe, to: type(of: self.subscribe))
        self.unsubscribe = unsafeBitCast(unsubscribe, to: type(of: self.unsubscribe))
    }

    /// A connection of our own to the system bus: the end of that which a process shares may end the process.
    func connect() -> Connection? {
        var error: UnsafeMutablePointer<GError>?
        defer { g_clear_error(&error) }
        let systemBus: Int32 = 1
        let (authenticates, isBus): (UInt32, UInt32) = (1, 8)
        guard let address = address(systemBus, nil, &error) else { return nil }
        defer { g_free(address) }
        return open(address, authenticates | isBus, nil, nil, &error)
    }
}

/// Stops the downloads of this process before the machine sleeps, and goes on with them after. Thread-safe.
enum SleepingDownloads {
    private struct WeakCache: Sendable {
        weak let cache: ContentCache?
    }

    private struct State {
        var watch: SleepWatch?
        var caches: [WeakCache] = []
    }

    private static let state = Mutex(State())

    /// From now on, and as long as there is this cache.
    static func include(_ cache: ContentCache) {
        state.withLock { state in
            state.caches.removeAll { $0.cache == nil }
            if !state.caches.contains(where: { $0.cache === cache }) { state.caches.append(WeakCache(cache: cache)) }
            if state.watch == nil { state.watch = SleepWatch { tell($0) } }
        }
    }

    private static func tell(_ sleeps: Bool) {
        for cache in state.withLock({ $0.caches.compactMap(\.cache) }) {
            if sleeps { cache.suspendDownloads() } else { cache.resumeDownloads() }
        }
    }
}
