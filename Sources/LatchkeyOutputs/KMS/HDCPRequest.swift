// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

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
