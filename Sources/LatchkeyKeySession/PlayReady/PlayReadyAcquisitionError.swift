// SPDX-License-Identifier: MPL-2.0

public import LatchkeyKeySystems
import LatchkeyContainers
public import LatchkeyProtection

/// Why no PlayReady-style license was acquired.
public struct PlayReadyAcquisitionError: Error, Sendable {
    /// What the exchange or the service says; nil where it came to neither, as for a lost connection.
    public let cause: PlayReadyError?
    /// The same as a key request reports it.
    public let keyError: KeyError

    /// For what the exchange or the service says.
    public init(_ cause: PlayReadyError) {
        self.cause = cause
        keyError = cause.keyError
    }

    /// For everything else: the network, the store, a delegate.
    public init(_ keyError: KeyError) {
        cause = nil
        self.keyError = keyError
    }

    init(_ error: LicenseStoreError) { self.init(KeyError(error)) }

    /// What the store, a license or a key says.
    init(wrapping error: any Error) {
        switch error {
        case let error as LicenseStoreError: self.init(error)
        case let error as KeyError: self.init(error)
        default: self.init(KeyError.malformedResponse("\(error)"))
        }
    }

    /// What the service says beside its number, for the application. It may be anything: do not log it.
    public var customData: String? { cause?.fault?.customData }

    /// What can be done about it.
    public var action: PlayReadyError.Action { cause?.action ?? .stop }
}

extension PlayReadyAcquisitionError: CustomStringConvertible {
    /// That of `keyError`: kind, KID or URL, and what to do.
    public var description: String { keyError.description }
}

extension KeyError {
    /// The license store cannot be used.
    init(_ error: LicenseStoreError) { self = .invalidConfiguration("the license store: \(error)") }

    init(_ error: FormatError) { self = .malformedRequest("\(error)") }
}
