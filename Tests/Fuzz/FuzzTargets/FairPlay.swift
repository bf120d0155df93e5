// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyKeySystems
import LatchkeyProtection

extension FuzzTarget {
    static let fairPlay: [FuzzTarget] = [
        FuzzTarget("fairplay-spc") { bytes in
            guard let container = try? SPCContainer(reading: bytes) else { return }
            promise(container.serialized() == bytes, "what is written reads the same")
        },
        FuzzTarget("fairplay-ckc") { bytes in
            guard let container = try? CKCContainer(reading: bytes) else { return }
            promise(container.serialized() == bytes, "what is written reads the same")
        },
        FuzzTarget("fairplay-tllv") { bytes in
            guard let payload = try? TLLVPayload(reading: bytes) else { return }
            promise((try? payload.serialized()) == bytes, "what is written reads the same")
            check(payload, ProtocolVersion.self)
            check(payload, ProtocolVersions.self)
            check(payload, ReturnRequest.self)
            check(payload, MediaPlaybackState.self)
            check(payload, StreamingIndicator.self)
            check(payload, DeviceIdentity.self)
            check(payload, ContentKeyDuration.self)
            check(payload, HDCPRequirement.self)
            check(payload, OfflineKeyTerms.self)
        },
        // The input is the clear payload of a CKC: a provider without a cipher lets it through to the rest.
        FuzzTarget("fairplay-license") { bytes in
            guard let exchange = clearExchange,
                let container = try? CKCContainer(
                    version: 1, initializationVector: [UInt8](repeating: 0, count: 16), payload: bytes),
                let license = try? exchange.open(response: container.serialized())
            else { return }
            promise(license.contentKey?.initializationVector != nil, "a key comes with its IV")
            promise(!license.returnedBlocks.isEmpty, "the transaction identifier comes back")
            _ = try? FairPlayPersistableKey(license: license, contentIdentifier: [], now: .max)
        },
        FuzzTarget("fairplay-persistable-key") { bytes in
            let secret = [UInt8](repeating: 0x5A, count: FairPlayPersistableKey.secretSize)
            guard let key = try? FairPlayPersistableKey(opening: bytes, secret: secret, now: 1_700_000_000) else {
                return
            }
            let sealed = (try? key.sealed(secret: secret)) ?? []
            let again = try? FairPlayPersistableKey(opening: sealed, secret: secret, now: 1_700_000_000)
            promise(again.map { $0.contentKey == key.contentKey } == true, "what is written reads the same")
        },
        FuzzTarget("fairplay-certificate") { bytes in
            _ = try? FairPlayExchange(
                certificate: bytes, contentIdentifier: [1, 2], provider: ClearProvider(), random: zeros)
        },
    ]

    private static func check<Value: TLLVValue>(_ payload: TLLVPayload, _ type: Value.Type) {
        guard let value = try? payload.value(type) else { return }
        promise((try? Value(tllvValue: value.tllvValue)) == value, "what is written reads the same")
    }
}

private let zeros = RandomSource { [UInt8](repeating: 0, count: $0) }

/// Its transaction identifier is eight zeros.
private let clearExchange: FairPlayExchange? = {
    guard let authority = try? FairPlayTestAuthority.generate(.v1) else { return nil }
    return try? FairPlayExchange(
        certificate: authority.certificate, contentIdentifier: [1, 2], provider: ClearProvider(), random: zeros)
}()

private struct ClearProvider: KeyPayloadProvider {
    func makeKeyPayload(deviceIdentifier: [UInt8], random: RandomSource) throws -> any KeyPayload { ClearPayload() }
}

private struct ClearPayload: KeyPayload {
    struct Failure: Error {}

    let requestBlocks: [TLLV] = []
    func decryptResponse(_ payload: [UInt8], iv: [UInt8]) throws -> [UInt8] { payload }
    func isEcho(ofR1 bytes: [UInt8]) -> Bool { bytes.count == 44 }
    func decryptContentKey(_ bytes: [UInt8], iv: InitializationVector) throws -> ContentKey {
        guard let key = ContentKey(bytes) else { throw Failure() }
        return key
    }
}
