// SPDX-License-Identifier: MPL-2.0

public import ProtectionModel

/// Stands in front of a sink and lets nothing pass that the outputs may not show. Thread-safe.
public protocol OutputGuard: AnyObject, Sendable {
    /// What it stands in front of. Nil: not known yet.
    var media: OutputPolicy.Media? { get }
    /// What all outputs have at least, by the latest reading; nil: unknown.
    var outputLevel: OutputRequirement? { get }
    /// Other keys are in use than before, see `KeySession.outputPoliciesInUse`. Their samples are decrypted after this
    /// returns, so it must have acted by then.
    func keysInUseDidChange()
}

/// Keeps a guard without keeping it alive.
struct WeakOutputGuard {
    weak var value: (any OutputGuard)?
}
