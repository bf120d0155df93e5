// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL

/// OpenSSL refused. `reason` is its packed error code; 0 where it gave none.
package struct CryptoError: Error, Hashable {
    package var reason: UInt

    package init(reason: UInt) { self.reason = reason }

    /// OpenSSL's last error on this thread. The queue is emptied: it belongs to the host application too.
    @inline(never)
    package static func last() -> CryptoError {
        let reason = ERR_peek_last_error()
        ERR_clear_error()
        return CryptoError(reason: UInt(reason))
    }
}

extension CryptoError: CustomStringConvertible {
    package var description: String { "OpenSSL error 0x\(String(reason, radix: 16))" }
}
