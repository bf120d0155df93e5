// SPDX-License-Identifier: MPL-2.0

import CLatchkeyDRM
import CLatchkeyUdev
import Glibc
import Synchronization

/// The outputs of all display devices, as the kernel reports them. Thread-safe.
///
/// A device that cannot be read makes all unreadable: it may be the one that shows the picture.
public final class KMSOutputs: OutputProvider {
    private let devices: Mutex<Devices>
    private let monitor: UeventMonitor?
    /// Where the kernel lists its devices; nil: no look is taken.
    private let folder: String?

    private struct Devices: ~Copyable {
        var find: () throws(OutputError) -> [any KMSDevice]
        var known: [any KMSDevice]?
        /// What the kernel listed when these were found; nil: it could not be read.
        var names: Set<String>?
    }

    /// The devices that udev knows; they are looked for again after a reading failed or a device came or went.
    public convenience init() {
        self.init(monitor: UeventMonitor(), folder: DRMCards.folder) { () throws(OutputError) in
            try DRMCards.openAll()
        }
    }

    /// These devices, and no hints.
    public convenience init(devices: sending [any KMSDevice]) {
        let list = devices
        self.init(monitor: nil, folder: nil) { () throws(OutputError) in list }
    }

    /// No hints; `find` is called again if other devices are listed in `folder`.
    package convenience init(
        folder: String, find: sending @escaping () throws(OutputError) -> [any KMSDevice]
    ) {
        self.init(monitor: nil, folder: folder, find: find)
    }

    private init(
        monitor: UeventMonitor?, folder: String?, find: sending @escaping () throws(OutputError) -> [any KMSDevice]
    ) {
        self.monitor = monitor
        self.folder = folder
        devices = Mutex(Devices(find: find))
    }

    public func read() -> OutputFacts {
        // Read before the devices are opened: one that comes in between is found the next time.
        let names = folder.flatMap { DRMCards.names(in: $0) }
        return devices.withLock { devices in
            do throws(OutputError) {
                // Without udevd, as in containers, no hint tells of a card. A sandbox may hide the list of those that are open.
                if let names, names != devices.names { devices.known = nil }
                let found: [any KMSDevice]
                if let known = devices.known {
                    found = known
                } else {
                    found = try devices.find()
                    devices.names = names
                }
                devices.known = found
                guard !found.isEmpty else { throw .noDevice }
                var outputs: [Output] = []
                for device in found { outputs += try device.connectors().compactMap(\.output) }
                return .outputs(outputs)
            } catch {
                devices.known = nil
                return .unreadable(error.description)
            }
        }
    }

    public var hintDescriptor: Int32? { monitor?.descriptor }

    public func takeHints() {
        guard let monitor, monitor.takeEvents() else { return }
        // A card may have come or gone.
        devices.withLock { $0.known = nil }
    }
}

/// The display device behind kernel mode setting, as far as output protection goes: a thin layer over its calls.
///
/// Used by one thread at a time.
public protocol KMSDevice: AnyObject {
    /// All connectors as they are now. Nothing is probed: no call waits for a screen.
    func connectors() throws(OutputError) -> [KMSConnector]
    /// Sets a property of a connector. Only the DRM master may.
    func setProperty(_ property: UInt32, to value: UInt64, on connector: KMSConnector) throws(OutputError)
}

/// A connector as the kernel reports it. A value.
public struct KMSConnector: Hashable, Sendable {
    /// A property that is an enumeration: its number, and what it is set to.
    public struct Property: Hashable, Sendable {
        public var id: UInt32
        public var value: UInt64

        public init(id: UInt32, value: UInt64) {
            self.id = id
            self.value = value
        }
    }

    public var id: UInt32
    /// `DRM_MODE_CONNECTOR_…`
    public var type: UInt32
    /// Counts the connectors of a type, from 1.
    public var typeNumber: UInt32
    /// Not `disconnected`: what is not known may have a screen.
    public var isConnected: Bool
    /// Whether a CRTC feeds it.
    public var hasPictures: Bool
    /// The property “Content Protection”: 0 undesired, 1 desired, 2 enabled. Nil where the driver has none.
    public var contentProtection: Property?
    /// The property “HDCP Content Type”: 0 or 1. Nil where the driver has none.
    public var contentType: Property?

    public init(
        id: UInt32, type: UInt32, typeNumber: UInt32 = 1, isConnected: Bool = true, hasPictures: Bool = true,
        contentProtection: Property? = nil, contentType: Property? = nil
    ) {
        self.id = id
        self.type = type
        self.typeNumber = typeNumber
        self.isConnected = isConnected
        self.hasPictures = hasPictures
        self.contentProtection = contentProtection
        self.contentType = contentType
    }
}

extension KMSConnector {
    /// Values of “Content Protection” (Linux, drivers/gpu/drm/drm_connector.c).
    enum ContentProtection {
        static let desired: UInt64 = 1
        static let enabled: UInt64 = 2
    }

    /// What the connector is to licenses. By `DRM_MODE_CONNECTOR_…`; other numbers are not known.
    var kind: Output.Kind {
        switch Int32(truncatingIfNeeded: type) {
        case DRM_MODE_CONNECTOR_eDP, DRM_MODE_CONNECTOR_LVDS, DRM_MODE_CONNECTOR_DSI, DRM_MODE_CONNECTOR_DPI:
            .internalPanel
        case DRM_MODE_CONNECTOR_HDMIA, DRM_MODE_CONNECTOR_HDMIB, DRM_MODE_CONNECTOR_DVID,
            DRM_MODE_CONNECTOR_DisplayPort:
            .digital
        // DVI-I carries both; the analog half has the stricter rules.
        case DRM_MODE_CONNECTOR_VGA, DRM_MODE_CONNECTOR_DVIA, DRM_MODE_CONNECTOR_DVII: .analogMonitor
        case DRM_MODE_CONNECTOR_Composite, DRM_MODE_CONNECTOR_SVIDEO, DRM_MODE_CONNECTOR_Component,
            DRM_MODE_CONNECTOR_9PinDIN, DRM_MODE_CONNECTOR_TV:
            .analogVideo
        case DRM_MODE_CONNECTOR_VIRTUAL, DRM_MODE_CONNECTOR_WRITEBACK, Int32(DRM_MODE_CONNECTOR_USB): .insecure
        default: .unknown
        }
    }

    /// Such as `HDMI-A-1`, as sysfs has it.
    public var name: String {
        let type = drmModeGetConnectorTypeName(type).map { String(cString: $0) } ?? "Unknown"
        return "\(type)-\(typeNumber)"
    }

    /// The output, where it shows anything.
    var output: Output? {
        guard isConnected, hasPictures else { return nil }
        return Output(name: name, kind: kind, protection: protection)
    }

    private var protection: Output.Protection {
        switch contentProtection?.value {
        case ContentProtection.enabled: contentType?.value == 1 ? .hdcpType1 : .hdcpType0
        case ContentProtection.desired: .requested
        default: .none
        }
    }
}

/// Receives changes of display devices through libudev. Used by one thread at a time.
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
