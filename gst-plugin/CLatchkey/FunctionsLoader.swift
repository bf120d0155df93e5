// SPDX-License-Identifier: MPL-2.0

import CLatchkeyLoader
import LatchkeyKeySession
import Synchronization

/// A resource loader made of C functions.
final class FunctionsLoader: ResourceLoader, @unchecked Sendable {
    // SAFETY: `userData` is only handed through, and the header says that the functions are called on any thread.

    typealias Destroy = @convention(c) (UnsafeMutableRawPointer?) -> Void

    let name: String
    private let functions: LatchkeyLoaderFunctions
    private let userData: UnsafeMutableRawPointer?
    private let destroy: Destroy?
    /// The requests that were taken and not finished, by id: their callbacks get the same pointer.
    private let taken = Mutex<[UInt64: KeyRequestHandle]>([:])
    /// Those that are being finished, for what the session asks meanwhile.
    private let finishing = Mutex<[UInt64: KeyRequestHandle]>([:])

    /// Nil where the table cannot be used.
    init?(
        _ name: UnsafePointer<CChar>?, _ table: UnsafePointer<LatchkeyLoaderFunctions>?,
        _ userData: UnsafeMutableRawPointer?, _ destroy: Destroy?
    ) {
        guard let table, let functions = Self.read(table) else { return nil }
        Callbacks.willBegin()
        self.name = name.map { String(cString: $0) } ?? "application"
        self.functions = functions
        self.userData = userData
        self.destroy = destroy
    }

    deinit { if let destroy { Callbacks.call { destroy(userData) } } }

    /// The functions that the caller's table has; what it does not know of is nil.
    private static func read(_ table: UnsafePointer<LatchkeyLoaderFunctions>) -> LatchkeyLoaderFunctions? {
        guard let functions = readTable(table, into: LatchkeyLoaderFunctions()) else { return nil }
        return functions.should_wait == nil && functions.load == nil ? nil : functions
    }

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        let handle = KeyRequestHandle(request, of: self)
        // The functions are lent it, also where the application finishes the request inside one.
        defer { withExtendedLifetime(handle) {} }
        // Before the call: the application may finish the request inside it.
        taken.withLock { $0[request.id] = handle }
        let isTaken = Callbacks.call {
            if let shouldWait = functions.should_wait, shouldWait(handle.pointer, userData) == 0 { return false }
            functions.load?(handle.pointer, userData)
            return true
        }
        if isTaken != true { forget(request.id) }
        return isTaken == true
    }

    func didCancel(_ request: KeyLoadingRequest) {
        guard let handle = forget(request.id) else { return }
        Callbacks.call { functions.cancel?(handle.pointer, userData) }
        withExtendedLifetime(handle) {}
    }

    var needsNoNetwork: Bool { functions.needs_no_network != 0 }

    func shouldRetry(_ request: KeyLoadingRequest, reason: KeyRetryReason) -> Bool {
        guard let shouldRetry = functions.should_retry else { return false }
        let handle = handle(of: request)
        defer { withExtendedLifetime(handle) {} }
        return Callbacks.call { shouldRetry(handle.pointer, LatchkeyRetryReason(reason), userData) != 0 } ?? false
    }

    func didUpdatePersistableContentKey(_ key: [UInt8], for request: KeyLoadingRequest) {
        let handle = handle(of: request)
        key.withUnsafeBufferPointer { key in
            _ = Callbacks.call {
                functions.update_persistable_key?(handle.pointer, key.baseAddress, key.count, userData)
            }
        }
        withExtendedLifetime(handle) {}
    }

    private func handle(of request: KeyLoadingRequest) -> KeyRequestHandle {
        finishing.withLock { $0[request.id] } ?? KeyRequestHandle(request, of: self)
    }

    /// Runs `body`, which finishes the request.
    func finish(_ handle: KeyRequestHandle, _ body: () -> Bool) -> Bool {
        let id = handle.request.id
        forget(id)
        finishing.withLock { $0[id] = handle }
        defer { finishing.withLock { _ = $0.removeValue(forKey: id) } }
        return body()
    }

    @discardableResult
    private func forget(_ id: UInt64) -> KeyRequestHandle? { taken.withLock { $0.removeValue(forKey: id) } }
}

extension LatchkeyRetryReason {
    fileprivate init(_ reason: KeyRetryReason) {
        self =
            switch reason {
            case .timedOut: LATCHKEY_RETRY_TIMED_OUT
            case .receivedResponseWithExpiredLease: LATCHKEY_RETRY_EXPIRED_LEASE
            case .receivedObsoleteContentKey: LATCHKEY_RETRY_OBSOLETE_KEY
            }
    }
}
