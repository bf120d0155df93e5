// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
public import LatchkeyProtection

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

extension DeviceSecret {
    /// The key that FairPlay-style stored keys are sealed with (`KeySessionConfiguration.deviceSecret`); the secret is
    /// made where there is none.
    ///
    /// Throws `invalidConfiguration` where it cannot be used. May block.
    public func keyForPersistableKeys() throws(KeyError) -> SealingKey {
        do throws(LicenseStoreError) {
            return try ExitGate.pass { () throws(LicenseStoreError) in
                try key(for: "persistable keys 1", creating: true)
            }
        } catch {
            throw .invalidConfiguration("device secret: \(error)")
        }
    }
}
