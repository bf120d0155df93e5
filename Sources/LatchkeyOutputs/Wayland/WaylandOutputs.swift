// SPDX-License-Identifier: MPL-2.0

import Glibc
public import LatchkeyProtection
import Synchronization

/// The outputs that show one window of the application's, through its Wayland compositor: HDCP is requested by
/// weston_content_protection, and the compositor reports the result. Thread-safe.
///
/// All outputs that show the window are one, of the kind `digital`, with what the least of them has. A compositor that
/// does not offer the protocol makes it unreadable. Whom the compositor counts, and whether it tells the truth, is its own
/// affair: the protocol is for closed systems.
///
/// What is asked for counts from the surface's next commit, which is the owner's part.
public final class WaylandOutputs: OutputProvider {
    private let surface: ProtectedSurface
    private let wake = WakeUp()

    /// `display` and `surface` are the addresses of a `wl_display` and of a `wl_surface` of it. Both have to stay until
    /// `stop()` or until this object is gone. Throws where they are something else, and where libwayland-client is not in the process.
    public init(display: UInt64, surface: UInt64) throws(OutputError) {
        self.surface = try ProtectedSurfaces.shared.surface(display: display, surface: surface)
        self.surface.join(ObjectIdentifier(self), wake: wake)
    }

    deinit { stop() }

    /// Takes back what was asked for here. When this returns, the application's objects are not used any more.
    public func stop() { surface.leave(ObjectIdentifier(self)) }

    /// Asks for at least this, until `stop()`; to ask again is harmless. Throws where the compositor is known
    /// not to offer that.
    public func request(_ requirement: OutputRequirement) throws(OutputError) {
        surface.ask(requirement, for: ObjectIdentifier(self))
        if let problem = surface.problem { throw problem }
    }

    /// Waits until the compositor has said what the window has, for `limit` at the most, so that the first reading is one.
    package func waitForAnswer(_ limit: Duration = .seconds(1)) {
        let end = ContinuousClock.now + limit
        while !surface.isSettled {
            let left = ContinuousClock.now.duration(to: end)
            guard left > .zero, let descriptor = wake.descriptor else { return }
            var state = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            _ = poll(&state, 1, Int32(min(left, .seconds(60)) / .milliseconds(1)) + 1)
            wake.clear()
        }
    }

    public func read() -> OutputFacts { surface.facts }
    public var hintDescriptor: Int32? { wake.descriptor }
    public func takeHints() { wake.clear() }

    /// To be called before the application destroys the surface, or ends the connection, that it has given before. What
    /// is known of others stays.
    public static func release(display: UInt64, surface: UInt64) {
        ProtectedSurfaces.shared.release(display: display, surface: surface)
    }
}

/// The surfaces that the application has given and not taken away.
private final class ProtectedSurfaces: Sendable {
    static let shared = ProtectedSurfaces()
    private let known = Mutex<[Key: ProtectedSurface]>([:])

    /// Addresses and numbers come again; the number of a connection's socket does not.
    private struct Key: Hashable {
        var display: UInt64
        var surface: UInt64
        var id: UInt32
        var socket: UInt64
    }

    func surface(display: UInt64, surface: UInt64) throws(OutputError) -> ProtectedSurface {
        let library = try WaylandLibrary()
        guard let displayObject = UnsafeMutableRawPointer(bitPattern: UInt(display)),
            library.isObject(displayObject, of: "wl_display")
        else { throw .noWayland("wayland-display is not the address of a wl_display") }
        guard let surfaceObject = UnsafeMutableRawPointer(bitPattern: UInt(surface)),
            library.isObject(surfaceObject, of: "wl_surface")
        else { throw .noWayland("wayland-surface is not the address of a wl_surface") }
        let key = Key(
            display: display, surface: surface, id: library.getID(surfaceObject),
            socket: Self.socket(of: displayObject, library))
        let found = known.withLock { known in
            Result { () throws(OutputError) in
                if let found = known[key] { return found }
                let new = try ProtectedSurface(library, display: displayObject, surface: surfaceObject)
                known[key] = new
                return new
            }
        }
        return try found.get()
    }

    func release(display: UInt64, surface: UInt64) {
        guard let library = try? WaylandLibrary(), let object = UnsafeMutableRawPointer(bitPattern: UInt(display))
        else { return }
        let released = known.withLock { known in
            let keys = known.keys.filter { $0.display == display && $0.surface == surface }
            guard !keys.isEmpty else { return [ProtectedSurface]() }
            let socket = Self.socket(of: object, library)
            // What is left of an earlier connection at this address is no object of this one.
            return keys.compactMap { key in known.removeValue(forKey: key).flatMap { key.socket == socket ? $0 : nil } }
        }
        for surface in released { surface.release() }
    }

    private static func socket(of display: WaylandLibrary.Display, _ library: WaylandLibrary) -> UInt64 {
        var status = stat()
        return fstat(library.getDescriptor(display), &status) == 0 ? UInt64(status.st_ino) : 0
    }
}
