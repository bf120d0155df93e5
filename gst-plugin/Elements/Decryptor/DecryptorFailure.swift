// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyProtection

/// Why a decryptor cannot go on, with the error that it posts and the flow result that it returns.
enum DecryptorFailure: Error, Sendable {
    case key(KeyID?, KeyError)
    case malformedSample(String, KeyID?)
    /// Neither the stream nor the key brings an IV for its samples.
    case noVector(KeyID?)
    /// Buffers came, and no caps before them.
    case notMedia
    /// The stream is not ISO media but, as far as GStreamer knows, of this type.
    case otherMedia(String?)
    /// The container of the samples cannot be read.
    case malformedStream(String)
    /// What comes before the decryptor does not bring the bytes that it promised.
    case source(String)
    /// The network failed for longer than is waited for.
    case lost(PresentationFailure)
    case cipher(String, KeyID?)
    /// What comes after the decryptor takes none but secure memory, of this caps feature where it has one, and nobody is
    /// there to fill it.
    case secureMemory(String?)
    /// Somebody is there to fill it, and it is not to be had.
    case noSecureMemory
    /// The platform's decryptor of this name failed.
    case secureDecryptor(String, String, KeyID?)
    case outOfMemory
    case notMappable
    case configuration(KeyError)
    /// What comes after the decryptor failed.
    case downstream(FlowResult)

    var flow: FlowResult {
        switch self {
        case .secureMemory, .noSecureMemory, .notMedia: .notNegotiated
        case .downstream(let result): result
        default: .error
        }
    }

    /// The failure of a key in a session that is over for this reason; nil: the session goes on.
    func because(of endOfSession: KeyError?) -> DecryptorFailure {
        guard case .key(let keyID, _) = self, let endOfSession else { return self }
        return .key(keyID, endOfSession)
    }

    /// `keyName` says to people which key it is about.
    func post(on element: ElementReference, naming keyName: (KeyID?) -> String = Self.name) {
        switch self {
        case .key(_, let error) where error.isSameKind(as: .sessionClosed("")):
            Self.postEnd(because: error, on: element)
        case .key(let keyID, let error):
            element.postError(
                GST_STREAM_ERROR_DECRYPT_NOKEY, "No key for \(keyName(keyID)): \(error).",
                debug: error.isSameKind(as: .denied(""))
                    ? "The key is there to be had, but not on these terms: the reason says what is wanted."
                    : "Give the key with keys-file=, name a license service with license-url=, or answer the "
                        + "latchkey-key-request message.")
        case .malformedSample(let reason, let keyID):
            element.postError(
                GST_STREAM_ERROR_DECRYPT, "A sample cannot be decrypted: \(reason).",
                debug: "In \(keyName(keyID)). The media contradicts itself: have it packaged again, or try another "
                    + "demuxer.")
        case .noVector(let keyID):
            element.postError(
                GST_STREAM_ERROR_DECRYPT,
                "A sample cannot be decrypted: neither the stream nor the key for \(keyName(keyID)) brings an "
                    + "initialization vector.",
                debug: "Give it with the key: in a keys file it is the third item of the line, behind the key; in HLS "
                    + "the IV attribute of EXT-X-KEY has it.")
        case .malformedStream(let reason):
            element.postError(
                GST_STREAM_ERROR_DECRYPT, "The stream cannot be decrypted: \(reason).",
                debug: "The media is damaged, cut short, or of another kind than the decryptor reads. Fetch it again, "
                    + "or have it packaged again.")
        case .source(let reason):
            element.postError(
                GST_RESOURCE_ERROR_READ, "The source cannot be read: \(reason).",
                debug:
                    "The connection broke, or the file changed while it was read. Open it again, or download it first.")
        case .lost(let failure): failure.post(on: element)
        case .notMedia:
            element.postError(
                GST_STREAM_ERROR_WRONG_TYPE, "Nothing says what the buffers are: they have no caps.",
                debug: "Put a demuxer such as qtdemux or matroskademux in front of the decryptor.")
        case .otherMedia(let type):
            element.postError(
                GST_STREAM_ERROR_WRONG_TYPE,
                "The stream is not ISO media: it is \(type ?? "of a type that GStreamer does not know").",
                debug: "This decryptor takes MP4, PIFF and QuickTime files and their fragments. For transport streams "
                    + "and packed audio use latchkeytsdec; for other containers a demuxer, and latchkeycencdec behind "
                    + "it.")
        case .cipher(let reason, let keyID):
            element.postError(
                GST_STREAM_ERROR_DECRYPT, "A sample cannot be decrypted: \(reason).",
                debug: "In \(keyName(keyID)). The sample and what the container says of it do not fit together: have "
                    + "the media packaged again, or try another demuxer.")
        case .secureMemory(let feature):
            element.postError(
                GST_STREAM_ERROR_DECRYPT,
                "The decoder wants secure memory\(feature.map { " (\($0))" } ?? ""), and no secure decryptor is registered "
                    + "that fills it.",
                debug: "Secure memory is filled behind a demuxer, by a decryptor of the platform that the application "
                    + "registers: latchkey_secure_decryptor_register() in C, Latchkey.register(_:) in Swift. Or choose "
                    + "another decoder, for example with GST_PLUGIN_FEATURE_RANK.")
        case .noSecureMemory:
            element.postError(
                GST_STREAM_ERROR_DECRYPT, "Neither the decoder nor the secure decryptor gives memory for a sample.",
                debug: "Link the decoder right behind the decryptor, so that it can propose its memory, or have the "
                    + "secure decryptor allocate it.")
        case .secureDecryptor(let name, let reason, let keyID):
            element.postError(
                GST_STREAM_ERROR_DECRYPT, "The secure decryptor “\(name)” failed: \(reason).",
                debug: "In \(keyName(keyID)). What the platform's trusted environment logs may tell more.")
        case .outOfMemory:
            element.postError(
                GST_RESOURCE_ERROR_NO_SPACE_LEFT, "No memory for a decrypted sample.",
                debug: "Give the process more memory, or make the queues in the pipeline smaller.")
        case .notMappable:
            element.postError(
                GST_STREAM_ERROR_DECRYPT, "A sample lies in memory that cannot be read.",
                debug: "The element in front of the decryptor hands out memory of a device: choose another one, for "
                    + "example with GST_PLUGIN_FEATURE_RANK.")
        case .downstream(let result):
            element.postError(
                GST_STREAM_ERROR_FAILED, "The stream behind the decryptor failed.",
                debug: "streaming stopped, reason \(result) (\(result.rawValue))")
        case .configuration(let error):
            element.postError(
                GST_RESOURCE_ERROR_SETTINGS, "\(error).",
                debug: "Correct the element's property, or the configuration file (LATCHKEY_CONFIG, or "
                    + "latchkey/latchkey.conf in the user's configuration folder).")
        }
    }

    /// Posts that the session is over, and playback with it.
    static func postEnd(because reason: KeyError, on element: ElementReference) {
        element.postError(
            GST_STREAM_ERROR_DECRYPT_NOKEY, "Playback ends: \(reason).",
            debug: "The right to play this presentation has ended. Open it again with a new session or license.")
    }

    /// Why a key is a wrong one.
    static let otherChecksum = "it has another checksum than the content's PlayReady header says"

    static func name(_ keyID: KeyID?) -> String { keyID.map { "KID \($0)" } ?? "media without a KID" }
}
