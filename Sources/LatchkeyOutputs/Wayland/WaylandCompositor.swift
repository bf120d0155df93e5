// SPDX-License-Identifier: MPL-2.0

import CLatchkeyWayland
import Glibc

/// The Wayland compositor that the environment names (`WAYLAND_DISPLAY`, `WAYLAND_SOCKET`).
public enum WaylandCompositor {
    /// Whether it offers weston_content_protection, by a connection of its own. `socket`: the path of another's. Waits for
    /// at most `deadline`; not for streaming threads. Throws why it cannot be said.
    public static func offersContentProtection(
        socket: String? = nil, deadline: Duration = .seconds(2)
    ) throws(OutputError) -> Bool {
        let library = try WaylandLibrary(loads: true)
        guard let display = library.connect(socket) else {
            throw .noWayland("the compositor cannot be reached: \(OutputError.text(of: errno))")
        }
        defer { library.disconnect(display) }
        let visit = Visit(library)
        defer { withExtendedLifetime(visit) {} }
        return try visit.look(display, until: .now + deadline)
    }

    private final class Visit {
        private let library: WaylandLibrary
        private var registry: WaylandLibrary.Proxy?
        private var answer: WaylandLibrary.Proxy?
        private var isOffered = false
        private var isAnswered = false

        init(_ library: WaylandLibrary) { self.library = library }

        func look(_ display: WaylandLibrary.Display, until end: ContinuousClock.Instant) throws(OutputError) -> Bool {
            guard let queue = library.createQueue(display), let wrapper = library.createWrapper(display) else {
                throw .noWayland("there is no memory for an event queue")
            }
            library.setQueue(wrapper, queue)
            registry = library.send(1, to: wrapper, creating: library.registryInterface, [.init(object: nil)])
            answer = library.send(0, to: wrapper, creating: library.callbackInterface, [.init(object: nil)])
            library.destroyWrapper(wrapper)
            defer {
                for proxy in [registry, answer].compactMap(\.self) { library.destroyProxy(proxy) }
                library.destroyQueue(queue)
            }
            for proxy in [registry, answer].compactMap(\.self) {
                _ = library.addDispatcher(proxy, hearEvent, Unmanaged.passUnretained(self).toOpaque(), nil)
            }
            while !isAnswered {
                while library.prepareReadQueue(display, queue) != 0 { _ = library.dispatchQueuePending(display, queue) }
                _ = library.flush(display)
                var state = pollfd(fd: library.getDescriptor(display), events: Int16(POLLIN), revents: 0)
                let left = ContinuousClock.now.duration(to: end) / Duration.milliseconds(1)
                guard poll(&state, 1, Int32(max(0, min(left, 60_000)))) == 1 else {
                    library.cancelRead(display)
                    throw .noWayland("the compositor does not answer")
                }
                guard library.readEvents(display) >= 0, library.dispatchQueuePending(display, queue) >= 0 else {
                    throw .noWayland(
                        "the compositor ends the connection: \(OutputError.text(of: library.getError(display)))")
                }
            }
            return isOffered
        }

        func hear(_ proxy: WaylandLibrary.Proxy, _ event: UInt32, _ arguments: UnsafePointer<latchkey_wl_argument>) {
            if proxy == answer {
                isAnswered = true
            } else if event == 0, let name = arguments[1].s, strcmp(name, WestonProtocol.globalName) == 0 {
                isOffered = true
            }
        }
    }

    private static let hearEvent: latchkey_wl_dispatcher = { implementation, target, event, _, arguments in
        // SAFETY: `look` passed the visit, and ends before it goes.
        if let implementation, let target, let arguments {
            Unmanaged<Visit>.fromOpaque(implementation).takeUnretainedValue().hear(target, event, arguments)
        }
        return 0
    }
}

/// Who owns the display, and so has to ask its links for HDCP. A value.
public enum DisplayOwner: Hashable, Sendable {
    /// A Wayland compositor. It may offer weston_content_protection, by which the owner of a window asks.
    case waylandCompositor
    /// The DRM master: an X server, or an application that shows its pictures by itself.
    case master

    /// By `WAYLAND_DISPLAY` and `WAYLAND_SOCKET`, as libwayland's `wl_display_connect` reads them.
    public init(environment: [String: String]) {
        let names = ["WAYLAND_DISPLAY", "WAYLAND_SOCKET"]
        self = names.contains { environment[$0]?.isEmpty == false } ? .waylandCompositor : .master
    }

    /// What to do for a link to get HDCP, as a sentence.
    public var advice: String {
        switch self {
        case .waylandCompositor:
            "A Wayland compositor owns the display, and it alone can ask for HDCP: let it (Weston: allow_hdcp=true for "
                + "the output in weston.ini), and have the application that owns the window give it to latchkeyguard "
                + "(wayland-display=… wayland-surface=…), which asks through weston_content_protection."
        case .master:
            "HDCP is asked for by the owner of the display: the compositor, or an application with latchkeyguard "
                + "display-fd=…; latchkey outputs --request asks by hand."
        }
    }
}
