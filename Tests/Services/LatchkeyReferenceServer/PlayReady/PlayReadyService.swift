// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestServices
import Glibc
import LatchkeyKeySystems
import Synchronization

/// What the PlayReady-style endpoint keeps between requests: domains, and transactions that wait to be acknowledged. In
/// memory only; thread-safe.
final class PlayReadyService: Sendable {
    /// The account that exists from the start, with room for three devices.
    static let accountID = GUID("4C4B444D-0000-0000-0000-000000000001")
    private static let serviceID = GUID("4C4B5356-0000-0000-0000-000000000001")
    private static let memberLimit = 3
    private static let maximumTransactions = 1024

    private struct Content {
        var domains: PlayReadyDomainController
        var transactions: [[UInt8]] = []
    }

    let server: PlayReadyLicenseServer
    private let content: Mutex<Content>

    /// Nil where OpenSSL refuses.
    init?(authority: PlayReadyTestAuthority) {
        guard let account = Self.accountID, let service = Self.serviceID else { return nil }
        server = PlayReadyLicenseServer(authority: authority)
        var domains = PlayReadyDomainController(serviceID: service, authority: authority)
        guard (try? domains.add(accountID: account, memberLimit: Self.memberLimit, url: "")) != nil else { return nil }
        content = Mutex(Content(domains: domains))
    }

    /// Seconds since 1970.
    static var now: UInt32 { UInt32(clamping: time(nil)) }

    var domains: PlayReadyDomainController { content.withLock { $0.domains } }

    func changeDomain(_ request: [UInt8], _ operation: PlayReadyOperation) -> PlayReadyLicenseServer.Answer {
        content.withLock { $0.domains.respond(to: request, operation, now: Self.now) }
    }

    func expectAcknowledgement(of transactionID: [UInt8]) {
        content.withLock { content in
            content.transactions.append(transactionID)
            if content.transactions.count > Self.maximumTransactions { content.transactions.removeFirst() }
        }
    }

    /// Whether the transaction was waiting; it is not any more.
    func acknowledge(_ transactionID: [UInt8]) -> Bool {
        content.withLock { content in
            guard let position = content.transactions.firstIndex(of: transactionID) else { return false }
            content.transactions.remove(at: position)
            return true
        }
    }
}
