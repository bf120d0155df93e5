// SPDX-License-Identifier: MPL-2.0

import KeySystems
public import ProtectionModel

extension FairPlayLoader {
    /// How the stored key for a key URI stands; nil where none is stored. Reads the store, and begins no playback.
    ///
    /// `session` is where it will be used: its device secret opens the key, and its clock counts.
    public func rightsStatus(ofStoredKeyFor uri: String, in session: KeySession) -> RightsStatus? {
        guard let persistableKeys, let secret = session.configuration.deviceSecret else { return nil }
        let now = UInt64(clamping: session.clock.date())
        do {
            let identifier = try service.contentIdentifier(of: KeyURI(uri))
            guard let stored = try persistableKeys.key(for: identifier) else { return nil }
            var bytes = secret.withBytes { Array($0) }
            defer { wipe(&bytes) }
            let key = try FairPlayPersistableKey(opening: stored, secret: bytes, now: now)
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
