// SPDX-License-Identifier: MPL-2.0

public import ProtectionModel

/// The secret of this device, from which the keys of the licence store are derived.
///
/// Whoever has it can open the store, so it stays on the device. Called on the thread of the store, which it may
/// block; thread-safe.
public protocol DeviceSecret: Sendable {
    /// A key of 32 bytes for one purpose: the same for the same purpose, and for another purpose one that tells nothing
    /// of this. A secret that is not there is made where `creating` is set; else it throws `secretMissing`, so that a
    /// store is never opened with a new secret by mistake.
    func key(for purpose: String, creating: Bool) throws(LicenseStoreError) -> SealingKey
}
