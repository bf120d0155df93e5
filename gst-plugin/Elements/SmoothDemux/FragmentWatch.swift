// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyContainers

/// Looks whether the first fragment of a stream is encrypted. Belongs to the thread that brings the stream.
final class FragmentWatch {
    /// A header that is longer is not waited for.
    private static let limit = 64 * 1024

    private var start: [UInt8] = []
    private var verdict: Bool?

    /// Whether the stream that the buffer goes on is known to be encrypted.
    func isEncrypted(_ buffer: borrowing Buffer) -> Bool {
        if let verdict { return verdict }
        _ = buffer.withBytes { start += $0.prefix(Self.limit - start.count) }
        let found = ISORecognition.isEncryptedFragment(start)
        guard found != nil || start.count >= Self.limit else { return false }
        verdict = found ?? false
        start = []
        return found ?? false
    }
}
