// SPDX-License-Identifier: MPL-2.0

import KeySystems
import LicenseControl
import ProtectionModel

/// What an application gives the `key-response` signal, in any of the forms that are easy to make in its language.
enum ApplicationAnswer {
    /// Reads the answer to a request for `keyIDs`.
    ///
    /// - 16 bytes: the content key, where one KID (or media without a KID) was asked for;
    /// - JSON: a W3C ClearKey licence (a JSON Web Key set);
    /// - anything else that is text: lines of a keys file.
    static func read(_ bytes: [UInt8], for keyIDs: [KeyID]) throws(KeyError) -> [KeyID?: ContentKey] {
        if bytes.count == ContentKey.size, keyIDs.count <= 1, let key = ContentKey(bytes) {
            return [keyIDs.first: key]
        }
        var keys: [KeyID?: ContentKey] = [:]
        if bytes.first(where: { $0 > UInt8(ascii: " ") }) == UInt8(ascii: "{") {
            for (keyID, key) in try ClearKey.keys(inLicense: bytes) { keys[keyID] = key }
            return keys
        }
        let lines = try StaticKeys.parse(file: bytes, name: "the application's answer")
        for (keyID, key) in lines.keys { keys[keyID] = key }
        if let key = lines.keyWithoutID { keys[KeyID?.none] = key }
        return keys
    }
}
