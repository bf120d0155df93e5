// SPDX-License-Identifier: MPL-2.0

import Synchronization

/// A pointer of the application's that goes with its callbacks, and the function that takes it back. Thread-safe.
final class UserData: @unchecked Sendable {
    // SAFETY: the pointer is only handed through; the header says that callbacks come on any thread.

    typealias Destroy = @convention(c) (UnsafeMutableRawPointer?) -> Void

    let pointer: UnsafeMutableRawPointer?
    private let destroy: Mutex<Destroy?>

    init(_ pointer: UnsafeMutableRawPointer?, _ destroy: Destroy?) {
        Callbacks.willBegin()
        self.pointer = pointer
        self.destroy = Mutex(destroy)
    }

    /// Ends its use: no callback gets it any more. A second call does nothing.
    func end() {
        let destroy = destroy.withLock { destroy -> Destroy? in
            defer { destroy = nil }
            return destroy
        }
        if let destroy { Callbacks.call { destroy(pointer) } }
    }
}
