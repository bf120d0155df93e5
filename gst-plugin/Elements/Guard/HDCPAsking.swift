// SPDX-License-Identifier: MPL-2.0

import LatchkeyOutputs
import LatchkeyProtection

/// Where a guard asks for HDCP. Thread-safe.
protocol HDCPAsking: Sendable {
    /// What went wrong, where something did.
    func ask(_ requirement: OutputRequirement) -> OutputError?
    /// Whether it is known only later that asking leads to nothing. To ask often costs nothing then.
    var mayFailLater: Bool { get }
}

/// Asks on the DRM master's descriptor, which the application keeps.
struct DisplayAsker: HDCPAsking {
    let descriptor: Int32

    func ask(_ requirement: OutputRequirement) -> OutputError? {
        do throws(OutputError) {
            try HDCPRequest(DRMCard(descriptor: descriptor)).request(requirement)
            return nil
        } catch { return error }
    }

    var mayFailLater: Bool { false }
}

/// Asks the compositor of the application's window.
extension WaylandOutputs: HDCPAsking {
    func ask(_ requirement: OutputRequirement) -> OutputError? {
        do throws(OutputError) {
            try request(requirement)
            return nil
        } catch { return error }
    }

    var mayFailLater: Bool { true }
}
