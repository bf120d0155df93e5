// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Where signed time comes from: a time service, or a licence service that acts as one. Thread-safe.
public protocol SignedTimeSource: Sendable {
    /// The name for messages: the printable URL, say.
    var name: String { get }

    /// The service's answer for a random nonce of 16 bytes, as it came. Nothing of it is believed before a
    /// `SignedTimeVerifier` has looked at it.
    func response(toNonce nonce: [UInt8]) async throws(TrustedClockError) -> [UInt8]
}

/// Reads and verifies the answers of a time service. Thread-safe.
public protocol SignedTimeVerifier: Sendable {
    /// The time in the answer. Throws `notGenuine` unless the answer is signed by who may, and for this nonce.
    func time(in response: [UInt8], nonce: [UInt8]) throws(TrustedClockError) -> UnixTime
}

/// A time service: how to ask it, and how to tell that it was the one that answered.
public struct SignedTimeService: Sendable {
    /// How to ask.
    public var source: any SignedTimeSource
    /// How to tell who answered.
    public var verifier: any SignedTimeVerifier

    /// Both are kept as long as the service and called on any task.
    public init(source: any SignedTimeSource, verifier: any SignedTimeVerifier) {
        self.source = source
        self.verifier = verifier
    }
}
