// SPDX-License-Identifier: MPL-2.0

import CLatchkeyWayland
import Glibc
import Synchronization

/// The functions of libwayland-client, in the copy that the application has loaded. Thread-safe, as they are.
///
/// An application with a `wl_display` to give has that library in the process. So it is neither linked nor loaded here:
/// machines without a compositor need none, and no second copy can come to the application's objects.
struct WaylandLibrary: @unchecked Sendable {
    typealias Display = UnsafeMutableRawPointer
    typealias Queue = UnsafeMutableRawPointer
    typealias Proxy = UnsafeMutableRawPointer
    typealias Interface = UnsafePointer<latchkey_wl_interface>

    // SAFETY: the types are those of wayland-client-core.h, Wayland 1.20. What the interfaces point to is constant.
    let getDescriptor: @convention(c) (Display) -> Int32
    let getError: @convention(c) (Display) -> Int32
    let flush: @convention(c) (Display) -> Int32
    let createQueue: @convention(c) (Display) -> Queue?
    let destroyQueue: @convention(c) (Queue) -> Void
    let prepareReadQueue: @convention(c) (Display, Queue) -> Int32
    let cancelRead: @convention(c) (Display) -> Void
    let readEvents: @convention(c) (Display) -> Int32
    let dispatchQueuePending: @convention(c) (Display, Queue) -> Int32
    let createWrapper: @convention(c) (Proxy) -> Proxy?
    let destroyWrapper: @convention(c) (Proxy) -> Void
    let setQueue: @convention(c) (Proxy, Queue) -> Void
    let marshal:
        @convention(c) (Proxy, UInt32, Interface?, UInt32, UInt32, UnsafeMutablePointer<latchkey_wl_argument>?) ->
            Proxy?
    let addDispatcher:
        @convention(c) (Proxy, latchkey_wl_dispatcher?, UnsafeRawPointer?, UnsafeMutableRawPointer?) -> Int32
    let destroyProxy: @convention(c) (Proxy) -> Void
    let getID: @convention(c) (Proxy) -> UInt32
    let getClass: @convention(c) (Proxy) -> UnsafePointer<CChar>
    let connect: @convention(c) (UnsafePointer<CChar>?) -> Display?
    let disconnect: @convention(c) (Display) -> Void
    let registryInterface: Interface
    let callbackInterface: Interface
    let surfaceInterface: Interface

    /// What is in the process, or, where `loads`, on the machine.
    init(loads: Bool = false) throws(OutputError) {
        let name = "libwayland-client.so.0"
        guard let library = dlopen(name, RTLD_LAZY | (loads ? 0 : RTLD_NOLOAD)) else {
            throw .noWayland(
                loads
                    ? "\(name) is not installed"
                    : "\(name) is not loaded in this process, so there can be no wl_display of it: link the "
                        + "application dynamically to libwayland-client")
        }
        // It stays loaded: objects of it are kept.
        func find<T>(_ symbol: String, as type: T.Type = T.self) throws(OutputError) -> T {
            guard let found = dlsym(library, symbol) else {
                throw .noWayland("\(name) has no \(symbol): Wayland 1.20 or later is needed")
            }
            return unsafeBitCast(found, to: type)
        }
        getDescriptor = try find("wl_display_get_fd")
        getError = try find("wl_display_get_error")
        flush = try find("wl_display_flush")
        createQueue = try find("wl_display_create_queue")
        destroyQueue = try find("wl_event_queue_destroy")
        prepareReadQueue = try find("wl_display_prepare_read_queue")
        cancelRead = try find("wl_display_cancel_read")
        readEvents = try find("wl_display_read_events")
        dispatchQueuePending = try find("wl_display_dispatch_queue_pending")
        createWrapper = try find("wl_proxy_create_wrapper")
        destroyWrapper = try find("wl_proxy_wrapper_destroy")
        setQueue = try find("wl_proxy_set_queue")
        marshal = try find("wl_proxy_marshal_array_flags")
        addDispatcher = try find("wl_proxy_add_dispatcher")
        destroyProxy = try find("wl_proxy_destroy")
        getID = try find("wl_proxy_get_id")
        getClass = try find("wl_proxy_get_class")
        connect = try find("wl_display_connect")
        disconnect = try find("wl_display_disconnect")
        registryInterface = try find("wl_registry_interface")
        callbackInterface = try find("wl_callback_interface")
        surfaceInterface = try find("wl_surface_interface")
    }

    /// Whether an object of the application's is of this interface.
    func isObject(_ proxy: Proxy, of interface: String) -> Bool { String(cString: getClass(proxy)) == interface }

    /// Sends a request. `creating`: the interface of the object that it makes, whose place in `arguments` is zero.
    @discardableResult
    func send(
        _ request: UInt32, to proxy: Proxy, creating: Interface? = nil, isDestructor: Bool = false,
        _ arguments: [latchkey_wl_argument] = []
    ) -> Proxy? {
        var arguments = arguments
        // 1 is WL_MARSHAL_FLAG_DESTROY.
        return marshal(proxy, request, creating, 1, isDestructor ? 1 : 0, &arguments)
    }
}

extension latchkey_wl_argument {
    init(number: UInt32) {
        self.init()
        u = number
    }

    init(object: UnsafeMutableRawPointer?) {
        self.init()
        o = object
    }

    init(text: UnsafePointer<CChar>?) {
        self.init()
        s = text
    }
}

/// The protocol weston_content_protection, version 1, as libwayland wants it described.
///
/// After weston-content-protection.xml of Weston 10 (copyright The Chromium Authors, Collabora, Intel; MIT license).
struct WestonProtocol: @unchecked Sendable {
    // SAFETY: made once for the process, never changed and never freed.
    let contentProtection: WaylandLibrary.Interface
    let protectedSurface: WaylandLibrary.Interface

    static let globalName = "weston_content_protection"

    /// Requests and events by their number.
    enum Global {
        static let destroy: UInt32 = 0
        static let getProtection: UInt32 = 1
    }

    enum Surface {
        static let destroy: UInt32 = 0
        static let setType: UInt32 = 1
        static let relax: UInt32 = 3
    }

    /// The enum `type` of weston_protected_surface. It has no order but what is known here.
    enum ProtectionType {
        static let unprotected: UInt32 = 0
        static let hdcp0: UInt32 = 1
        static let hdcp1: UInt32 = 2
    }

    private static let made = Mutex<WestonProtocol?>(nil)

    /// The one of the process, which has one libwayland-client.
    static func shared(_ library: WaylandLibrary) -> WestonProtocol {
        made.withLock { made in
            let shared = made ?? WestonProtocol(library)
            made = shared
            return shared
        }
    }

    private init(_ library: WaylandLibrary) {
        let none = Self.keep([WaylandLibrary.Interface?](repeating: nil, count: 1))
        let protectedSurface = Self.keep([
            latchkey_wl_interface(
                name: Self.text("weston_protected_surface"), version: 1, method_count: 4,
                methods: Self.keep([
                    Self.message("destroy", "", none), Self.message("set_type", "u", none),
                    Self.message("enforce", "", none), Self.message("relax", "", none),
                ]),
                event_count: 1, events: Self.keep([Self.message("status", "u", none)]))
        ])
        contentProtection = UnsafePointer(
            Self.keep([
                latchkey_wl_interface(
                    name: Self.text("weston_content_protection"), version: 1, method_count: 2,
                    methods: Self.keep([
                        Self.message("destroy", "", none),
                        Self.message(
                            "get_protection", "no",
                            Self.keep([UnsafePointer(protectedSurface), library.surfaceInterface])),
                    ]),
                    event_count: 0, events: nil)
            ]))
        self.protectedSurface = UnsafePointer(protectedSurface)
    }

    private static func message(
        _ name: StaticString, _ signature: StaticString,
        _ types: UnsafeMutablePointer<WaylandLibrary.Interface?>
    ) -> latchkey_wl_message {
        latchkey_wl_message(name: text(name), signature: text(signature), types: types)
    }

    private static func text(_ string: StaticString) -> UnsafePointer<CChar> {
        UnsafeRawPointer(string.utf8Start).assumingMemoryBound(to: CChar.self)
    }

    private static func keep<T>(_ values: [T]) -> UnsafeMutablePointer<T> {
        let memory = UnsafeMutablePointer<T>.allocate(capacity: values.count)
        memory.initialize(from: values, count: values.count)
        return memory
    }
}
