// SPDX-License-Identifier: MPL-2.0

import KeySystems
import MediaFormats
import ProtectionModel

extension FuzzTarget {
    static let fairPlay: [FuzzTarget] = [
        FuzzTarget("spc") { bytes in
            guard let container = try? SPCContainer(reading: bytes) else { return }
            promise(container.serialized() == bytes, "what is read writes the same")
        },
        FuzzTarget("ckc") { bytes in
            guard let container = try? CKCContainer(reading: bytes) else { return }
            promise(container.serialized() == bytes, "what is read writes the same")
        },
        FuzzTarget("tllv") { bytes in
            guard let payload = try? TLLVPayload(reading: bytes) else { return }
            promise((try? payload.serialized()) == bytes, "what is read writes the same")
            for block in payload.blocks {
                _ = try? ContentKeyDuration(tllvValue: block.value)
                _ = try? DeviceIdentity(tllvValue: block.value)
                _ = try? HDCPRequirement(tllvValue: block.value)
                _ = try? MediaPlaybackState(tllvValue: block.value)
                _ = try? OfflineKeyTerms(tllvValue: block.value)
                _ = try? StreamingIndicator(tllvValue: block.value)
            }
        },
        FuzzTarget("persistable-key") { bytes in
            let secret = [UInt8](repeating: 7, count: 32)
            _ = try? FairPlayPersistableKey(opening: bytes, secret: secret, contentIdentifier: nil, now: 1_000_000)
        },
    ]
}
