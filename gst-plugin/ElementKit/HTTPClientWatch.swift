// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Glibc
import Synchronization

/// What GStreamer's HTTP client got for one request, when the head of the answer is there. A value; thread-safe.
public struct HTTPClientAnswer: Sendable {
    /// Of the request, as the watch was given it at the start.
    public var id: UInt = 0
    /// Which thread of the client brought it. Each adaptive demuxer has one of its own.
    public var thread: UInt = 0
    /// Of the request; it may hold a query and user information.
    public var url: String
    public var status: UInt32
    /// `Referer` of the request: the adaptive demuxers send the URL of their manifest.
    public var referrer: String?
    /// `Content-Type` of the answer.
    public var contentType: String?
    /// Since the request was started, in nanoseconds; nil where that was not seen.
    public var elapsed: UInt64?
    /// `Content-Length` of the answer, in bytes.
    public var length: UInt64?
    /// `Content-Range` of the answer.
    public var range: String?
    /// The whole answer is there, or is given up; false: its head is.
    public var isFinished: Bool
}

/// Sees what GStreamer's HTTP client, libsoup 3, fetches in this process: for `souphttpsrc` and for the adaptive
/// demuxers, which fetch by themselves and report only to the log.
///
/// The signals of `SoupMessage` are watched, and nothing of libsoup is linked. With libsoup 2.4, nothing is seen. `body`
/// is called on the client's threads and must not block. Ends with the last reference to it.
public final class HTTPClientWatch: Sendable {
    private let id: UInt64

    private struct Watch {
        var onStart: (@Sendable (UInt, String) -> Void)?
        var onAnswer: @Sendable (HTTPClientAnswer) -> Void
    }

    private struct State {
        var watches: [UInt64: Watch] = [:]
        var lastID: UInt64 = 0
        var isHooked = false
        /// When requests were started, by the address of their message.
        var starts: [UInt: UInt64] = [:]
    }

    private static let state = Mutex(State())
    /// Requests under way that are timed, at most.
    private static let startLimit = 1024

    /// Nil if the client is not libsoup 3. `onStart` gets the ID and the URL of each request, maybe more than once: when it
    /// begins to resolve or connect, when it is sent, and at each redirect. The ID is that of no other request until the
    /// answer is finished.
    public init?(
        _ body: @escaping @Sendable (HTTPClientAnswer) -> Void, onStart: (@Sendable (UInt, String) -> Void)? = nil
    ) {
        GStreamer.initialize()
        guard Self.hook() else { return nil }
        id = Self.state.withLock { state in
            state.lastID += 1
            state.watches[state.lastID] = Watch(onStart: onStart, onAnswer: body)
            return state.lastID
        }
    }

    deinit {
        // Its owner goes after the lock.
        let body = Self.state.withLock { $0.watches.removeValue(forKey: id) }
        withExtendedLifetime(body) {}
    }

    /// Watches the signals, once in the process: the type stays for ever.
    private static func hook() -> Bool {
        if state.withLock({ $0.isHooked }) { return true }
        var type = g_type_from_name("SoupMessage")
        if type == 0, let factory = gst_element_factory_find("souphttpsrc") {
            // The element's plug-in brings the client along.
            if let loaded = ek_load_feature(UnsafeMutableRawPointer(factory)) { gst_object_unref(loaded) }
            gst_object_unref(UnsafeMutableRawPointer(factory))
            type = Soup.messageType
        }
        guard type != 0, let objectClass = g_type_class_ref(type) else { return false }
        defer { g_type_class_unref(objectClass) }
        let uri = g_object_class_find_property(ek_gobject_class(objectClass), "uri")
        guard let uri, uri.pointee.value_type == g_uri_get_type() else { return false }
        return state.withLock { state in
            guard !state.isHooked else { return true }
            state.isHooked = true
            for (name, stage) in [("starting", 0), ("got-headers", 1), ("finished", 2), ("network-event", 3)] {
                let signal = g_signal_lookup(name, type)
                guard signal != 0 else { continue }
                g_signal_add_emission_hook(signal, 0, messageSignal, UnsafeMutableRawPointer(bitPattern: stage), nil)
            }
            return true
        }
    }

    fileprivate static func note(_ message: UnsafeMutableRawPointer, stage: Int) {
        let address = UInt(bitPattern: message)
        if stage == 0 || stage == 3 {
            let bodies = state.withLock { state -> [@Sendable (UInt, String) -> Void] in
                // Further steps of a connection, which comes before the start if there is none yet.
                if stage == 3, state.starts[address] != nil { return [] }
                if state.watches.isEmpty || state.starts.count >= startLimit { state.starts = [:] }
                if !state.watches.isEmpty { state.starts[address] = MonotonicTime.now }
                return state.watches.values.compactMap(\.onStart)
            }
            guard !bodies.isEmpty, let url = Soup.answer(of: message)?.url else { return }
            for body in bodies { body(address, url) }
            return
        }
        let (start, bodies) = state.withLock { state in
            (
                stage == 2 ? state.starts.removeValue(forKey: address) : state.starts[address],
                state.watches.values.map(\.onAnswer)
            )
        }
        guard !bodies.isEmpty, var answer = Soup.answer(of: message) else { return }
        answer.elapsed = start.map { MonotonicTime.now &- $0 }
        answer.isFinished = stage == 2
        answer.id = address
        answer.thread = UInt(bitPattern: g_thread_self())
        for body in bodies { body(answer) }
    }
}

private let messageSignal: GSignalEmissionHook = { _, count, values, data in
    guard count > 0, let values, let message = g_value_get_object(values) else { return 1 }
    HTTPClientWatch.note(message, stage: Int(bitPattern: data))
    return 1
}

/// The client's functions, found in the process where its library is loaded.
private enum Soup {
    private typealias GetType = @convention(c) () -> GType
    private typealias GetField = @convention(c) (OpaquePointer?, UnsafePointer<CChar>?) -> UnsafePointer<CChar>?

    // SAFETY: the types are those that libsoup 3 documents for the functions.
    private static let getField = symbol("soup_message_headers_get_one").map { unsafeBitCast($0, to: GetField.self) }

    /// The type of its messages; 0 where the library is not loaded.
    static var messageType: GType {
        // SAFETY: as above.
        symbol("soup_message_get_type").map { unsafeBitCast($0, to: GetType.self)() } ?? 0
    }

    /// In the library that is loaded already; this loads nothing.
    private static func symbol(_ name: String) -> UnsafeMutableRawPointer? {
        guard let library = dlopen("libsoup-3.0.so.0", RTLD_LAZY | RTLD_NOLOAD) else { return nil }
        defer { dlclose(library) }
        return dlsym(library, name)
    }

    static func answer(of message: UnsafeMutableRawPointer) -> HTTPClientAnswer? {
        let object = message.assumingMemoryBound(to: GObject.self)
        var uri = GValue()
        g_value_init(&uri, g_uri_get_type())
        g_object_get_property(object, "uri", &uri)
        defer { g_value_unset(&uri) }
        guard let boxed = g_value_get_boxed(&uri), let text = g_uri_to_string(OpaquePointer(boxed)) else { return nil }
        defer { g_free(text) }
        var status = GValue()
        g_value_init(&status, ek_type_uint())
        g_object_get_property(object, "status-code", &status)
        defer { g_value_unset(&status) }
        let length = field("Content-Length", "response-headers", of: object).flatMap { UInt64($0) }
        return HTTPClientAnswer(
            url: String(cString: text), status: g_value_get_uint(&status),
            referrer: field("Referer", "request-headers", of: object),
            contentType: field("Content-Type", "response-headers", of: object), elapsed: nil, length: length,
            range: field("Content-Range", "response-headers", of: object), isFinished: false)
    }

    private static func field(_ name: String, _ list: String, of object: UnsafeMutablePointer<GObject>) -> String? {
        let objectClass = ek_gobject_class(ek_object_class(object))
        guard let getField, let property = g_object_class_find_property(objectClass, list) else { return nil }
        var value = GValue()
        g_value_init(&value, property.pointee.value_type)
        g_object_get_property(object, list, &value)
        defer { g_value_unset(&value) }
        return g_value_get_boxed(&value).flatMap { getField(OpaquePointer($0), name) }.map { String(cString: $0) }
    }
}
