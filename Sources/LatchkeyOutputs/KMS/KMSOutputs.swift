// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// The outputs of all display devices, as the kernel tells them. Thread-safe.
///
/// A device that cannot be read makes all unreadable: it may be the one that shows the picture.
public final class KMSOutputs: OutputProvider {
    private let devices: Mutex<Devices>
    private let monitor: UeventMonitor?

    private struct Devices: ~Copyable {
        var find: () throws(OutputError) -> [any KMSDevice]
        var known: [any KMSDevice]?
    }

    /// The devices that udev knows; they are looked for again after a reading failed or a device came.
    public convenience init() {
        self.init(monitor: UeventMonitor()) { () throws(OutputError) in try DRMCards.openAll() }
    }

    /// These devices, and no hints.
    public convenience init(devices: sending [any KMSDevice]) {
        let list = devices
        self.init(monitor: nil) { () throws(OutputError) in list }
    }

    private init(monitor: UeventMonitor?, find: sending @escaping () throws(OutputError) -> [any KMSDevice]) {
        self.monitor = monitor
        devices = Mutex(Devices(find: find))
    }

    public func read() -> OutputFacts {
        devices.withLock { devices in
            do throws(OutputError) {
                let found: [any KMSDevice]
                if let known = devices.known { found = known } else { found = try devices.find() }
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
