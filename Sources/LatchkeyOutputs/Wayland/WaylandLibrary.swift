// SPDX-License-Identifier: MPL-2.0

import CLatchkeyWayland
import Glibc

/// The functions of libwayland-client, in the copy that the application has loaded. Thread-safe, as they are.
///
/// Whoever has a `wl_display` to give has that library in the process. So it is neither linked nor loaded here: machines
/// without a compositor need none, and no second copy can come to the application's objects.
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
