// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Stands in front of a sink and lets nothing pass that the outputs may not show. Thread-safe.
public protocol OutputGuard: AnyObject, Sendable {
    /// What flows through it. Nil: not known yet.
    var media: OutputPolicy.Media? { get }
    /// Whether media may be on its way from decryptors to the sink.
    var isShowing: Bool { get }
    /// What all outputs have at least, by the latest reading; nil: unknown.
    var outputLevel: OutputRequirement? { get }
    /// The most pixels a frame may have on the outputs that there are, by what the keys in use want; nil: no limit.
    var maximumPixels: Int? { get }
    /// Other keys are in use than before, see `KeySession.outputPoliciesInUse`. Their samples are decrypted after this
    /// returns, so it must have acted by then.
    func keysInUseDidChange()
    /// Other guards are there, or one knows its medium now. To be acted on soon, on another thread than the caller's.
    func otherGuardsDidChange()
}

/// Keeps a guard without keeping it alive.
struct WeakOutputGuard {
    weak var value: (any OutputGuard)?
}
