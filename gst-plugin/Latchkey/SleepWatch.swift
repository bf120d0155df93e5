// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Glibc
import LatchkeyHTTP
import LatchkeyOffline
import Synchronization

/// Tells when the machine goes to sleep and when it wakes up, as logind says it (`PrepareForSleep`). Meanwhile it holds a
/// delay inhibitor of logind: the machine sleeps when what has to be done before is done, or could not be in 4 s. Nothing
/// comes on a machine without a system bus. Ends with the last reference. Thread-safe.
public final class SleepWatch: Sendable {
    private let listener: SleepListener

    /// Calls `body` with true before the machine sleeps, and with false when it is awake again: one call at a time, the next
    /// when the one before has returned.
    public init(_ body: @escaping @Sendable (Bool) async -> Void) {
        listener = SleepListener(body)
        listener.start()
    }

    deinit { listener.stop() }
}

/// What logind has said, one after the other. Ends with the last reference, when what has come before is told. Thread-safe.
final class SleepChanges: Sendable {
    private struct Change: Sendable {
        let isAboutToSleep: Bool
        let delay: SleepDelay?
    }

    private let changes: AsyncStream<Change>.Continuation
    private let untilLimit: @Sendable () async -> Void

    /// `untilLimit` returns when a sleep must not be delayed any longer: after 4 s, because logind waits for 5 s if it is not
    /// configured otherwise (`InhibitDelayMaxSec`).
    init(
        untilLimit: @escaping @Sendable () async -> Void = { try? await Task.sleep(for: .seconds(4)) },
        _ body: @escaping @Sendable (Bool) async -> Void
    ) {
        self.untilLimit = untilLimit
        let (stream, continuation) = AsyncStream.makeStream(of: Change.self)
        changes = continuation
        Task {
            for await change in stream {
                await body(change.isAboutToSleep)
                change.delay?.end()
            }
        }
    }

    deinit { changes.finish() }

    /// `delay` ends when the body has returned, and at the limit.
    func tell(_ isAboutToSleep: Bool, until delay: SleepDelay? = nil) {
        changes.yield(Change(isAboutToSleep: isAboutToSleep, delay: delay))
        guard let delay else { return }
        Task { [untilLimit] in
            await untilLimit()
            delay.end()
        }
    }
}

/// A delay inhibitor: as long as its descriptor is open, logind waits with the sleep. Thread-safe.
final class SleepDelay: Sendable {
    private let descriptor: Mutex<Int32?>

    init(owning descriptor: Int32) { self.descriptor = Mutex(descriptor) }

    deinit { end() }

    func end() {
        let open = descriptor.withLock { descriptor -> Int32? in
            defer { descriptor = nil }
            return descriptor
        }
        if let open { close(open) }
    }
}

/// The thread of a watch, with its main loop. The thread keeps this.
private final class SleepListener: @unchecked Sendable {
    // SAFETY: constants; GLib's main contexts and loops are thread-safe.
    private let context = g_main_context_new()
    private let loop: OpaquePointer?
    private let changes: SleepChanges
    // SAFETY: what follows is used on the thread alone.
    private var link: (bus: BusLibrary, connection: BusLibrary.Connection)?
    /// What logind gave for the next sleep.
    private var delay: SleepDelay?
    /// Cancels the request for a delay that is under way.
    private var request: BusLibrary.Object?
    private var isAsleep = false

    init(_ body: @escaping @Sendable (Bool) async -> Void) {
        loop = g_main_loop_new(context, 0)
        changes = SleepChanges(body)
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
        link = (bus, connection)
        // SAFETY: the loop runs within this function, so that this object outlives the subscription.
        let subscription = bus.subscribe(
            connection, BusLibrary.logind, BusLibrary.manager, "PrepareForSleep", BusLibrary.path, nil, 0, sleepChanged,
            Unmanaged.passUnretained(self).toOpaque(), nil)
        // Behind the subscription: if logind delays a sleep for this process, the process hears of it.
        takeDelay()
        g_main_loop_run(loop)
        bus.unsubscribe(connection, subscription)
        // An answer that comes later would delay each sleep, as long as the process runs.
        if let request { bus.cancel(request) }
        while request != nil { g_main_context_iteration(context, 1) }
        // Calls that are on their way.
        while g_main_context_iteration(context, 0) != 0 {}
        (delay, link) = (nil, nil)
        g_object_unref(connection)
    }

    /// Unless there is one, or is asked for.
    private func takeDelay() {
        guard let link, delay == nil, request == nil, let cancellable = link.bus.makeCancellable() else { return }
        request = cancellable
        // SAFETY: `run` returns behind the answer.
        link.bus.inhibitSleep(
            link.connection, "Ends viewing sessions and stops downloads", cancellable, delayAnswered,
            Unmanaged.passUnretained(self).toOpaque())
    }

    fileprivate func answered(_ result: BusLibrary.Object) {
        let descriptor = link.flatMap { $0.bus.descriptor($0.connection, result) }
        if let request { g_object_unref(request) }
        request = nil
        // One that comes in the middle of a sleep is of no use, and is let go here.
        let new = descriptor.map { SleepDelay(owning: $0) }
        if !isAsleep { delay = new }
    }

    fileprivate func changed(_ isAboutToSleep: Bool) {
        isAsleep = isAboutToSleep
        guard isAboutToSleep else {
            changes.tell(false)
            return takeDelay()
        }
        let taken = delay
        delay = nil
        changes.tell(true, until: taken)
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
    Unmanaged<SleepListener>.fromOpaque(listener).takeUnretainedValue().changed(g_variant_get_boolean(value) != 0)
}

private func delayAnswered(
    _ connection: UnsafeMutableRawPointer?, _ result: UnsafeMutableRawPointer?, _ listener: UnsafeMutableRawPointer?
) {
    guard let result, let listener else { return }
    // SAFETY: the listener that `takeDelay` gave, which is still in `run`.
    Unmanaged<SleepListener>.fromOpaque(listener).takeUnretainedValue().answered(result)
}

/// The functions of GIO for D-Bus. GIO is loaded with the first watch: playing needs none of it.
private struct BusLibrary: @unchecked Sendable {
    /// One of GObject.
    typealias Object = UnsafeMutableRawPointer
    typealias Connection = Object
    typealias Text = UnsafePointer<CChar>?
    typealias Signal =
        @convention(c) (Connection?, Text, Text, Text, Text, OpaquePointer?, UnsafeMutableRawPointer?) -> Void
    typealias Ready = @convention(c) (Object?, Object?, UnsafeMutableRawPointer?) -> Void
    typealias Failure = UnsafeMutablePointer<UnsafeMutablePointer<GError>?>?

    static let logind = "org.freedesktop.login1"
    static let manager = "org.freedesktop.login1.Manager"
    static let path = "/org/freedesktop/login1"

    // SAFETY: the types are those of GIO 2.30, which has had these functions since.
    private let address: @convention(c) (Int32, OpaquePointer?, Failure) -> UnsafeMutablePointer<CChar>?
    private let open: @convention(c) (Text, UInt32, OpaquePointer?, OpaquePointer?, Failure) -> Connection?
    let subscribe:
        @convention(c) (
            Connection?, Text, Text, Text, Text, Text, UInt32, Signal?, UnsafeMutableRawPointer?,
            (@convention(c) (UnsafeMutableRawPointer?) -> Void)?
        ) -> UInt32
    let unsubscribe: @convention(c) (Connection?, UInt32) -> Void
    let makeCancellable: @convention(c) () -> Object?
    let cancel: @convention(c) (Object?) -> Void
    private let call:
        @convention(c) (
            Connection?, Text, Text, Text, Text, OpaquePointer?, OpaquePointer?, UInt32, Int32, Object?, Object?,
            Ready?, UnsafeMutableRawPointer?
        ) -> Void
    private let finish: @convention(c) (Connection?, UnsafeMutablePointer<Object?>?, Object?, Failure) -> OpaquePointer?
    private let count: @convention(c) (Object?) -> Int32
    private let duplicate: @convention(c) (Object?, Int32, Failure) -> Int32

    /// Nil if there is no GIO.
    static let shared = BusLibrary()

    private init?() {
        guard let library = dlopen("libgio-2.0.so.0", RTLD_LAZY),
            let address = dlsym(library, "g_dbus_address_get_for_bus_sync"),
            let open = dlsym(library, "g_dbus_connection_new_for_address_sync"),
            let subscribe = dlsym(library, "g_dbus_connection_signal_subscribe"),
            let unsubscribe = dlsym(library, "g_dbus_connection_signal_unsubscribe"),
            let makeCancellable = dlsym(library, "g_cancellable_new"),
            let cancel = dlsym(library, "g_cancellable_cancel"),
            let call = dlsym(library, "g_dbus_connection_call_with_unix_fd_list"),
            let finish = dlsym(library, "g_dbus_connection_call_with_unix_fd_list_finish"),
            let count = dlsym(library, "g_unix_fd_list_get_length"),
            let duplicate = dlsym(library, "g_unix_fd_list_get")
        else { return nil }
        self.address = unsafeBitCast(address, to: type(of: self.address))
        self.open = unsafeBitCast(open, to: type(of: self.open))
        self.subscribe = unsafeBitCast(subscribe, to: type(of: self.subscribe))
        self.unsubscribe = unsafeBitCast(unsubscribe, to: type(of: self.unsubscribe))
        self.makeCancellable = unsafeBitCast(makeCancellable, to: type(of: self.makeCancellable))
        self.cancel = unsafeBitCast(cancel, to: type(of: self.cancel))
        self.call = unsafeBitCast(call, to: type(of: self.call))
        self.finish = unsafeBitCast(finish, to: type(of: self.finish))
        self.count = unsafeBitCast(count, to: type(of: self.count))
        self.duplicate = unsafeBitCast(duplicate, to: type(of: self.duplicate))
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

    /// Asks logind for a delay inhibitor. Starts no logind where none runs. `ready` is called in any case, by the main context
    /// that is the thread's default.
    func inhibitSleep(
        _ connection: Connection, _ reason: String, _ cancellable: Object, _ ready: Ready,
        _ data: UnsafeMutableRawPointer
    ) {
        let startsNothing: UInt32 = 1
        let texts = ["sleep", "Latchkey", reason, "delay"].map { (text: String) -> OpaquePointer? in
            g_variant_new_string(text)
        }
        // SAFETY: the call takes the tuple, and the tuple the texts.
        call(
            connection, Self.logind, Self.path, Self.manager, "Inhibit",
            g_variant_new_tuple(texts, gsize(texts.count)), nil, startsNothing, -1, nil, cancellable, ready, data)
    }

    /// The descriptor that logind gave, which is the caller's; nil if it gave none, whatever its answer is.
    func descriptor(_ connection: Connection, _ result: Object) -> Int32? {
        var error: UnsafeMutablePointer<GError>?
        var list: Object?
        defer { g_clear_error(&error) }
        guard let answer = finish(connection, &list, result, &error) else { return nil }
        defer {
            g_variant_unref(answer)
            if let list { g_object_unref(list) }
        }
        guard let descriptors = list, String(cString: g_variant_get_type_string(answer)) == "(h)" else { return nil }
        let value = g_variant_get_child_value(answer, 0)
        defer { g_variant_unref(value) }
        // The answer may name one that did not come with it.
        let index = g_variant_get_handle(value)
        guard index >= 0, index < count(descriptors) else { return nil }
        let descriptor = duplicate(descriptors, index, &error)
        return descriptor < 0 ? nil : descriptor
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
            if state.watch == nil { state.watch = SleepWatch { await tell($0) } }
        }
    }

    /// Returns when what was to stop has stopped.
    private static func tell(_ isAboutToSleep: Bool) async {
        let caches = state.withLock { $0.caches.compactMap(\.cache) }
        for cache in caches {
            if isAboutToSleep { cache.suspendDownloads() } else { cache.resumeDownloads() }
        }
        if isAboutToSleep { for cache in caches { await cache.suspendDownloadsAndWait() } }
    }
}
