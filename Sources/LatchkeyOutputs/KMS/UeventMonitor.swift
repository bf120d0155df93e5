// SPDX-License-Identifier: MPL-2.0

import CLatchkeyUdev
import Glibc

/// Hears of changes of display devices through libudev. Used by one thread at a time.
final class UeventMonitor: @unchecked Sendable {
    // SAFETY: libudev's objects belong to this one; `OutputProvider` has one thread at a time here.
    private let context: OpaquePointer
    private let monitor: OpaquePointer
    let descriptor: Int32

    /// Nil where libudev is not to be had: then only the clock tells when to read.
    init?() {
        guard let context = udev_new() else { return nil }
        guard let monitor = udev_monitor_new_from_netlink(context, "udev") else {
            udev_unref(context)
            return nil
        }
        udev_monitor_filter_add_match_subsystem_devtype(monitor, "drm", nil)
        guard udev_monitor_enable_receiving(monitor) >= 0 else {
            udev_monitor_unref(monitor)
            udev_unref(context)
            return nil
        }
        self.context = context
        self.monitor = monitor
        descriptor = udev_monitor_get_fd(monitor)
    }

    deinit {
        udev_monitor_unref(monitor)
        udev_unref(context)
    }

    /// Takes what has come. Whether a device was added or removed. A bounded number at once, so that a flood cannot hold
    /// the thread.
    func takeEvents() -> Bool {
        var isDeviceChange = false
        for _ in 0..<256 {
            // The descriptor may be one that waits.
            var state = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            guard poll(&state, 1, 0) == 1, let device = udev_monitor_receive_device(monitor) else { break }
            let action = udev_device_get_action(device).map { String(cString: $0) }
            if action == "add" || action == "remove" { isDeviceChange = true }
            udev_device_unref(device)
        }
        return isDeviceChange
    }
}
