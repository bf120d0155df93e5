// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
public import LatchkeyKeySystems
import LatchkeyProtection

extension PlayReadyClient {
    /// Joins a domain and keeps the membership, in the place of an older one of the same domain.
    ///
    /// With a delegate, that sends the challenge to `url`. Services that need a domain say so when a licence is asked
    /// for, and it is joined then: this is for applications that join ahead. Throws the service's fault, an answer that
    /// is not genuine, the network's failure or the store's.
    public func joinDomain(
        _ parameters: PlayReadyDomainExchange.Parameters, at url: String, delegate: (any PlayReadyDelegate)? = nil
    ) async throws(PlayReadyAcquisitionError) {
        try await join(parameters, NamedService(url: url, namedBy: .settings), delegate)
    }

    /// The domains that this device is a member of. Throws where the store or the provisioning cannot be used.
    public func domains() async throws(PlayReadyAcquisitionError) -> [PlayReadyMembership] {
        do {
            return try await keyring(in: try await parts().store).memberships
        } catch let error as KeyError {
            throw .init(error)
        } catch {
            throw .init(KeyError.invalidConfiguration("\(error)"))
        }
    }

    /// Leaves a domain: tells the service, then forgets the membership. Licences of the domain are of no use any more.
    /// Where the service knows no such member, the membership is forgotten all the same. Throws `domainRequired` where
    /// this device is no member; otherwise as `joinDomain` does, and the membership stays.
    public func leaveDomain(_ accountID: GUID, at url: String) async throws(PlayReadyAcquisitionError) {
        guard let membership = try await domains().first(where: { $0.accountID == accountID }) else {
            throw .init(PlayReadyError.domainRequired("this device is no member of \(accountID)"))
        }
        let parts: Parts
        do throws(LicenseStoreError) { parts = try await self.parts() } catch { throw .init(error) }
        do {
            let exchange = try PlayReadyDomainExchange.leave(
                membership, customData: customData, device: try await device(in: parts.store),
                provisioning: try await provisioning(in: parts.store), clientTime: clientTime)
            let body = try await send(
                .leaveDomain, exchange.request, to: NamedService(url: url, namedBy: .settings), nil)
            try exchange.confirmLeaving(response: body, now: parts.clock.now().trustedSeconds)
        } catch let error as PlayReadyError where error.fault?.code == PlayReadyFault.notAMember {
            // It was left before, and the answer was lost.
        } catch let error as PlayReadyError {
            throw .init(error.adding("from \(HTTPRequest(url: url).printableURL)"))
        } catch let error as KeyError {
            throw .init(error)
        } catch let error as PlayReadyAcquisitionError {
            throw error
        } catch let error as LicenseStoreError {
            throw .init(error)
        } catch {
            throw .init(KeyError.malformedRequest("\(error)"))
        }
        try await forgetDomain(accountID, parts)
    }

    func join(
        _ parameters: PlayReadyDomainExchange.Parameters, _ service: NamedService,
        _ delegate: (any PlayReadyDelegate)?
    ) async throws(PlayReadyAcquisitionError) {
        var parameters = parameters
        parameters.friendlyName = parameters.friendlyName ?? configuration.friendlyName
        let parts: Parts
        do throws(LicenseStoreError) { parts = try await self.parts() } catch { throw .init(error) }
        let device: PlayReadyDevice
        do throws(KeyError) { device = try await self.device(in: parts.store) } catch { throw .init(error) }
        let provisioning: PlayReadyProvisioning
        do throws(LicenseStoreError) { provisioning = try await self.provisioning(in: parts.store) } catch {
            throw .init(error)
        }
        let exchange: PlayReadyDomainExchange
        do throws(PlayReadyError) {
            exchange = try .join(
                parameters, device: device, provisioning: provisioning, clientTime: clientTime)
        } catch {
            throw .init(error)
        }
        let body = try await send(.joinDomain, exchange.request, to: service, delegate)
        do {
            let membership = try exchange.membership(response: body, now: parts.clock.now().trustedSeconds)
            var record = LicenseRecord(
                id: Self.recordID(of: membership.accountID), kind: .domain, keySystem: .playReady,
                contentID: membership.accountID.uuidOrderBytes, payload: try membership.serialized())
            defer { wipe(&record.payload) }
            try await parts.store.put(record)
        } catch let error as PlayReadyError {
            throw .init(error.adding("from \(HTTPRequest(url: service.url).printableURL)"))
        } catch let error as LicenseStoreError {
            throw .init(error)
        } catch {
            throw .init(KeyError.malformedResponse("\(error)"))
        }
    }

    private func forgetDomain(_ accountID: GUID, _ parts: Parts) async throws(PlayReadyAcquisitionError) {
        do throws(LicenseStoreError) {
            try await parts.store.delete(Self.recordID(of: accountID))
        } catch {
            throw .init(error)
        }
    }

    /// A membership's own id follows from the account, so that there is one at most.
    private static func recordID(of accountID: GUID) -> RecordID {
        RecordID(prefixOf: zip(accountID.uuidOrderBytes, Array("latchkey domain ".utf8)).map { $0 ^ $1 })
    }
}
