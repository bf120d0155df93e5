// SPDX-License-Identifier: MPL-2.0

import CLatchkeyDRM
import CLatchkeyUdev
import Glibc
public import LatchkeyProtection

/// A display device through libdrm.
public final class DRMCard: KMSDevice {
    private let descriptor: Int32
    private let isOwned: Bool
    /// The numbers of the properties that matter; they never change for a device.
    private var names: [UInt32: Name] = [:]

    private enum Name { case contentProtection, contentType, other }

    /// Opens a device such as `/dev/dri/card0`. The first process to open it becomes the DRM master, which `keepsMaster`
    /// keeps: that is for requests, and keeps a compositor out.
    public init(path: String, keepsMaster: Bool = false) throws(OutputError) {
        descriptor = open(path, O_RDWR | O_CLOEXEC)
        isOwned = true
        guard descriptor >= 0 else { throw .failed("opening \(path)", errno) }
        if !keepsMaster { drmDropMaster(descriptor) }
    }

    /// Uses a descriptor that the caller keeps open for as long as the object lives, such as that of the DRM master.
    public init(descriptor: Int32) {
        self.descriptor = descriptor
        isOwned = false
    }

    deinit { if isOwned, descriptor >= 0 { close(descriptor) } }

    public func connectors() throws(OutputError) -> [KMSConnector] {
        guard let resources = drmModeGetResources(descriptor) else {
            let number = errno
            if number == EOPNOTSUPP, onlyDraws { return [] }
            throw .failed("drmModeGetResources", number)
        }
        defer { drmModeFreeResources(resources) }
        var list: [KMSConnector] = []
        // SAFETY: libdrm gives as many numbers as it counts.
        let ids = UnsafeBufferPointer(
            start: resources.pointee.connectors, count: Int(resources.pointee.count_connectors))
        for id in ids {
            // One that is gone between the two calls has no picture any more.
            if let connector = try connector(id) { list.append(connector) }
        }
        return list
    }

    /// Drivers of processors that draw and show nothing, as boards have them beside the display's. Others without connectors
    /// may show pictures in a way of their own, as NVIDIA's do.
    private static let drawing: Set = ["asahi", "etnaviv", "lima", "panfrost", "panthor", "powervr", "v3d"]

    private var onlyDraws: Bool {
        guard let version = drmGetVersion(descriptor) else { return false }
        defer { drmFreeVersion(version) }
        // SAFETY: libdrm ends the name with zero.
        return version.pointee.name.map { Self.drawing.contains(String(cString: $0)) } ?? false
    }

    private func connector(_ id: UInt32) throws(OutputError) -> KMSConnector? {
        guard let found = drmModeGetConnectorCurrent(descriptor, id) else {
            if errno == ENOENT { return nil }
            throw .failed("drmModeGetConnectorCurrent", errno)
        }
        defer { drmModeFreeConnector(found) }
        var connector = KMSConnector(
            id: id, type: found.pointee.connector_type, typeNumber: found.pointee.connector_type_id,
            isConnected: found.pointee.connection != DRM_MODE_DISCONNECTED, hasPictures: false)
        connector.hasPictures = try hasPictures(found.pointee.encoder_id)
        guard let properties = drmModeObjectGetProperties(descriptor, id, DRM_MODE_OBJECT_CONNECTOR) else {
            throw .failed("drmModeObjectGetProperties", errno)
        }
        defer { drmModeFreeObjectProperties(properties) }
        for index in 0..<Int(properties.pointee.count_props) {
            // SAFETY: libdrm gives as many of both as it counts.
            let property = KMSConnector.Property(
                id: properties.pointee.props[index], value: properties.pointee.prop_values[index])
            switch try name(of: property.id) {
            case .contentProtection: connector.contentProtection = property
            case .contentType: connector.contentType = property
            case .other: break
            }
        }
        return connector
    }

    private func hasPictures(_ encoder: UInt32) throws(OutputError) -> Bool {
        guard encoder != 0 else { return false }
        guard let found = drmModeGetEncoder(descriptor, encoder) else { throw .failed("drmModeGetEncoder", errno) }
        defer { drmModeFreeEncoder(found) }
        return found.pointee.crtc_id != 0
    }

    private func name(of property: UInt32) throws(OutputError) -> Name {
        if let known = names[property] { return known }
        guard let found = drmModeGetProperty(descriptor, property) else {
            throw .failed("drmModeGetProperty", errno)
        }
        defer { drmModeFreeProperty(found) }
        // SAFETY: the kernel's names have at most 32 bytes and end with zero, and libdrm keeps them so.
        let text = withUnsafeBytes(of: &found.pointee.name) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
        let name: Name =
            switch text {
            case "Content Protection": .contentProtection
            case "HDCP Content Type": .contentType
            default: .other
            }
        names[property] = name
        return name
    }

    public func setProperty(
        _ property: UInt32, to value: UInt64, on connector: KMSConnector
    ) throws(OutputError) {
        let result = drmModeObjectSetProperty(descriptor, connector.id, DRM_MODE_OBJECT_CONNECTOR, property, value)
        guard result != 0 else { return }
        let number = result < -1 ? -result : errno
        if number == EACCES || number == EPERM { throw .refused(connector.name, number) }
        throw .failed("drmModeObjectSetProperty on \(connector.name)", number)
    }
}

/// Finds the display devices.
enum DRMCards {
    /// Where the kernel lists them, also in containers.
    static let folder = "/sys/class/drm"

    /// Such as `card0`, of a folder like that: without connectors and devices that only render. Nil if it cannot be read.
    static func names(in path: String) -> Set<String>? {
        guard let folder = opendir(path) else { return nil }
        defer { closedir(folder) }
        var names: Set<String> = []
        while let entry = readdir(folder) {
            // SAFETY: the name ends in NUL, within the entry.
            let name = withUnsafePointer(to: &entry.pointee.d_name) {
                $0.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name.hasPrefix("card"), name.dropFirst(4).allSatisfy(\.isNumber) { names.insert(name) }
        }
        return names
    }

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

/// Asks links for HDCP on a DRM master's descriptor, which the application or the sink supplies. Reading whether it came
/// is `KMSOutputs`' part: to ask is no proof.
public struct HDCPRequest {
    private let device: any KMSDevice

    public init(_ device: any KMSDevice) { self.device = device }

    /// Has every external digital output that shows pictures authenticate (“Content Protection” = desired, “HDCP Content
    /// Type”). Sets nothing where that is asked already. Throws where the process may not ask or the driver cannot.
    ///
    /// `.unprotected` asks for nothing, and takes nothing back: another player may need it.
    public func request(_ requirement: OutputRequirement) throws(OutputError) {
        guard requirement != .unprotected else { return }
        for connector in try device.connectors() where connector.output?.kind == .digital {
            guard let protection = connector.contentProtection else {
                throw .notOffered(connector.name, "Content Protection")
            }
            let wanted: UInt64 = requirement == .hdcpType1 ? 1 : 0
            // The stricter type stays: it is good for either.
            if let type = connector.contentType {
                if type.value < wanted { try device.setProperty(type.id, to: wanted, on: connector) }
            } else if wanted == 1 {
                throw .notOffered(connector.name, "HDCP Content Type")
            }
            if protection.value == 0 {
                try device.setProperty(protection.id, to: KMSConnector.ContentProtection.desired, on: connector)
            }
        }
    }
}
