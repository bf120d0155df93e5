// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyContainers

extension TSDecryptor {
    /// What a player's caps are renamed to where a segment is encrypted with SAMPLE-AES.
    static let pluggedType = "application/x-latchkey-ts"

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
