// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems

extension CKCContainer {
    /// The bytes of the whole CKC: `header`, then `payload`.
    package func serialized() -> [UInt8] { header + payload }
}
