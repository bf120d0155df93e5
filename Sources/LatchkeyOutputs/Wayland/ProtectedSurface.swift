// SPDX-License-Identifier: MPL-2.0

import CLatchkeyWayland
import Glibc
import LatchkeyProtection
import Synchronization

/// The protection of one surface: asked for, and heard of, on an event queue and a thread of its own. Thread-safe.
///
/// A surface has one, which all users of the process share: a second weston_protected_surface for it is an error that ends
/// the application's connection. For the same reason it outlives its users: Weston 10 counts one that was destroyed.
final class ProtectedSurface: @unchecked Sendable {
    // SAFETY: the Wayland objects are used by the thread while it runs, else by the holder of `lifecycle`.
    let library: WaylandLibrary
    let display: WaylandLibrary.Display
    let surface: WaylandLibrary.Proxy
    private let interfaces: WestonProtocol
    private let queue: WaylandLibrary.Queue
    private var registry: WaylandLibrary.Proxy?
    private var answer: WaylandLibrary.Proxy?
    private var global: (object: WaylandLibrary.Proxy, name: UInt32)?
    private var protection: WaylandLibrary.Proxy?
    private var sentType = WestonProtocol.ProtectionType.unprotected
    private let wake = WakeUp()
    private let state = Mutex(State())
    private let lifecycle = Mutex(Lifecycle())

    private struct State {
        /// What each wants, and how it is woken after a change.
        var users: [ObjectIdentifier: (requirement: OutputRequirement, wake: WakeUp)] = [:]
        /// The compositor has said all that was on its way when the thread started, and what the surface has.
        var isAnswered = false
        var isOffered = false
        var status = WestonProtocol.ProtectionType.unprotected
        var failure: String?
        var isStopping = false

        var wanted: OutputRequirement { users.values.map(\.requirement).max() ?? .unprotected }

        var problem: OutputError? {
            if let failure { return .noWayland(failure) }
            return isAnswered && !isOffered ? .notOfferedByCompositor : nil
        }
    }

    private struct Lifecycle {
        var thread: pthread_t?
        /// The application takes the surface away.
        var isReleased = false
    }

    init(_ library: WaylandLibrary, display: WaylandLibrary.Display, surface: WaylandLibrary.Proxy) throws(OutputError)
    {
        // Without one, nothing could end the thread.
        guard wake.descriptor != nil else { throw .noWayland("no file descriptor is left") }
        guard let queue = library.createQueue(display) else {
            throw .noWayland("there is no memory for an event queue")
        }
        self.library = library
        self.display = display
        self.surface = surface
        self.queue = queue
        interfaces = .shared(library)
    }

    // MARK: Users

    func join(_ user: ObjectIdentifier, wake: WakeUp) {
        lifecycle.withLock { lifecycle in
            state.withLock { $0.users[user] = (.unprotected, wake) }
            if lifecycle.isReleased {
                state.withLock { $0.failure = "the application has taken the surface back" }
            } else if lifecycle.thread == nil {
                lifecycle.thread = start()
            }
        }
    }

    /// The last one ends the thread and takes the request back, so that the application may end its connection then.
    func leave(_ user: ObjectIdentifier) {
        lifecycle.withLock { lifecycle in
            let isLast = state.withLock { $0.users.removeValue(forKey: user) != nil && $0.users.isEmpty }
            if isLast { stop(&lifecycle) } else { self.wake.send() }
        }
    }

    /// The application is about to destroy the surface: what is about it goes, at once or with the last user.
    func release() {
        lifecycle.withLock { lifecycle in
            lifecycle.isReleased = true
            if state.withLock({ $0.users.isEmpty }) {
                tearDown()
            } else {
                // What the compositor said last is of a window that is not shown any more.
                tell { $0.failure = "the application has taken the surface back" }
            }
        }
    }

    /// At least this for as long as `user` is there. Sent at once; it counts from the surface's next commit.
    func ask(_ requirement: OutputRequirement, for user: ObjectIdentifier) {
        state.withLock { state in
            guard let known = state.users[user] else { return }
            state.users[user] = (max(requirement, known.requirement), known.wake)
        }
        wake.send()
    }

    var facts: OutputFacts {
        state.withLock { state in
            if let problem = state.problem { return .unreadable(problem.description) }
            guard state.isAnswered else { return .unreadable("the compositor has not answered yet") }
            let protection: Output.Protection =
                switch state.status {
                case WestonProtocol.ProtectionType.hdcp0: .hdcpType0
                case WestonProtocol.ProtectionType.hdcp1: .hdcpType1
                default: state.wanted == .unprotected ? .none : .requested
                }
            return .outputs([Output(name: "the Wayland window", kind: .digital, protection: protection)])
        }
    }

    /// Whether there is nothing to wait for: the compositor has answered, or cannot.
    var isSettled: Bool { state.withLock { $0.isAnswered || $0.failure != nil } }

    /// Why asking can lead to nothing, as far as that is known.
    var problem: OutputError? { state.withLock { $0.problem } }

    // MARK: The thread

    private func start() -> pthread_t? {
        state.withLock { state in
            state.isStopping = false
            state.isAnswered = false
        }
        var thread = pthread_t()
        let argument = Unmanaged.passRetained(self)
        guard pthread_create(&thread, nil, runSurface, argument.toOpaque()) == 0 else {
            argument.release()
            state.withLock { $0.failure = "no thread can be started to hear the compositor" }
            return nil
        }
        return thread
    }

    private func stop(_ lifecycle: inout Lifecycle) {
        guard let thread = lifecycle.thread else { return }
        state.withLock { $0.isStopping = true }
        wake.send()
        pthread_join(thread, nil)
        lifecycle.thread = nil
        if lifecycle.isReleased {
            tearDown()
        } else {
            send(WestonProtocol.ProtectionType.unprotected)
            _ = library.flush(display)
        }
    }

    fileprivate func run() {
        begin()
        while true {
            while library.prepareReadQueue(display, queue) != 0 {
                guard library.dispatchQueuePending(display, queue) >= 0 else { return fail() }
            }
            let (isStopping, wanted) = state.withLock { ($0.isStopping, $0.wanted) }
            if isStopping { return library.cancelRead(display) }
            send(wanted.protectionType)
            var events = Int16(POLLIN)
            if library.flush(display) < 0 {
                guard errno == EAGAIN else {
                    library.cancelRead(display)
                    return fail()
                }
                events |= Int16(POLLOUT)
            }
            var descriptors = [pollfd(fd: library.getDescriptor(display), events: events, revents: 0)]
            if let descriptor = wake.descriptor {
                descriptors.append(pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0))
            }
            _ = poll(&descriptors, nfds_t(descriptors.count), -1)
            wake.clear()
            if descriptors[0].revents & Int16(POLLIN | POLLERR | POLLHUP) != 0 {
                guard library.readEvents(display) >= 0 else { return fail() }
            } else {
                library.cancelRead(display)
            }
            guard library.dispatchQueuePending(display, queue) >= 0 else { return fail() }
        }
    }

    private func begin() {
        guard library.getError(display) == 0 else { return fail() }
        // wl_display.get_registry, and wl_display.sync behind it.
        if registry == nil { registry = request(1, creating: library.registryInterface) }
        requestAnswer()
    }

    /// wl_display.sync: the compositor answers when it has said all that it was asked for before.
    private func requestAnswer() {
        if let answer { library.destroyProxy(answer) }
        answer = request(0, creating: library.callbackInterface)
    }

    /// A request of the display. What it makes is heard on the queue.
    private func request(
        _ opcode: UInt32, creating interface: WaylandLibrary.Interface
    ) -> WaylandLibrary.Proxy? {
        guard let wrapper = library.createWrapper(display) else {
            fail()
            return nil
        }
        defer { library.destroyWrapper(wrapper) }
        library.setQueue(wrapper, queue)
        let made = library.send(opcode, to: wrapper, creating: interface, [.init(object: nil)])
        listen(to: made)
        return made
    }

    private func fail() {
        let number = library.getError(display)
        tell { $0.failure = "the connection to the compositor is broken: \(OutputError.text(of: number))" }
    }

    private func send(_ type: UInt32) {
        guard let protection, type != sentType else { return }
        sentType = type
        library.send(WestonProtocol.Surface.setType, to: protection, [.init(number: type)])
    }

    private func tell(_ change: (inout State) -> Void) {
        let wakes = state.withLock { state in
            change(&state)
            return state.users.values.map(\.wake)
        }
        for wake in wakes { wake.send() }
    }

    private func listen(to proxy: WaylandLibrary.Proxy?) {
        guard let proxy else { return }
        _ = library.addDispatcher(proxy, hearEvent, Unmanaged.passUnretained(self).toOpaque(), nil)
    }

    // MARK: Events, on the thread

    fileprivate func hear(
        _ proxy: WaylandLibrary.Proxy, _ event: UInt32, _ arguments: UnsafePointer<latchkey_wl_argument>
    ) {
        switch (proxy, event) {
        // SAFETY: libwayland has checked the arguments against the interface's description.
        case (registry, 0):
            guard global == nil, let name = arguments[1].s, strcmp(name, WestonProtocol.globalName) == 0 else { return }
            bind(arguments[0].u)
        case (registry, 1):
            guard global?.name == arguments[0].u else { return }
            destroyProtection()
            tell { ($0.isOffered, $0.status) = (false, WestonProtocol.ProtectionType.unprotected) }
        case (answer, 0):
            library.destroyProxy(proxy)
            answer = nil
            tell { $0.isAnswered = true }
        case (protection, 0):
            let status = arguments[0].u
            tell { $0.status = status }
        default: break
        }
    }

    private func bind(_ name: UInt32) {
        guard let registry else { return }
        let object = library.send(
            0, to: registry, creating: interfaces.contentProtection,
            [
                .init(number: name), .init(text: interfaces.contentProtection.pointee.name), .init(number: 1),
                .init(object: nil),
            ])
        guard let object else { return fail() }
        global = (object, name)
        protection = library.send(
            WestonProtocol.Global.getProtection, to: object, creating: interfaces.protectedSurface,
            [.init(object: nil), .init(object: surface)])
        sentType = WestonProtocol.ProtectionType.unprotected
        listen(to: protection)
        // Behind it, so that the status has come with the answer.
        requestAnswer()
        tell { ($0.isOffered, $0.status) = (true, WestonProtocol.ProtectionType.unprotected) }
    }

    private func destroyProtection() {
        if let protection {
            library.send(WestonProtocol.Surface.destroy, to: protection, isDestructor: true)
        }
        if let global {
            library.send(WestonProtocol.Global.destroy, to: global.object, isDestructor: true)
        }
        (protection, global) = (nil, nil)
    }

    /// With the lock of `lifecycle`, and no thread.
    private func tearDown() {
        destroyProtection()
        for proxy in [registry, answer].compactMap(\.self) { library.destroyProxy(proxy) }
        (registry, answer) = (nil, nil)
        _ = library.flush(display)
        library.destroyQueue(queue)
    }
}

extension OutputRequirement {
    fileprivate var protectionType: UInt32 {
        switch self {
        case .unprotected: WestonProtocol.ProtectionType.unprotected
        case .hdcpType0: WestonProtocol.ProtectionType.hdcp0
        case .hdcpType1: WestonProtocol.ProtectionType.hdcp1
        }
    }
}

private func hearEvent(
    _ implementation: UnsafeRawPointer?, _ target: UnsafeMutableRawPointer?, _ event: UInt32,
    _ message: UnsafePointer<latchkey_wl_message>?, _ arguments: UnsafeMutablePointer<latchkey_wl_argument>?
) -> Int32 {
    // SAFETY: `listen` passed the surface, which its thread keeps while it hears.
    if let implementation, let target, let arguments {
        Unmanaged<ProtectedSurface>.fromOpaque(implementation).takeUnretainedValue().hear(target, event, arguments)
    }
    return 0
}

private func runSurface(_ argument: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    // SAFETY: `start` passed a retained surface to this one call.
    if let argument { Unmanaged<ProtectedSurface>.fromOpaque(argument).takeRetainedValue().run() }
    return nil
}
