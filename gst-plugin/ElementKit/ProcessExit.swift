// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Glibc
import Synchronization

private let isHeld = Atomic(false)

/// When the destructors of libraries run, another thread must not load a plug-in: glibc would run the constructors of GLib once
/// more, and GLib aborts. So a thread of ours takes the lock with which GStreamer looks plug-ins up.
///
/// Nothing waits for ever: this function waits for about a second at most, and the lock is given back after two. Destructors
/// that need the lock, or that stop a thread that does, wait as long.
private func stopPluginLoads() {
    // Without other threads, as in a process that was forked, nothing loads a plug-in. A thread that is gone may hold the lock.
    var threads = stat()
    if stat("/proc/self/task", &threads) == 0, threads.st_nlink == 3 { return }
    // SAFETY: this reference keeps the registry through `gst_deinit`, which must not free a lock that is held.
    guard gst_is_initialized() != 0, let registry = gst_object_ref(gst_registry_get()) else { return }
    let object = registry.assumingMemoryBound(to: GObject.self)
    // Other plug-ins may have a copy of this module, and the first one does for all.
    guard g_object_get_data(object, "latchkey-exit") == nil else { return }
    g_object_set_data(object, "latchkey-exit", registry)
    var thread = pthread_t()
    guard pthread_create(&thread, nil, holdPluginLookups, registry) == 0 else { return }
    for _ in 0..<1_000 where !isHeld.load(ordering: .acquiring) { usleep(1_000) }
}

private func holdPluginLookups(_ registry: UnsafeMutableRawPointer?) -> UnsafeMutableRawPointer? {
    ek_object_lock(registry)
    // A thread that has just looked a plug-in up opens its file, as soon as it has a processor. Then glibc's own lock tells when
    // that is done. On a busy machine, each look takes a while too: the time is bounded, and not the number of looks.
    var loads = PendingLoads(PendingLoads.others())
    let end = MonotonicTime.now &+ 200_000_000
    while loads.remain(PendingLoads.others()), MonotonicTime.now < end { usleep(1_000) }
    usleep(5_000)
    if let program = dlopen(nil, RTLD_LAZY) { dlclose(program) }
    isHeld.store(true, ordering: .releasing)
    sleep(2)
    ek_object_unlock(registry)
    return nil
}

// What runs among the destructors, after all functions of `atexit`.
@section(".fini_array") @used private let atEnd: @convention(c) () -> Void = stopPluginLoads
