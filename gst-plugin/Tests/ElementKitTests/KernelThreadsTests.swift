// SPDX-License-Identifier: MPL-2.0

import Glibc
import Synchronization
import Testing

@testable import LatchkeyElementKit

/// What the kernel says of threads.
@Suite struct KernelThreadsTests {
    @Test func aThreadThatRunsIsAwake() {
        let own = KernelThreads.current
        #expect(!own.isEmpty && !own.areAsleep)
    }

    @Test func aThreadThatWaitsIsAsleepAndOneThatHasEndedToo() throws {
        let waiting = try Waiting()
        let thread = KernelThreads([waiting.id])
        // Until the thread has come to where it waits.
        while !thread.areAsleep { sched_yield() }
        waiting.end()
        #expect(thread.areAsleep)
    }

    @Test func threadsAreToldApartFromEarlierOnes() throws {
        let before = KernelThreads.now
        #expect(before.since(before).isEmpty)
        let waiting = try Waiting()
        #expect(!KernelThreads.now.since(before).isEmpty)
        waiting.end()
    }
}

/// A thread that waits until its end.
private final class Waiting {
    private final class Shared: Sendable {
        let id = Atomic<Int32>(0)
        let descriptor: Int32

        init(_ descriptor: Int32) { self.descriptor = descriptor }
    }

    private var handle = pthread_t()
    private let shared: Shared
    private let writeEnd: Int32

    var id: Int32 { shared.id.load(ordering: .acquiring) }

    init() throws {
        var ends: [Int32] = [0, 0]
        try #require(pipe(&ends) == 0)
        (shared, writeEnd) = (Shared(ends[0]), ends[1])
        // SAFETY: retained here, released by the thread.
        let argument = Unmanaged.passRetained(shared).toOpaque()
        try #require(pthread_create(&handle, nil, Self.body, argument) == 0)
        while id == 0 { sched_yield() }
    }

    func end() {
        close(writeEnd)
        pthread_join(handle, nil)
        close(shared.descriptor)
    }

    private static let body: @convention(c) (UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? = { argument in
        guard let argument else { return nil }
        // SAFETY: the pointer that `init` retained for this thread.
        let shared = Unmanaged<Shared>.fromOpaque(argument).takeRetainedValue()
        shared.id.store(KernelThreads.currentID ?? 0, ordering: .releasing)
        var byte: UInt8 = 0
        _ = read(shared.descriptor, &byte, 1)
        return nil
    }
}
