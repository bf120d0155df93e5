// SPDX-License-Identifier: MPL-2.0

import CLatchkeyAgent
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization

/// A delegate made of C functions.
final class FunctionsDelegate: PlayReadyDelegate, @unchecked Sendable {
    // SAFETY: the table is not changed; the header says that its functions are called on any thread.

    private typealias Function = @convention(c) (OpaquePointer?, UnsafeMutableRawPointer?) -> Void

    private let functions: LatchkeyDelegateFunctions
    private let userData: UserData

    /// Nil where the table cannot be used.
    init?(_ table: UnsafePointer<LatchkeyDelegateFunctions>, _ userData: UserData) {
        guard let functions = readTable(table, into: LatchkeyDelegateFunctions()) else { return nil }
        self.functions = functions
        self.userData = userData
    }

    func performLicenseAcquisition(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8] {
        try await perform(request, functions.perform_license_acquisition)
    }

    func performJoinDomain(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8] {
        try await perform(request, functions.perform_join_domain)
    }

    private func perform(_ request: PlayReadyServiceRequest, _ function: Function?) async throws(KeyError) -> [UInt8] {
        guard let function else { return try await request.send() }
        let answer = DelegateAnswer()
        let kept = WeakRequest(lend(request, answer, to: function))
        let outcome = await withTaskCancellationHandler {
            await answer.wait()
        } onCancel: {
            guard answer.claim() else { return }
            // Before the acquisition goes on: its end is the end of the user data.
            if let handle = kept.handle {
                withExtendedLifetime(handle) {
                    _ = Callbacks.call { functions.cancel?(handle.pointer, userData.pointer) }
                }
            }
            answer.resume(.failure(.cancelled("the acquisition was cancelled")))
        }
        switch outcome {
        case .send(let request): return try await request.send()
        case .response(let response): return response
        case .failure(let error): throw error
        }
    }

    /// The handle lives on where the application keeps it.
    private func lend(_ request: PlayReadyServiceRequest, _ answer: DelegateAnswer, to function: Function)
        -> ServiceRequestHandle?
    {
        let handle = ServiceRequestHandle(request, answer)
        Callbacks.call { function(handle.pointer, userData.pointer) }
        return handle
    }

    private final class WeakRequest: @unchecked Sendable {
        // SAFETY: written in `init` alone; weak references are thread-safe.
        private(set) weak var handle: ServiceRequestHandle?
        init(_ handle: ServiceRequestHandle?) { self.handle = handle }
    }
}
