// SPDX-License-Identifier: MPL-2.0

/// The display device behind kernel mode setting, as far as output protection goes: a thin layer over its calls.
///
/// Used by one thread at a time.
public protocol KMSDevice: AnyObject {
    /// All connectors as they are now. Nothing is probed: no call waits for a screen.
    func connectors() throws(OutputError) -> [KMSConnector]
    /// Sets a property of a connector. Only the DRM master may.
    func setProperty(_ property: UInt32, to value: UInt64, on connector: KMSConnector) throws(OutputError)
}

/// A connector as the kernel tells it. A value.
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
