// SPDX-License-Identifier: MPL-2.0

package import LatchkeyKeySystems
import LatchkeyContainers
import LatchkeyProtection

extension PlayReadyDevice {
    /// What the license store keeps of a device, version 1 of Latchkey's own format: UInt8 version; then chain, signing
    /// key and encryption key, each with its length as UInt32 in front. The keys are PEM. Integers are big-endian. The
    /// caller wipes it.
    package func serialized() throws(PlayReadyError) -> [UInt8] {
        var keys = try privateKeyPEMs()
        defer {
            wipe(&keys.signing)
            wipe(&keys.encryption)
        }
        let certificates = chain.serialized
        var bytes: [UInt8] = []
        // It does not grow: that would leave a copy of the keys behind.
        bytes.reserveCapacity(13 + certificates.count + keys.signing.count + keys.encryption.count)
        bytes.append(1)
        for part in [certificates, keys.signing, keys.encryption] {
            bytes.appendBigEndian(UInt64(part.count), size: 4)
            bytes += part
        }
        return bytes
    }

    /// Throws `provisioning` for anything but what `serialized` wrote.
    package init(stored bytes: [UInt8]) throws(PlayReadyError) {
        var parts: [[UInt8]] = []
        defer { for index in parts.indices { wipe(&parts[index]) } }
        do throws(FormatError) {
            var reader = ByteReader(bytes, structure: "stored device")
            guard try reader.readUInt8() == 1 else { throw .unsupported("another version of a stored device") }
            for _ in 0..<3 { parts.append(Array(try reader.readBytes(try reader.readUInt32()))) }
        } catch {
            throw .provisioning("the stored device: \(error)")
        }
        try self.init(chain: parts[0], signingKeyPEM: parts[1], encryptionKeyPEM: parts[2])
    }
}
