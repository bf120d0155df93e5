// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyKeySession

/// What the protected build looks at, and what follows.
@Suite("Integrity", .timeLimit(.minutes(8)))
struct IntegrityTests {
    // MARK: Tracers

    @Test func nobodyTraces() {
        #expect(TracerCheck.violation(status: Array("Name:\tplayer\nTracerPid:\t0\nUid:\t1\n".utf8)) == nil)
    }

    @Test(arguments: [
        "TracerPid:\t4711\n", "Name:\tTracerPid: 0\nTracerPid:\t1", "TracerPid:\n", "TracerPid:\t-1\n",
        "TracerPid:\tx\n", "",
        " TracerPid:\t0\n", "TracerPid:\t99999999999\n",
    ])
    func somebodyMayTrace(_ text: String) { #expect(TracerCheck.violation(status: Array(text.utf8)) != nil) }

    @Test func whatCannotBeReadIsAViolation() { #expect(TracerCheck.violation(status: nil) != nil) }

    @Test func nobodyTracesThisProcess() throws {
        let status = try #require(IntegrityWatch.contents(of: "/proc/self/status"))
        #expect(String(decoding: status, as: UTF8.self).contains("TracerPid:"))
        #expect(TracerCheck.violation(status: status) == nil)
    }

    // MARK: Code

    @Test func codeIsFoundByItsAddress() {
        let maps = Array(
            """
            55d0a000-55d0b000 r--p 00000000 08:01 42 /usr/bin/player
            55d0b000-55d0f000 r-xp 00001000 08:01 42                         /usr/bin/my player
            7f000000-7f001000 r-xp 00000000 00:00 0
            7f100000-7f101000 r-xp 00000000 08:01 43 /usr/lib/old.so (deleted)
            7f200000-7f201000 r-xp 00000000 00:00 0 [vdso]
            nonsense
            -- r-xp 0 0 0 /x

            """.utf8)
        let code = LoadedCode(maps: maps, containing: 0x55d0_c000)
        #expect(code?.path == "/usr/bin/my player")
        #expect(code?.memory == 0x55d0_b000..<0x55d0_f000)
        #expect(code?.offset == 0x1000)
        for address: UInt in [0x7f00_0000, 0x7f10_0000, 0x7f20_0000, 0x55d0_f000, 0] {
            #expect(LoadedCode(maps: maps, containing: address) == nil)
        }
    }

    @Test func ownCodeIsInAFile() throws {
        let code = try #require(LibraryCheck.ownCode())
        #expect(FileManager.default.fileExists(atPath: code.path))
    }

    /// A page of memory that stands for a library.
    private final class Library {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID())")
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: 8192, alignment: 4096)
        var file: URL { folder.appendingPathComponent("library.so") }

        init() throws {
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            for index in memory.indices { memory[index] = UInt8(truncatingIfNeeded: index / 7) }
            // The last page of the mapping ends behind the file.
            try Data(Array(repeating: 1, count: 4096) + memory[..<8000]).write(to: file)
            for index in 8000..<8192 { memory[index] = 0 }
        }

        deinit {
            memory.deallocate()
            try? FileManager.default.removeItem(at: folder)
        }

        /// What sha256sum writes.
        func writeSum() throws {
            let sum = Process()
            sum.executableURL = URL(fileURLWithPath: "/usr/bin/sha256sum")
            sum.arguments = [file.path]
            let output = Pipe()
            sum.standardOutput = output
            try sum.run()
            sum.waitUntilExit()
            try output.fileHandleForReading.readDataToEndOfFile().write(
                to: folder.appendingPathComponent("library.so.sha256"))
        }

        var check: LibraryCheck {
            let start = UInt(bitPattern: memory.baseAddress)
            let line =
                String(start, radix: 16) + "-" + String(start + 8192, radix: 16)
                + " r-xp 00001000 00:00 0 \(file.path)\n"
            let code = LoadedCode(maps: Array(line.utf8), containing: start)
            return LibraryCheck { code }
        }
    }

    @Test func whatWasBuiltIsWhole() throws {
        let library = try Library()
        try library.writeSum()
        let check = library.check
        #expect(check.violationAtStart() == nil)
        #expect(check.violation() == nil)
        library.memory[100] ^= 1
        #expect(check.violation()?.contains("in memory") == true)
        #expect(library.check.violationAtStart()?.contains("in memory") == true)
    }

    @Test func anAlteredFileIsFound() throws {
        let library = try Library()
        #expect(library.check.violationAtStart()?.contains(".sha256") == true)
        try library.writeSum()
        var data = try Data(contentsOf: library.file)
        data[5] ^= 1
        try data.write(to: library.file)
        #expect(library.check.violationAtStart()?.contains("not the file that was built") == true)
        try FileManager.default.removeItem(at: library.file)
        #expect(library.check.violationAtStart() != nil)
        #expect(LibraryCheck { nil }.violationAtStart() != nil)
    }

    // MARK: What follows

    /// Checks that a test decides about, and pauses that end when it says so.
    private final class World: Sendable {
        private struct State {
            var atStart: String?
            var again: String?
            var looks = 0
            var pauses: [Duration] = []
            var sleeper: CheckedContinuation<Void, Never>?
        }

        private let state = Mutex(State())

        init(atStart: String? = nil) { state.withLock { $0.atStart = atStart } }

        func find(_ reason: String) { state.withLock { $0.again = reason } }
        var looks: Int { state.withLock { $0.looks } }
        var pauses: [Duration] { state.withLock { $0.pauses } }

        func makeWatch() -> IntegrityWatch {
            IntegrityWatch(
                IntegrityWatch.Checks(
                    atStart: { [self] in
                        state.withLock {
                            $0.looks += 1; return $0.atStart
                        }
                    },
                    again: { [self] in
                        state.withLock {
                            $0.looks += 1; return $0.again
                        }
                    }),
                sleep: { [self] duration in
                    await withCheckedContinuation { continuation in
                        state.withLock {
                            $0.pauses.append(duration); $0.sleeper = continuation
                        }
                    }
                }, random: { [self] in $0.lowerBound + 7 + pauses.count })
        }

        /// Ends a pause, once there is one.
        func pass() async {
            while true {
                let sleeper = state.withLock { state in
                    defer { state.sleeper = nil }
                    return state.sleeper
                }
                if let sleeper { return sleeper.resume() }
                await Task.yield()
            }
        }
    }

    private func session(_ watch: IntegrityWatch?, _ loader: HeldLoader = HeldLoader()) -> KeySession {
        var configuration = KeySessionConfiguration()
        configuration.integrity = watch
        return KeySession(loaders: [loader], configuration: configuration)
    }

    @Test func theOrdinaryBuildDoesNotLook() {
        #if !LATCHKEY_PROTECTED
            #expect(KeySessionConfiguration().integrity == nil)
        #endif
    }

    @Test func aSoundProcessGetsItsKeys() async {
        let world = World()
        let loader = HeldLoader()
        let session = session(world.makeWatch(), loader)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        guard let request = await loader.taken.wait() else { return }
        #expect(request.finishLoading(with: .keys([keyID(1): contentKey(1)])))
        #expect(session.status(of: keyID(1)).key != nil)
        await world.pass()
        while world.pauses.count < 2 { await Task.yield() }
        // Each pause is another one.
        #expect(world.pauses == [7, 8].map { Duration.milliseconds(IntegrityWatch.pause.lowerBound + $0) })
        #expect(IntegrityWatch.pause.count > 1)
        #expect(world.looks == 2)
        #expect(session.status(of: keyID(1)).key != nil)
        // Whoever waits is let go.
        session.close(.sessionClosed("the test is over"))
        await world.pass()
    }

    @Test func aTracedProcessGetsNoKey() async {
        let world = World(atStart: "process 7 traces this one")
        let watch = world.makeWatch()
        let session = session(watch)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        while !session.isClosed { await Task.yield() }
        #expect(session.status(of: keyID(1)).error?.description.contains("process 7 traces this one") == true)
        // Once found, it holds for every session.
        let next = self.session(watch)
        #expect(next.isClosed)
        #expect(await watch.violation() != nil)
        #expect(world.looks == 1)
    }

    /// A first look that a test lets go.
    private final class HeldLook: Sendable {
        private let gate = DispatchSemaphore(value: 0)
        let watch: IntegrityWatch

        init(_ reason: String?) {
            let gate = gate
            watch = IntegrityWatch(
                IntegrityWatch.Checks(
                    atStart: {
                        gate.wait()
                        return reason
                    }, again: { nil })
            ) { _ in throw CancellationError() }
        }

        func letGo() { gate.signal() }
    }

    /// Keys that an application installs by itself are of no use before the process was looked at.
    @Test func anInstalledKeyWaitsForTheFirstLook() async {
        let look = HeldLook(nil)
        let session = session(look.watch)
        let watcher = Watcher(session)
        session.install([keyID(1): contentKey(1)])
        session.install(keyWithoutID: contentKey(2))
        #expect(session.status(of: keyID(1)).key == nil)
        #expect(session.status(of: nil).key == nil)
        #expect(!session.isAtHand(keyID(1)))
        let revision = session.revision
        look.letGo()
        #expect(await look.watch.violation() == nil)
        #expect(session.revision != revision)
        #expect(session.status(of: keyID(1)).key != nil && session.status(of: nil).key != nil)
        #expect(session.isAtHand(keyID(1)))
        // Once when they were installed, and once when they are of use: whoever waits looks again.
        #expect(watcher.events.count { $0.isUsable } == 4)
        // The next session need not wait.
        let next = self.session(look.watch)
        next.install([keyID(1): contentKey(1)])
        #expect(next.status(of: keyID(1)).key != nil)
    }

    @Test func anInstalledKeyIsNeverUsedInATracedProcess() async {
        let look = HeldLook("process 7 traces this one")
        let session = session(look.watch)
        session.install([keyID(1): contentKey(1)])
        #expect(session.status(of: keyID(1)).key == nil)
        look.letGo()
        #expect(await look.watch.violation() != nil)
        #expect(session.isClosed && session.status(of: keyID(1)).key == nil)
    }

    @Test func whatIsFoundLaterClosesTheKeysInUse() async {
        let world = World()
        let watch = world.makeWatch()
        let sessions = [session(watch), session(watch)]
        for session in sessions { session.install([keyID(1): contentKey(1)]) }
        await world.pass()
        while world.pauses.count < 2 { await Task.yield() }
        #expect(sessions.allSatisfy { $0.status(of: keyID(1)).key != nil })
        world.find("the code was changed")
        await world.pass()
        for session in sessions {
            while !session.isClosed { await Task.yield() }
            #expect(session.status(of: keyID(1)).key == nil)
        }
    }

    /// Without sessions nobody looks; the next session begins anew.
    @Test func theWatchRestsWithoutSessions() async {
        let world = World()
        let watch = world.makeWatch()
        do {
            let session = session(watch)
            #expect(!session.isClosed)
            while world.pauses.isEmpty { await Task.yield() }
        }
        await world.pass()
        while world.looks < 2 { await Task.yield() }
        let session = session(watch)
        while world.pauses.count < 2 { await Task.yield() }
        world.find("the code was changed")
        await world.pass()
        while !session.isClosed { await Task.yield() }
    }
}

private final class HeldLoader: ResourceLoader {
    let name = "held"
    let taken = Signal<KeyLoadingRequest>()

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        taken.send(request)
        return true
    }
}
