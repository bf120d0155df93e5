// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
public import LatchkeyProtection
import Synchronization

extension KeySession {
    /// What the licence of a key wants of outputs. Nil: it says nothing, or there is no such key.
    public func outputRequirement(of keyID: KeyID?) -> OutputRequirement? {
        core.withLock { $0.state.requirements[keyID] }
    }

    /// What the licence of a key says of all kinds of outputs. Nil: it says nothing, or there is no such key.
    public func outputPolicy(of keyID: KeyID?) -> OutputPolicy? {
        core.withLock { $0.state.outputPolicies[keyID] }
    }

    /// Why the licence of a key allows no digital output for this medium; nil where it does, or says nothing.
    public func refusal(of keyID: KeyID?, for media: OutputPolicy.Media) -> KeyError? {
        guard let reason = outputPolicy(of: keyID)?.refusal(of: media) else { return nil }
        let name = keyID.map { "KID \($0)" } ?? "media without a KID"
        return PlayReadyError.outputProtection("\(name): \(reason)").keyError
    }

    /// Whether the outputs have what the licence of this key wants, as far as somebody said so. A key with rules for any
    /// output is `pending` until then, and one without is `sufficient`.
    public func externalProtectionStatus(of keyID: KeyID?) -> ExternalProtectionStatus {
        core.withLock { $0.state.externalProtectionStatus(of: keyID) }
    }

    /// Says what outputs there are; whoever watches them calls this. Loaders hear of each change, on a task.
    public func setExternalProtectionStatus(_ status: ExternalProtectionStatus, of keyID: KeyID?) {
        let loaders = core.withLock { core -> [any ResourceLoader] in
            guard core.state.externalProtectionStatus(of: keyID) != status,
                core.state.policy(of: keyID).hasRulesForOutputs
            else { return [] }
            core.state.protection[keyID] = status
            return core.loaders
        }
        guard !loaders.isEmpty else { return }
        Task { for loader in loaders { loader.externalProtectionStatusDidChange(status, of: keyID) } }
    }
}

extension KeySessionState {
    func externalProtectionStatus(of slot: Slot) -> ExternalProtectionStatus {
        policy(of: slot).hasRulesForOutputs ? protection[slot] ?? .pending : .sufficient
    }
}

extension OutputPolicy {
    fileprivate var hasRulesForOutputs: Bool { hasRules(for: .video) || hasRules(for: .audio) }
}
