// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySystems
public import LatchkeyProtection

extension FairPlayLoader {
    /// How the stored key for a key URI stands, and of several the one that ends first; nil where none is stored. Reads the
    /// store, and begins no playback.
    ///
    /// `session` is where it will be used: its device secret opens the key, and its clock counts.
    public func rightsStatus(ofStoredKeyFor uri: String, in session: KeySession) async -> RightsStatus? {
        guard let persistableKeys, let secret = session.configuration.deviceSecret else { return nil }
        do throws(KeyError) {
            let identifier = try service.contentIdentifier(of: KeyURI(uri))
            let records = try await persistableKeys.records(for: identifier)
            guard !records.isEmpty else { return nil }
            await session.configuration.persistableKeys?.prepare()
            let now = try session.storedKeyTime()
            return records.map { rights(ofStored: $0.payload, secret, now) }
                .min { left, right in
                    left.kind == right.kind
                        ? (left.ends?.seconds ?? .max) < (right.ends?.seconds ?? .max) : left.kind < right.kind
                }
        } catch {
            return RightsStatus(kind: .none, reason: "the stored key: \(error)")
        }
    }

    private func rights(ofStored stored: [UInt8], _ secret: SealingKey, _ now: UInt64) -> RightsStatus {
        do {
            var bytes = secret.withBytes { Array($0) }
            defer { wipe(&bytes) }
            let key = try ExitGate.pass { () throws(FairPlayError) in
                try FairPlayPersistableKey(opening: stored, secret: bytes, now: now)
            }
            let end = key.expiry.map { UnixTime(seconds: Int64(clamping: $0)) }
            return RightsStatus(
                kind: .valid, ends: end, stops: end,
                rightsExpireAfterFirstUse: key.playbackDuration != nil && key.firstPlayback == nil,
                reason: "the key is stored")
        } catch let error as FairPlayError {
            let isExpired = error.keyError.isSameKind(as: .leaseExpired(""))
            return RightsStatus(kind: isExpired ? .expired : .none, reason: "the stored key: \(error)")
        } catch {
            return RightsStatus(kind: .none, reason: "the stored key: \(error)")
        }
    }
}
