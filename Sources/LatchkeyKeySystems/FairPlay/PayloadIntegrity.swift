// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

/// This project's own addition to SPC and CKC: a code over the whole message, so that no change goes unnoticed.
///
/// The formats protect little by themselves. The payload is encrypted with AES-CBC and has no code, so that a flipped
/// byte in random padding changes random bytes into other random bytes, and one in the encrypted content key makes
/// another key. The optional block closes this: its value is HMAC-SHA-256 over the container's header and the clear
/// payload, with the 32 bytes of this value as zeros in it. The key is the payload's: the wrapped key for an SPC, the
/// derived one for a CKC. Peers that do not know the tag ignore it.
///
/// So that the block cannot be made to vanish by changing its tag, an SPC that has it names it in its return request: a
/// return request for a block that is not there is an error.
package enum PayloadIntegrity {
    /// In bytes.
    package static let size = 32

    /// What the code is over.
    package static func message(header: [UInt8], payload: TLLVPayload, tag: TLLV.Tag) throws(FormatError) -> [UInt8] {
        let zeros = [UInt8](repeating: 0, count: size)
        return header + (try payload.replacingValue(of: tag, with: zeros).serialized())
    }
}
