// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyProtection

extension PlayReadyClient {
    /// What was provisioned, with the newer revocation lists that services sent, to this process or another.
    nonisolated func provisioning(
        in store: LicenseStore
    ) async throws(LicenseStoreError) -> PlayReadyProvisioning {
        let lists = try await store.read { transaction throws(LicenseStoreError) in
            var lists: [RevocationList] = []
            for summary in try transaction.list(kind: .revocationList) where summary.keySystem == .playReady {
                guard let record = try transaction.record(summary.id) else { continue }
                if let list = try? RevocationList(reading: record.payload) { lists.append(list) }
            }
            return lists
        }
        return lists.isEmpty ? configuration.provisioning : configuration.provisioning.adding(lists)
    }

    /// Keeps lists that were checked, each in the place of an older one.
    func keep(_ lists: [RevocationList], in parts: Parts) async throws(LicenseStoreError) {
        guard !lists.isEmpty else { return }
        try await parts.store.transaction { transaction throws(LicenseStoreError) in
            for list in lists {
                let id = RecordID(
                    prefixOf: zip(list.id.uuidOrderBytes, Array("latchkey revoked".utf8)).map { $0 ^ $1 })
                let known = try transaction.record(id).flatMap { try? RevocationList(reading: $0.payload) }
                guard known.map({ $0.version < list.version }) ?? true else { continue }
                try transaction.put(
                    LicenseRecord(id: id, kind: .revocationList, keySystem: .playReady, payload: list.bytes))
            }
        }
    }

    /// What a device of this client declares.
    nonisolated var deviceFeatures: [BCert.Feature] {
        let features = configuration.features
        guard !configuration.provisioning.revocations.lists.isEmpty, !features.contains(.revocationLists) else {
            return features
        }
        return features + [.revocationLists]
    }
}
