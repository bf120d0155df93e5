// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import ProtectionModel

/// Why a decryptor cannot go on, with the error that it posts and the flow result that it returns.
enum DecryptorFailure: Error, Sendable {
    case key(KeyID?, KeyError)
    case malformedSample(String, KeyID?)
    /// The container of the samples cannot be read.
    case malformedStream(String)
    case cipher(String, KeyID?)
    case secureMemory
    case outOfMemory
    case notMappable
    case configuration(KeyError)
    /// What comes after the decryptor failed.
    case downstream(FlowResult)

    var flow: FlowResult {
        switch self {
        case .secureMemory: .notNegotiated
        case .downstream(let result): result
        default: .error
        }
    }

    func post(on element: ElementReference) {
        switch self {
        case .key(let keyID, let error):
            element.postError(
                GST_STREAM_ERROR_DECRYPT_NOKEY, "No key for \(Self.name(keyID)): \(error).",
                debug: "Give the key with keys-file=, name a licence service with license-url=, or answer the "
                    + "latchkey-key-request message.")
        case .malformedSample(let reason, let keyID):
            element.postError(
                GST_STREAM_ERROR_DECRYPT, "A sample cannot be decrypted: \(reason).", debug: Self.name(keyID))
        case .malformedStream(let reason):
            element.postError(
                GST_STREAM_ERROR_DECRYPT, "The stream cannot be decrypted: \(reason).", debug: "")
        case .cipher(let reason, let keyID):
            element.postError(
                GST_STREAM_ERROR_DECRYPT, "A sample cannot be decrypted: \(reason).", debug: Self.name(keyID))
        case .secureMemory:
            element.postError(
                GST_STREAM_ERROR_DECRYPT, "The decoder wants secure memory, which this decryptor cannot fill.",
                debug: "Secure memory needs a decryptor that runs in the trusted environment. Choose another decoder, "
                    + "for example with GST_PLUGIN_FEATURE_RANK.")
        case .outOfMemory:
            element.postError(
                GST_RESOURCE_ERROR_NO_SPACE_LEFT, "No memory for a decrypted sample.", debug: "")
        case .notMappable:
            element.postError(
                GST_STREAM_ERROR_DECRYPT, "A sample lies in memory that cannot be read.", debug: "")
        case .downstream(let result):
            element.postError(
                GST_STREAM_ERROR_FAILED, "The stream behind the decryptor failed.",
                debug: "streaming stopped, reason \(result) (\(result.rawValue))")
        case .configuration(let error):
            element.postError(GST_RESOURCE_ERROR_SETTINGS, "\(error).", debug: "")
        }
    }

    static func name(_ keyID: KeyID?) -> String { keyID.map { "KID \($0)" } ?? "media without a KID" }
}
