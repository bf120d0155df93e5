// SPDX-License-Identifier: MPL-2.0

import Foundation
import MediaFormats
import ProtectionModel
import Testing

/// The files that Golden/PlayReady/golden.py of the key systems' tests puts together without Latchkey's code.
enum PlayReadyGolden {
    private static let folder = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("KeySystemsTests/Golden/PlayReady")

    static func file(_ name: String) throws -> [UInt8] {
        Array(try Data(contentsOf: folder.appendingPathComponent(name)))
    }

    static let known: [String: String] = {
        let object = try? JSONSerialization.jsonObject(with: Data(file("known.json"))) as? [String: Any]
        return (object ?? [:]).compactMapValues { $0 as? String }
    }()

    static func known(_ name: String) throws -> [UInt8] { try #require(known[name].flatMap { Hex.decode($0) }) }

    static func keyID(_ name: String = "keyID") throws -> KeyID { try #require(KeyID(try known(name))) }

    static func publicKey(_ name: String) throws -> [UInt8] {
        let object = try JSONSerialization.jsonObject(with: Data(file("known.json"))) as? [String: Any]
        let keys = try #require(object?["publicKeys"] as? [String: String])
        return try #require(keys[name].flatMap { Hex.decode($0) })
    }

    static func guid(_ text: String) throws -> GUID { try #require(GUID(text)) }
}
