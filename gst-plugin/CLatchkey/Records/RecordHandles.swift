// SPDX-License-Identifier: MPL-2.0

import CLatchkeyAgent
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import LatchkeyViewingSession

/// A `LatchkeyLicense`.
final class LicenseHandle: OpaqueReference, Sendable {
    let id: CMemory
    let keySystem = CMemory(text: KeySystem.playReady.rawValue)
    let keyIDs: [CMemory]
    let domain: CMemory?
    let rights: RightsHandle

    init(_ license: StoredPlayReadyLicense) {
        id = CMemory(license.id.bytes)
        keyIDs = license.keyIDs.map { CMemory($0.bytes) }
        domain = license.domain.map { CMemory(text: $0.description) }
        rights = RightsHandle(license.rights)
    }
}

/// A `LatchkeyViewingSession`.
final class ViewingSessionHandle: OpaqueReference, Sendable {
    let name: CMemory
    let serverURL: CMemory
    let processID: Int64
    let attempts: UInt32

    init(_ entry: SessionRecords.Entry) {
        name = CMemory(text: entry.session)
        serverURL = CMemory(text: HTTPRequest(url: entry.serverURL).printableURL)
        processID = entry.processID.map(Int64.init) ?? 0
        attempts = UInt32(clamping: entry.attempts)
    }
}
