// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection

/// What an application gives the `key-response` signal, in any of the forms that are easy to make in its language.
enum ApplicationAnswer {
    /// - 16 bytes: the content key, for a request that names one KID or none;
    /// - JSON: a W3C ClearKey licence (a JSON Web Key set), whatever the key system;
    /// - anything else: lines of a keys file.
    static func read(_ bytes: [UInt8]) throws(KeyError) -> KeyAnswer {
        if bytes.count == ContentKey.size, let key = ContentKey(bytes) { return .key(key) }
        if bytes.first(where: { $0 > UInt8(ascii: " ") }) == UInt8(ascii: "{") {
            return .keys(try ClearKey.keys(inLicense: bytes))
        }
        let lines = try StaticKeys.parse(file: bytes, name: "the application's answer")
        if lines.keysByID.isEmpty, let key = lines.keyWithoutID { return .key(key) }
        return .keys(lines.keysByID)
    }
}
