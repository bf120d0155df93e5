// SPDX-License-Identifier: MPL-2.0

import ElementKit
import MediaFormats
import ProtectionModel

extension TSDecryptor {
    /// What a player's caps are renamed to where a segment is encrypted with SAMPLE-AES.
    static let pluggedType = "application/x-latchkey-ts"

    /// Fields of it, for a transport stream without notes: `key-id=(string)`, 32 hexadecimal digits, and `iv=(string)`,
    /// the same, or left out where the IV is the key's own.
    private enum Field {
        static let keyID = "key-id"
        static let vector = "iv"
    }

    private static let transportStream = "video/mpegts, systemstream=(boolean)true"
    private static let id3 = "application/x-id3"
    private static let aac = "audio/mpeg, mpegversion=(int)4, stream-format=(string)adts"
    private static let ac3 = "audio/x-ac3"
    private static let eac3 = "audio/x-eac3"

    static let producedTypes = [transportStream, id3, aac, ac3, eac3].joined(separator: "; ")

    /// What the sink pad takes from whoever links it.
    static let acceptedCaps =
        Caps.permanent(
            [
                pluggedType, transportStream, id3, "audio/mpeg, mpegversion=(int){ 2, 4 }, stream-format=(string)adts",
                ac3, eac3,
            ].joined(separator: "; ")) ?? .any

    /// The caps that make players plug this element. `impliedNote` is what a note in front of the stream would say.
    static func plugged(impliedNote: SegmentKey?) -> Caps? {
        Caps(pluggedType)?.map { structure in
            if let keyID = impliedNote?.keyID { structure.set(Field.keyID, keyID.description) }
            if let vector = impliedNote?.initializationVector { structure.set(Field.vector, Hex.encode(vector.bytes)) }
            return true
        }
    }

    /// What the caps say in place of a note.
    static func impliedNote(in caps: Caps) -> SegmentKey? {
        guard caps.mediaType() == pluggedType, let keyID = caps.string(Field.keyID).flatMap({ KeyID(hex: $0) }) else {
            return nil
        }
        let vector = caps.string(Field.vector).flatMap { Hex.decode($0) }.flatMap { InitializationVector($0) }
        return SegmentKey(keyID: keyID, initializationVector: vector)
    }

    /// The caps of what goes on.
    static func caps(of output: SampleAESStream.Output) -> Caps? {
        switch output {
        case .transportStream: Caps(transportStream + ", packetsize=(int)188")
        case .id3: Caps(id3)
        case .audio(.ac3): Caps(ac3)
        case .audio(.eac3): Caps(eac3)
        case .audio: Caps(aac)
        }
    }
}
