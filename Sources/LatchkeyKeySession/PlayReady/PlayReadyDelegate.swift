// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Sends challenges in the place of the client: with fields or cookies of its own, to another address, or through a
/// portal that knows the user.
///
/// Called on a task, never on the main thread. The task is cancelled when nobody wants the licence any more; a delegate
/// that waits for something else than `PlayReadyServiceRequest.send` looks at `Task.isCancelled` itself. A delegate that
/// only adds something:
///
/// ```swift
/// func performLicenseAcquisition(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8] {
///     var request = request
///     request.headers.append(HTTPHeader(name: "Cookie", value: cookie))
///     return try await request.send()
/// }
/// ```
public protocol PlayReadyDelegate: AnyObject, Sendable {
    /// Sends a challenge for a licence and returns the body of the answer, a fault included. Throws, `denied` say, where
    /// there is no usable one; the acquisition has failed then.
    func performLicenseAcquisition(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8]

    /// The same for a challenge to join a domain, which a service asked for. Not implemented: the client sends it.
    func performJoinDomain(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8]
}

extension PlayReadyDelegate {
    /// Sends the challenge as the client would. Throws as `PlayReadyServiceRequest.send` does.
    public func performJoinDomain(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8] {
        try await request.send()
    }
}
