// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyProtection

/// What a decryptor does with the clear samples of one stream, as far as secure memory is concerned. Belongs to the
/// stream's thread.
struct SecureOutput {
    /// The caps to announce.
    let caps: Caps
    /// Nil where none takes the stream: ordinary memory, or none at all.
    let decryptor: (any SecureStreamDecryptor)?
    let name: String
    /// Why the stream cannot go on: what is behind takes no other memory.
    let refusal: DecryptorFailure?
    /// The caps name secure memory: every sample goes there.
    private let isAnnounced: Bool

    /// Looks what the other side of `pad` takes. `clear` are the caps of the media, whatever memory they name.
    init(_ clear: Caps, on pad: Pad) {
        let stream = SecureStream(clear)
        let chosen = SecureDecryptors.first(for: stream)
        let taken = pad.peerCaps()
        let foreign = Self.foreignMemory(in: taken, for: clear)
        var caps = clear
        var refusal: DecryptorFailure?
        if let chosen {
            if let feature = chosen.memoryFeature {
                let secure = clear.settingMemory(feature)
                // Inside a player nothing is linked yet when the caps come: it plugs what the caps ask for.
                let isTaken = taken.isAny ? ElementFactories.hasDecoder(for: secure) : secure.canIntersect(taken)
                if isTaken { caps = secure }
            } else if let foreign {
                caps = clear.settingMemory(foreign)
            }
        }
        if !taken.isAny, !caps.canIntersect(taken), let foreign { refusal = .secureMemory(foreign) }
        isAnnounced = chosen != nil && caps.memoryFeature() != nil
        self.caps = caps
        name = chosen?.name ?? ""
        do throws(SecureDecryptionError) {
            decryptor = try chosen?.makeStreamDecryptor(for: SecureStream(caps))
        } catch {
            decryptor = nil
            refusal = .secureDecryptor(name, error.description, nil)
        }
        self.refusal = refusal
    }

    /// The memory that the other side wants for this media, where it does not take it in ordinary memory.
    private static func foreignMemory(in taken: Caps, for clear: Caps) -> String? {
        guard !taken.isAny, !clear.canIntersect(taken) else { return nil }
        return (0..<taken.count).lazy.compactMap { taken.memoryFeature(at: $0) }
            .first { clear.settingMemory($0).canIntersect(taken) }
    }

    /// Whether samples go into secure memory.
    func isUsed(for output: OutputMemory) -> Bool {
        decryptor != nil && (isAnnounced || !output.isMappable)
    }
}
