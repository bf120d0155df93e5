// SPDX-License-Identifier: MPL-2.0

import CLatchkeyUdev

/// Finds the display devices.
enum DRMCards {
    /// Opens every device that udev knows as a card with connectors. Throws where one cannot be opened.
    static func openAll() throws(OutputError) -> [any KMSDevice] {
        var cards: [any KMSDevice] = []
        for path in paths() { cards.append(try DRMCard(path: path)) }
        return cards
    }

    /// Such as `/dev/dri/card0`, in udev's order. Devices that only render have no connectors.
    static func paths() -> [String] {
        guard let context = udev_new() else { return [] }
        defer { udev_unref(context) }
        guard let list = udev_enumerate_new(context) else { return [] }
        defer { udev_enumerate_unref(list) }
        udev_enumerate_add_match_subsystem(list, "drm")
        udev_enumerate_add_match_property(list, "DEVTYPE", "drm_minor")
        udev_enumerate_scan_devices(list)
        var paths: [String] = []
        var entry = udev_enumerate_get_list_entry(list)
        while let current = entry {
            defer { entry = udev_list_entry_get_next(current) }
            guard let name = udev_list_entry_get_name(current),
                let device = udev_device_new_from_syspath(context, name)
            else { continue }
            defer { udev_device_unref(device) }
            guard let node = udev_device_get_devnode(device) else { continue }
            let path = String(cString: node)
            if path.split(separator: "/").last?.hasPrefix("card") == true { paths.append(path) }
        }
        return paths
    }
}
