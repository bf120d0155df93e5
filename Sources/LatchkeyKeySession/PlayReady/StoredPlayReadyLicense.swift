// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
public import LatchkeyProtection

/// A PlayReady-style license in a store, and how its rights stand. For lists: it has no key material.
public struct StoredPlayReadyLicense: Hashable, Sendable {
    /// The record's.
    public let id: RecordID
    /// What it is for.
    public let keyIDs: [KeyID]
    /// The account of the domain that it is bound to; nil where it is bound to the device.
    public let domain: GUID?
    /// How its rights stand, with the dates and why in words. `none` for a license that this device cannot open.
    public let rights: RightsStatus

    public init(id: RecordID, keyIDs: [KeyID], domain: GUID? = nil, rights: RightsStatus) {
        self.id = id
        self.keyIDs = keyIDs
        self.domain = domain
        self.rights = rights
    }
}

extension LicenseStore {
    /// Every PlayReady-style license that is here, in the order of the KIDs. Looks, and changes nothing. Needs no
    /// provisioning and no network: the device and its domains are those of the store, and revocation lists do not count.
    /// `policy` is that of the players.
    public func playReadyLicenses(
        clocks: any ClockSource = SystemClocks(), policy: TrustedClockPolicy = TrustedClockPolicy()
    ) async throws(LicenseStoreError) -> [StoredPlayReadyLicense] {
        let now = try time(by: clocks, policy: policy)
        let keyring = try await PlayReadyClient.storedKeyring(in: self)
        var licenses: [StoredPlayReadyLicense] = []
        for summary in try list(kind: .license) where summary.keySystem == .playReady {
            do throws(LicenseStoreError) {
                guard let record = try record(summary.id) else { continue }
                let firstPlay = try firstPlay(of: FirstPlays.Names(of: record))
                licenses.append(StoredPlayReadyLicense(record, keyring, firstPlay: firstPlay, at: now))
            } catch  where error.isSameKind(as: .recordUnreadable("")) {
                licenses.append(StoredPlayReadyLicense(summary.id, summary.keyIDs, isOfNoUse: "\(error)"))
            }
        }
        return licenses.sorted { left, right in
            let (a, b) = (left.keyIDs.first?.bytes ?? [], right.keyIDs.first?.bytes ?? [])
            return a == b ? left.id.bytes.lexicographicallyPrecedes(right.id.bytes) : a.lexicographicallyPrecedes(b)
        }
    }
}

extension LicenseStore {
    /// Takes one PlayReady-style license out. When it was first played stays: acquired again, it goes on from there. False
    /// where there is no such license; records of other kinds count as none. Keys that sessions have of it go on. Throws
    /// as `transaction` does.
    @discardableResult
    public func removePlayReadyLicense(_ id: RecordID) async throws(LicenseStoreError) -> Bool {
        try transaction { transaction throws(LicenseStoreError) in
            guard try transaction.list(kind: .license).contains(where: { $0.id == id && $0.keySystem == .playReady })
            else { return false }
            return try transaction.delete(id)
        }
    }
}

extension StoredPlayReadyLicense {
    fileprivate init(
        _ record: LicenseRecord, _ keyring: PlayReadyKeyring?, firstPlay: UnixTime?, at now: TrustedTime
    ) {
        guard let keyring else {
            self.init(record.id, record.keyIDs, isOfNoUse: "the store holds no device that could open it")
            return
        }
        do throws(PlayReadyError) {
            let installed = try InstalledLicense(record, keyring: keyring)
            let verdict = PlayReadyPolicy(installed.license).evaluate(
                PlayReadyPolicy.Situation(installed, keyring, firstPlay: firstPlay, at: now))
            self.init(
                id: record.id, keyIDs: record.keyIDs, domain: installed.license.terms.domain?.accountID,
                rights: verdict.rights)
        } catch {
            self.init(record.id, record.keyIDs, isOfNoUse: "this device cannot open it: \(error)")
        }
    }

    fileprivate init(_ id: RecordID, _ keyIDs: [KeyID], isOfNoUse reason: String) {
        self.init(id: id, keyIDs: keyIDs, rights: RightsStatus(kind: .none, reason: reason))
    }
}
