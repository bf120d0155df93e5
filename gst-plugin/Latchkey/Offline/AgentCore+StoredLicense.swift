// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyProtection

/// Licences for playback without a network.
extension AgentCore {
    /// Has the PlayReady-style licences of the content stored, unless they are, and may be used. Nil: they are stored, or the
    /// content needs none; else why not, in words.
    func storeLicense(_ delegate: (any PlayReadyDelegate)?) async -> String? {
        do throws(AgentError) {
            let parts = try session()
            var content = try await inspect(parts)
            content.needs = content.needs.filter { $0.system == .playReady || parts.isForPlayReady($0) }
            guard content.isProtected, !content.needs.isEmpty else { return nil }
            guard let client = parts.playReady?.client else {
                throw .configuration("no PlayReady-style licences are configured: there is no [playready]")
            }
            let keyIDs = content.needs.flatMap(\.keyIDs)
            if try await Self.storedRights(forKeys: keyIDs, client).kind == .valid { return nil }
            try await acquire(content, parts, delegate)
            let rights = try await Self.storedRights(forKeys: keyIDs, client)
            switch rights.kind {
            case .valid, .future: return nil
            case .none: return "the licence service gave one that may not be stored"
            case .expired, .untrustedTime: return rights.reason
            }
        } catch {
            return error.description
        }
    }

    /// By a client of its own: that knows what is in the store, and no licence for a session alone.
    private static func storedRights(
        forKeys keyIDs: [KeyID], _ client: PlayReadyClient
    ) async throws(AgentError) -> RightsStatus {
        do throws(PlayReadyAcquisitionError) {
            return try await PlayReadyClient(configuration: client.configuration, transport: client.transport)
                .rightsStatus(forKeys: keyIDs, repairingClock: true)
        } catch {
            throw .configuration(error.description)
        }
    }
}
