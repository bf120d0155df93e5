// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyContainers
package import LatchkeyProtection

/// A service that still has to hear that its licences arrived.
///
/// It is stored in the same transaction as the licences, so that it outlives a crash, and goes when the service has
/// heard.
package struct PendingAcknowledgement: Hashable, Sendable {
    /// As the service gave it.
    package let transactionID: [UInt8]
    /// Where the licences came from.
    package let url: String
    let id: RecordID

    init(transactionID: [UInt8], url: String) {
        self.transactionID = transactionID
        self.url = url
        id = .random()
    }

    /// Latchkey's own format, version 1: UInt8 version; then transaction id and URL in UTF-8, each with its length as
    /// UInt32 in front. Integers are big-endian. Nil for anything else.
    package init?(_ record: LicenseRecord) {
        var reader = ByteReader(record.payload, structure: "stored acknowledgement")
        guard (try? reader.readUInt8()) == 1,
            let transactionID = try? reader.readBytes(reader.readUInt32()),
            let url = try? reader.readBytes(reader.readUInt32()), reader.isAtEnd
        else { return nil }
        self.transactionID = Array(transactionID)
        self.url = String(decoding: url, as: UTF8.self)
        id = record.id
    }

    /// `removal` is from when on nobody waits for it any more.
    package func record(removal: UnixTime?) -> LicenseRecord {
        var payload: [UInt8] = [1]
        for part in [transactionID, Array(url.utf8)] {
            payload.appendBigEndian(UInt64(part.count), size: 4)
            payload += part
        }
        return LicenseRecord(
            id: id, kind: .acknowledgement, keySystem: .playReady, removal: removal, payload: payload)
    }
}
