// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyKeySystems
package import LatchkeyProtection

extension PlayReadyClient {
    /// How many services that have not heard are kept in mind, and for how many seconds.
    private static let acknowledgementLimit = 64
    private static let acknowledgementAge: Int64 = 30 * 86_400
    /// Before each further attempt while the process lives. The next start tries again.
    private static let acknowledgementPauses: [Duration] = [.seconds(1), .seconds(10), .seconds(60)]

    /// The record of a new one, and the ids of those that have to go for it.
    static func acknowledgement(
        _ pending: PendingAcknowledgement, in transaction: LicenseStoreTransaction, at now: TrustedTime
    ) throws(LicenseStoreError) {
        for old in try transaction.list(kind: .acknowledgement).dropFirst(acknowledgementLimit - 1) {
            _ = try transaction.delete(old.id)
        }
        try transaction.put(
            pending.record(removal: now.isTrusted ? now.time.advanced(bySeconds: acknowledgementAge) : nil))
    }

    /// Begins to notify the services that were not notified yet, those of earlier runs among them. No caller waits for
    /// it: the keys are usable meanwhile.
    func resumeAcknowledgements(in parts: Parts) async {
        let waiting: [PendingAcknowledgement]
        do throws(LicenseStoreError) {
            waiting = try await parts.store.read { transaction throws(LicenseStoreError) in
                var waiting: [PendingAcknowledgement] = []
                for summary in try transaction.list(kind: .acknowledgement) {
                    guard let record = try transaction.record(summary.id) else { continue }
                    if let pending = PendingAcknowledgement(record) { waiting.append(pending) }
                }
                return waiting
            }
        } catch {
            return configuration.log("the acknowledgements that are due cannot be read: \(error)")
        }
        for pending in waiting where acknowledging.insert(pending.id).inserted {
            // Between two attempts the task holds no strong reference to `self`.
            let attempt = { [weak self] in await self?.acknowledge(pending, in: parts) ?? true }
            let end = { [weak self] in await self?.endAcknowledging(pending.id) }
            Task { [sleep] in
                var isDone = await attempt()
                for pause in Self.acknowledgementPauses where !isDone {
                    guard (try? await sleep(pause)) != nil else { break }
                    isDone = await attempt()
                }
                await end()
            }
        }
    }

    private func endAcknowledging(_ id: RecordID) { acknowledging.remove(id) }

    /// Whether the service has heard, or will never want to. That it does not is no reason not to play.
    private func acknowledge(_ pending: PendingAcknowledgement, in parts: Parts) async -> Bool {
        do {
            let message = try PlayReadyAcknowledgement(
                transactionID: pending.transactionID, device: try await device(in: parts.store),
                provisioning: try await provisioning(in: parts.store), clientTime: clientTime)
            try message.confirm(
                // It was checked when it gave the license.
                response: try await send(
                    .acknowledgeLicense, message.request,
                    to: NamedService(url: pending.url, namedBy: pending.source), nil),
                now: parts.clock.now().trustedSeconds)
        } catch let error as PlayReadyError where error.fault?.code == PlayReadyFault.unknownTransactionID {
            // It has heard before, and the answer was lost; or another process was faster.
        } catch {
            configuration.log("the license is usable, but its acknowledgement failed: \(error)")
            return false
        }
        do throws(LicenseStoreError) {
            try await parts.store.delete(pending.id)
        } catch {
            configuration.log("an acknowledgement that was sent is still in the store: \(error)")
            return false
        }
        return true
    }
}

/// A service that still has to hear that its licenses arrived.
///
/// It is stored in the same transaction as the licenses, so that it outlives a crash, and goes when the service has
/// heard.
package struct PendingAcknowledgement: Hashable, Sendable {
    /// As the service gave it.
    package let transactionID: [UInt8]
    /// Where the licenses came from.
    package let url: String
    /// As it was for the request that brought them.
    let forbidsLocalAddresses: Bool
    let id: RecordID

    init(transactionID: [UInt8], url: String, forbidsLocalAddresses: Bool) {
        self.transactionID = transactionID
        self.url = url
        self.forbidsLocalAddresses = forbidsLocalAddresses
        id = .random()
    }

    /// What names the URL of the message.
    var source: NamedService.Source { .service(url, forbidsLocalAddresses: forbidsLocalAddresses) }

    /// Latchkey's own format: UInt8 version, 1, or 2 if the message may reach no local address; then transaction id and URL in
    /// UTF-8, each with its length as UInt32 in front. Integers are big-endian. Nil for anything else.
    package init?(_ record: LicenseRecord) {
        var reader = ByteReader(record.payload, structure: "stored acknowledgement")
        guard let version = try? reader.readUInt8(), version == 1 || version == 2,
            let transactionID = try? reader.readBytes(reader.readUInt32()),
            let url = try? reader.readBytes(reader.readUInt32()), reader.isAtEnd
        else { return nil }
        self.transactionID = Array(transactionID)
        self.url = String(decoding: url, as: UTF8.self)
        forbidsLocalAddresses = version == 2
        id = record.id
    }

    /// `removal` is the time from which on no service waits for it any more.
    package func record(removal: UnixTime?) -> LicenseRecord {
        var payload: [UInt8] = [forbidsLocalAddresses ? 2 : 1]
        for part in [transactionID, Array(url.utf8)] {
            payload.appendBigEndian(UInt64(part.count), size: 4)
            payload += part
        }
        return LicenseRecord(
            id: id, kind: .acknowledgement, keySystem: .playReady, removal: removal, payload: payload)
    }
}
