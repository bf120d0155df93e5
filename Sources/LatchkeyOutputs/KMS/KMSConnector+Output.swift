// SPDX-License-Identifier: MPL-2.0

import CLatchkeyDRM

extension KMSConnector {
    /// Values of “Content Protection” (Linux, drivers/gpu/drm/drm_connector.c).
    enum ContentProtection {
        static let desired: UInt64 = 1
        static let enabled: UInt64 = 2
    }

    /// What the connector is to licences. By `DRM_MODE_CONNECTOR_…`; other numbers are not known.
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
