// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
public import LatchkeyProtection

/// A license and what it allows now.
struct JudgedLicense: Sendable {
    let installed: InstalledLicense
    let verdict: PlayReadyPolicy.Verdict

    var keyID: KeyID { installed.license.keyID }
}

/// Why a license that travels with the content is of no use, of a key that no other of these licenses is for.
struct EmbeddedFailure: Sendable {
    /// Nil where the license does not even tell its key.
    let keyID: KeyID?
    let error: PlayReadyError
}

extension [EmbeddedFailure] {
    /// That of a license for one of these keys, or of one that does not tell its key.
    func error(for keyIDs: [KeyID]) -> PlayReadyError? {
        let named = last(where: { failure in failure.keyID.map { keyIDs.contains($0) } ?? false })
        return (named ?? last(where: { $0.keyID == nil }))?.error
    }
}

extension PlayReadyClient {
    /// What the licenses on this device allow for some content now, and why. Looks, and changes nothing; with
    /// `repairingClock`, where the clock is all that is in the way, it asks the time service first, and says what it
    /// could say without where that does not answer.
    ///
    /// `initializationData` is a `pssh` box, a PlayReady object, or a header. Content of several keys has the rights of
    /// the key that has least. Throws where the data have no header, or the store cannot be used.
    public func rightsStatus(
        for initializationData: [UInt8], repairingClock: Bool = false
    ) async throws(PlayReadyAcquisitionError) -> RightsStatus {
        try await rightsStatus(
            forKeys: try Self.header(of: initializationData).keys.map(\.keyID), repairingClock: repairingClock)
    }

    /// The same for content of these keys. Throws where the store cannot be used.
    public func rightsStatus(
        forKeys keyIDs: [KeyID], repairingClock: Bool = false
    ) async throws(PlayReadyAcquisitionError) -> RightsStatus {
        let status = try await leastRights(forKeys: keyIDs)
        guard repairingClock, status.kind == .untrustedTime else { return status }
        do throws(TrustedClockError) {
            try await repairClock()
        } catch {
            configuration.log("the clock was not repaired: \(error)")
            return status
        }
        return try await leastRights(forKeys: keyIDs)
    }

    /// The same for what a pipeline asks for, with the licenses that travel with its media.
    package func rightsStatus(of request: KeyLoadingRequest) async throws(PlayReadyAcquisitionError) -> RightsStatus {
        let need = try PlayReadyNeed(request)
        let status = try await rightsStatus(forKeys: need.keyIDs, repairingClock: true)
        guard status.kind != .valid else { return status }
        let embedded = try await judge(embedded: need.embedded).judged
        let isEnough = need.keyIDs.allSatisfy { id in embedded.contains { $0.keyID == id && $0.verdict.mayPlay } }
        return isEnough ? RightsStatus(kind: .valid, reason: "the license travels with the content") : status
    }

    private func leastRights(forKeys keyIDs: [KeyID]) async throws(PlayReadyAcquisitionError) -> RightsStatus {
        var least: RightsStatus?
        for keyID in keyIDs {
            let status = try await judge(keyID, session: nil)?.verdict.rights ?? .noLicense
            guard let known = least else {
                least = status
                continue
            }
            let isEarlier =
                known.kind == status.kind && status.ends.map { $0 < known.ends ?? $0.advanced(bySeconds: 1) } ?? false
            if status.kind < known.kind || isEarlier { least = status }
        }
        return least ?? .noLicense
    }

    /// “Reset DRM database”: forgets licenses, domains, first plays and the device; the clock stays. Returns how many
    /// records there were. For a store that does not open, see `LicenseStore.reset`. Throws where the store cannot be
    /// used; what a session holds in memory is forgotten all the same.
    @discardableResult
    public func resetDatabase() async throws(PlayReadyAcquisitionError) -> Int {
        sessionLicenses = []
        do throws(LicenseStoreError) {
            return try await parts().store.deleteAll()
        } catch {
            throw .init(error)
        }
    }

    /// Asks the signed time service, and trusts the clock from then on. Throws as `TrustedClock.repair` does, and
    /// `notSaved` where the store cannot be opened.
    @discardableResult
    public func repairClock() async throws(TrustedClockError) -> TrustedTime {
        let clock: TrustedClock
        do throws(LicenseStoreError) {
            clock = try await parts().clock
        } catch {
            throw .notSaved("\(error)")
        }
        return try await clock.repair()
    }

    /// The trusted time now. Throws where the store cannot be opened.
    public func trustedTime() async throws(PlayReadyAcquisitionError) -> TrustedTime {
        do throws(LicenseStoreError) {
            return try await parts().clock.now()
        } catch {
            throw .init(error)
        }
    }

    /// The license for a key that is best now, valid or not; nil where there is none. `session` also takes the licenses
    /// for that session into account, and those that no session has taken.
    func judge(_ keyID: KeyID, session: UInt64?) async throws(PlayReadyAcquisitionError) -> JudgedLicense? {
        do {
            let parts = try await parts()
            let records = try await parts.store.records(for: keyID, kind: .license)
            let held = sessionLicenses.filter { $0.license.keyID == keyID && ($0.session ?? session) == session }
            guard !records.isEmpty || !held.isEmpty else { return nil }
            let keyring = try await keyring(in: parts.store)
            var failure: PlayReadyError?
            var candidates = Array(held.reversed())
            for record in records where record.keySystem == .playReady {
                do throws(PlayReadyError) {
                    candidates.append(try InstalledLicense(record, keyring: keyring))
                } catch {
                    failure = error
                }
            }
            let judged = try await judge(candidates, keyring, parts)
            if judged == nil, let failure {
                configuration.log("a stored license for KID \(keyID) is of no use: \(failure)")
            }
            return judged
        } catch {
            throw .init(wrapping: error)
        }
    }

    /// Licenses that travel with the content. They are not stored, and those that this device cannot open do not count:
    /// `failures` say why not.
    func judge(
        embedded licenses: [XMRLicense]
    ) async throws(PlayReadyAcquisitionError) -> (judged: [JudgedLicense], failures: [EmbeddedFailure]) {
        guard !licenses.isEmpty else { return ([], []) }
        let keyring: PlayReadyKeyring
        do throws(KeyError) {
            keyring = try await self.keyring(in: try await store())
        } catch {
            throw .init(error)
        }
        var opened: [InstalledLicense] = []
        var failures: [EmbeddedFailure] = []
        var known: Set<ArraySlice<UInt8>> = []
        // A copy of a license is that license, and so is one whose bytes differ where they are not signed. One whose
        // signature does not fit is none, and stands for no other.
        for xmr in licenses where !known.contains(xmr.signedBytes) {
            do throws(PlayReadyError) {
                let license = try PlayReadyLicense(xmr, keyring: keyring)
                known.insert(xmr.signedBytes)
                // It counts from a moment that nothing here knows.
                guard license.terms.expirationAfterFirstStore == nil else {
                    throw .licenseExpired(
                        "it ends some time after it was stored, and came with the content; get a new one")
                }
                // Its place among others says nothing: a user may put others in front of it.
                opened.append(
                    InstalledLicense(
                        license: license, id: .forSignedBytes(of: xmr), stored: nil, nonce: nil, session: nil))
            } catch {
                failures.append(EmbeddedFailure(keyID: (try? XMRTerms(xmr))?.key?.keyID, error: error))
            }
        }
        let judged = try await judge(acquired: opened)
        let found = Set(judged.map(\.keyID))
        return (judged, failures.filter { failure in failure.keyID.map { !found.contains($0) } ?? true })
    }

    private func store() async throws(KeyError) -> LicenseStore {
        do throws(LicenseStoreError) { return try await parts().store } catch { throw KeyError(error) }
    }

    /// Licenses that were acquired just now, the best for each key. An untrusted clock is repaired where that helps.
    func judge(acquired licenses: [InstalledLicense]) async throws(PlayReadyAcquisitionError) -> [JudgedLicense] {
        do {
            let parts = try await parts()
            let keyring = try await keyring(in: parts.store)
            var judged: [JudgedLicense] = []
            for (_, candidates) in Dictionary(grouping: licenses, by: \.license.keyID) {
                if let best = try await judge(candidates, keyring, parts) { judged.append(best) }
            }
            return judged
        } catch {
            throw .init(wrapping: error)
        }
    }

    /// The first that may be used, else the one that says most about why none may.
    private func judge(
        _ licenses: [InstalledLicense], _ keyring: PlayReadyKeyring, _ parts: Parts
    ) async throws(LicenseStoreError) -> JudgedLicense? {
        let now = parts.clock.now()
        var judged: [JudgedLicense] = []
        let asksForRevocation = licenses.contains { $0.license.terms.revocationInformationVersion != nil }
        let revocations = asksForRevocation ? try await provisioning(in: parts.store).revocations : nil
        for license in licenses {
            var situation = PlayReadyPolicy.Situation(
                license, keyring, firstPlay: try await parts.firstPlays.firstPlay(of: license.playNames), at: now)
            situation.revocationInformationVersion = revocations?.informationVersion
            judged.append(
                JudgedLicense(installed: license, verdict: PlayReadyPolicy(license.license).evaluate(situation)))
        }
        return judged.max { $0.verdict.status < $1.verdict.status }
    }

    /// Notes that a license is used for playing; returns when it first was. On disk, for one that is in the store, when
    /// this returns.
    func markFirstPlay(_ license: InstalledLicense) async throws(PlayReadyAcquisitionError) -> UnixTime {
        do throws(LicenseStoreError) {
            return try await parts().firstPlays.markFirstPlay(
                for: license.playNames, isPersistent: license.isPersistent)
        } catch {
            throw .init(error)
        }
    }

    /// The session is over, and the licenses that were for it alone with it.
    func endSession(_ session: UInt64) async {
        let ended = sessionLicenses.filter { $0.session == session }
        guard !ended.isEmpty else { return }
        sessionLicenses.removeAll { $0.session == session }
        if let parts = try? await parts() { parts.firstPlays.forget(ended.flatMap(\.playNames.noted)) }
    }

    /// The session takes the license: no other may use it any more. False where another session has it.
    func claim(_ license: InstalledLicense, for session: UInt64) -> Bool {
        let indices = sessionLicenses.indices.filter { sessionLicenses[$0].id == license.id }
        let owners = indices.isEmpty ? [license.session] : indices.map { sessionLicenses[$0].session }
        guard owners.allSatisfy({ ($0 ?? session) == session }) else { return false }
        for index in indices { sessionLicenses[index].session = session }
        return true
    }
}

extension RecordID {
    /// Of a license that travels with the content. Its signature says nothing of the bytes around those that are signed.
    static func forSignedBytes(of license: XMRLicense) -> RecordID {
        // The signature is a code of the same bytes.
        RecordID(prefixOf: (try? Digest.sha256(Array(license.signedBytes))) ?? license.signature)
    }
}

extension FirstPlays.Names {
    /// A license that travels with the content has a digest of its signed bytes for its `id`, wherever it stands. One that a
    /// service gave has its own, and goes on where it was if the service gives it again. Each counts the plays of the other:
    /// they may be copies.
    init(of license: XMRLicense, keyID: KeyID, id: RecordID) {
        let signed = RecordID.forSignedBytes(of: license)
        // What all licenses had that were the first with their rights id.
        let first = RecordID.forLicenses([(license.rightsID, keyID)])
        if id == signed {
            self.init(noted: [id], others: first)
        } else if first.contains(id) {
            self.init(noted: [id], others: [signed])
        } else {
            self.init(noted: [id, signed])
        }
    }

    /// Of a stored license; its own id alone if it cannot be read.
    init(of record: LicenseRecord) {
        guard let license = try? XMRLicense(reading: record.payload.dropFirst(5)), let keyID = record.keyIDs.first
        else {
            self.init(noted: [record.id])
            return
        }
        self.init(of: license, keyID: keyID, id: record.id)
    }
}

extension InstalledLicense {
    /// What its first play is known by.
    var playNames: FirstPlays.Names { FirstPlays.Names(of: license.xmr, keyID: license.keyID, id: id) }
}

extension PlayReadyPolicy.Situation {
    init(_ license: InstalledLicense, _ keyring: PlayReadyKeyring, firstPlay: UnixTime?, at now: TrustedTime) {
        self.init(
            time: now, securityLevel: keyring.device.securityLevel,
            firstPlay: firstPlay.map { UInt32(clamping: $0.seconds) },
            stored: license.stored, sessionNonce: license.nonce,
            domains: Dictionary(
                keyring.memberships.map { ($0.accountID, $0.revisions) }, uniquingKeysWith: { $0.union($1) }))
    }
}
