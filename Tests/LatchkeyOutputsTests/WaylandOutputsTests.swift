// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyOutputs
import LatchkeyProtection
import Testing
import CLatchkeyWaylandStandIn

/// Against a compositor of libwayland-server's, in this process.
@Suite struct WaylandOutputsTests {
    /// Of the address of a window, which tests give to the outputs.
    private struct Window: ~Copyable {
        let standIn: OpaquePointer

        init(offers: Bool = true, reads: Bool = true) throws {
            standIn = try #require(wayland_stand_in_new(offers, reads))
        }

        deinit { wayland_stand_in_free(standIn) }

        var display: UInt64 { Self.address(wayland_stand_in_display(standIn)) }
        var surface: UInt64 { Self.address(wayland_stand_in_surface(standIn)) }

        func outputs() throws -> WaylandOutputs { try WaylandOutputs(display: display, surface: surface) }
        func release() { WaylandOutputs.release(display: display, surface: surface) }

        static func address(_ pointer: UnsafeMutableRawPointer?) -> UInt64 { UInt64(UInt(bitPattern: pointer)) }
    }

    /// Waits for a reading by the hints alone, as whoever watches does.
    private func expect(
        _ outputs: WaylandOutputs, _ wanted: Output.Protection, _ place: SourceLocation = #_sourceLocation
    ) throws {
        let facts = OutputFacts.outputs([Output(name: "the Wayland window", kind: .digital, protection: wanted)])
        try expect(outputs, place) { $0 == facts }
    }

    private func expectUnreadable(
        _ outputs: WaylandOutputs, _ reason: String, _ place: SourceLocation = #_sourceLocation
    ) throws {
        try expect(outputs, place) { facts in
            guard case .unreadable(let text) = facts else { return false }
            return text.contains(reason)
        }
    }

    private func expect(
        _ outputs: WaylandOutputs, _ place: SourceLocation, _ isThere: (OutputFacts) -> Bool
    ) throws {
        let descriptor = try #require(outputs.hintDescriptor)
        while true {
            outputs.takeHints()
            let facts = outputs.read()
            if isThere(facts) { return }
            var state = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            try #require(poll(&state, 1, 60_000) == 1, "\(facts) is the last reading", sourceLocation: place)
        }
    }

    @Test func theLayoutIsLibwaylands() { #expect(wayland_stand_in_has_known_layout()) }

    /// With a thread of the application's that reads the same connection, and without one.
    @Test(arguments: [true, false]) func asksAndHears(reads: Bool) throws {
        let window = try Window(reads: reads)
        let outputs = try window.outputs()
        try expect(outputs, .none)
        try outputs.request(.hdcpType0)
        #expect(wayland_stand_in_wait_pending(window.standIn, 1, 60_000))
        // It counts from the frame that the application shows next.
        wayland_stand_in_commit(window.standIn)
        try expect(outputs, .requested)
        wayland_stand_in_set_status(window.standIn, 1)
        try expect(outputs, .hdcpType0)
        try outputs.request(.hdcpType1)
        #expect(wayland_stand_in_wait_pending(window.standIn, 2, 60_000))
        wayland_stand_in_set_status(window.standIn, 2)
        try expect(outputs, .hdcpType1)
        // Less is good with more, and takes nothing back.
        try outputs.request(.hdcpType0)
        wayland_stand_in_set_status(window.standIn, 0)
        try expect(outputs, .requested)
        // A type that later versions may have is worth nothing that is known.
        wayland_stand_in_set_status(window.standIn, 1)
        try expect(outputs, .hdcpType0)
        wayland_stand_in_set_status(window.standIn, 7)
        try expect(outputs, .requested)
        #expect(wayland_stand_in_view(window.standIn).pending == 2)
        #expect(wayland_stand_in_error(window.standIn) == 0)
    }

    /// Whoever decides at once has a reading, with a thread of the application's that reads too, and without one.
    @Test(arguments: [true, false]) func theFirstReadingIsTheCompositors(reads: Bool) throws {
        let window = try Window(reads: reads)
        // Once for each start of the thread.
        for status in [Output.Protection.none, .hdcpType0] {
            let outputs = try window.outputs()
            outputs.waitForAnswer(.seconds(60))
            #expect(
                outputs.read() == .outputs([Output(name: "the Wayland window", kind: .digital, protection: status)]))
            wayland_stand_in_set_status(window.standIn, 1)
        }
        // What cannot be read any more is not waited for.
        let outputs = try window.outputs()
        outputs.waitForAnswer(.seconds(60))
        wayland_stand_in_disconnect(window.standIn)
        try expectUnreadable(outputs, "broken")
        let later = try window.outputs()
        later.waitForAnswer(.seconds(60))
        try expectUnreadable(later, "broken")
    }

    /// A second protection of a surface ends the application's connection, so all users have one, one after the other too.
    @Test func aSurfaceHasOneProtectionHoweverManyAskForIt() throws {
        let window = try Window()
        var first: WaylandOutputs? = try window.outputs()
        let second = try window.outputs()
        try first?.request(.hdcpType1)
        try second.request(.hdcpType0)
        #expect(wayland_stand_in_wait_pending(window.standIn, 2, 60_000))
        wayland_stand_in_set_status(window.standIn, 1)
        if let first { try expect(first, .hdcpType0) }
        try expect(second, .hdcpType0)
        // Who goes takes with it what it alone wants.
        first = nil
        #expect(wayland_stand_in_wait_pending(window.standIn, 1, 60_000))
        for round in 1...3 {
            do {
                let again = try window.outputs()
                try again.request(.hdcpType1)
                #expect(wayland_stand_in_wait_pending(window.standIn, 2, 60_000), "round \(round)")
                try expect(again, .hdcpType0)
            }
            #expect(wayland_stand_in_wait_pending(window.standIn, 1, 60_000), "round \(round)")
        }
        #expect(wayland_stand_in_view(window.standIn).made == 1)
        #expect(wayland_stand_in_error(window.standIn) == 0)
    }

    @Test func theLastUserTakesTheRequestBackAndTheNextKnowsWhatHasChanged() throws {
        let window = try Window()
        do {
            let outputs = try window.outputs()
            try outputs.request(.hdcpType0)
            #expect(wayland_stand_in_wait_pending(window.standIn, 1, 60_000))
            wayland_stand_in_set_status(window.standIn, 1)
            try expect(outputs, .hdcpType0)
        }
        #expect(wayland_stand_in_wait_pending(window.standIn, 0, 60_000))
        // Nobody listens, and it is heard all the same.
        wayland_stand_in_set_status(window.standIn, 0)
        let outputs = try window.outputs()
        try expect(outputs, .none)
        try outputs.request(.hdcpType0)
        try expect(outputs, .requested)
    }

    @Test func aCompositorWithoutTheProtocolIsNamed() throws {
        let window = try Window(offers: false)
        let outputs = try window.outputs()
        try expectUnreadable(outputs, "does not offer weston_content_protection")
        #expect { try outputs.request(.hdcpType0) } throws: { "\($0)".contains("weston_content_protection") }
        #expect(wayland_stand_in_error(window.standIn) == 0)
    }

    /// What was asked for is asked for again, of a new object.
    @Test func aProtocolThatIsWithdrawnComesBack() throws {
        let window = try Window(offers: false)
        let outputs = try window.outputs()
        try expectUnreadable(outputs, "does not offer")
        _ = try? outputs.request(.hdcpType1)
        wayland_stand_in_offer(window.standIn, true)
        try expect(outputs, .requested)
        #expect(wayland_stand_in_wait_pending(window.standIn, 2, 60_000))
        wayland_stand_in_set_status(window.standIn, 2)
        try expect(outputs, .hdcpType1)
        wayland_stand_in_offer(window.standIn, false)
        try expectUnreadable(outputs, "does not offer")
        #expect(wayland_stand_in_wait_pending(window.standIn, 0, 60_000))
        #expect(wayland_stand_in_view(window.standIn).alive == 0)
    }

    @Test func aBrokenConnectionIsNamed() throws {
        let window = try Window()
        let outputs = try window.outputs()
        try expect(outputs, .none)
        wayland_stand_in_disconnect(window.standIn)
        try expectUnreadable(outputs, "broken")
        #expect(throws: OutputError.self) { try outputs.request(.hdcpType0) }
        // And for who comes later.
        try expectUnreadable(try window.outputs(), "broken")
    }

    /// The next surface may have the address of the one before.
    @Test func aSurfaceThatIsTakenBackLeavesNothing() throws {
        let window = try Window()
        for _ in 1...3 {
            do {
                let outputs = try window.outputs()
                try outputs.request(.hdcpType0)
                #expect(wayland_stand_in_wait_pending(window.standIn, 1, 60_000))
                wayland_stand_in_set_status(window.standIn, 1)
                try expect(outputs, .hdcpType0)
            }
            window.release()
            #expect(wayland_stand_in_wait_pending(window.standIn, 0, 60_000))
            wayland_stand_in_replace_surface(window.standIn)
        }
        // While it is in use, it goes with its last user.
        var outputs: WaylandOutputs? = try window.outputs()
        try outputs?.request(.hdcpType0)
        #expect(wayland_stand_in_wait_pending(window.standIn, 1, 60_000))
        window.release()
        #expect(wayland_stand_in_view(window.standIn).alive == 1)
        outputs = nil
        #expect(wayland_stand_in_wait_pending(window.standIn, 0, 60_000))
        #expect(wayland_stand_in_view(window.standIn).alive == 0)
        #expect(wayland_stand_in_view(window.standIn).made == 4)
        #expect(wayland_stand_in_error(window.standIn) == 0)
    }

    @Test func whatIsNoWindowIsRefused() throws {
        let window = try Window()
        let other = Window.address(wayland_stand_in_other_object(window.standIn))
        for (display, surface, name) in [
            (0, window.surface, "wayland-display"), (window.surface, window.surface, "wayland-display"),
            (window.display, 0, "wayland-surface"), (window.display, other, "wayland-surface"),
        ] {
            #expect {
                _ = try WaylandOutputs(display: display, surface: surface)
            } throws: { "\($0)".contains(name) }
        }
    }

    /// What `latchkey doctor` says.
    @Test(arguments: [true, false]) func aCompositorSaysWhetherItOffersTheProtocol(offers: Bool) throws {
        let folder = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        let path = "\(folder)/wayland-\(getpid())-\(offers)"
        unlink(path)
        defer { unlink(path) }
        let error = #expect(throws: OutputError.self) {
            _ = try WaylandCompositor.offersContentProtection(socket: path)
        }
        #expect(error?.reason.contains("cannot be reached: No such file or directory") == true)
        let window = try Window(offers: offers)
        #expect(wayland_stand_in_listen(window.standIn, path))
        #expect(try WaylandCompositor.offersContentProtection(socket: path, deadline: .seconds(60)) == offers)
    }

    @Test func aCompositorThatDoesNotAnswerIsNotWaitedFor() throws {
        let folder = getenv("TMPDIR").map { String(cString: $0) } ?? "/tmp"
        let path = "\(folder)/wayland-\(getpid())-silent"
        unlink(path)
        defer { unlink(path) }
        let listener = try Listener(path)
        defer { withExtendedLifetime(listener) {} }
        #expect {
            _ = try WaylandCompositor.offersContentProtection(socket: path, deadline: .milliseconds(50))
        } throws: { "\($0)".contains("does not answer") }
    }

    /// Takes connections and says nothing.
    private final class Listener {
        private let descriptor: Int32

        init(_ path: String) throws {
            descriptor = socket(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0)
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            try #require(path.utf8.count < 107)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8) }
            let size = socklen_t(MemoryLayout<sockaddr_un>.size)
            let isBound = withUnsafePointer(to: &address) {
                $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { bind(descriptor, $0, size) }
            }
            try #require(isBound == 0 && listen(descriptor, 4) == 0)
        }

        deinit { close(descriptor) }
    }
}
