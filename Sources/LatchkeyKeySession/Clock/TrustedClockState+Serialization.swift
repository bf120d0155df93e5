// SPDX-License-Identifier: MPL-2.0

public import LatchkeyContainers
import LatchkeyProtection

extension TrustedClockState {
    private static let formatVersion: UInt8 = 1
    private static let maximumBootIDSize = 64

    /// Latchkey's own format, version 1; integers are big-endian, times are signed milliseconds:
    ///
    ///     1  version (1)
    ///     1  trust: 0 unset, 1 observed, 2 signed, 3 rolled back
    ///     1  what is there: 1 latest signed time, 2 anchor
    ///     8  latest good time
    ///     8  time that the machine has been running without trust
    ///     8  number of signed times taken
    ///     8  latest signed time, where it is there
    ///     8+8+8+1  anchor, where it is there: time, system clock, time since the start, size of the boot id, then the id
    public func serialized() -> [UInt8] {
        var bytes: [UInt8] = [Self.formatVersion, Self.number(trust)]
        bytes.append((latestSigned == nil ? 0 : 1) | (anchor == nil ? 0 : 2))
        for value in [latestGood, untrusted] { bytes.appendBigEndian(UInt64(bitPattern: value), size: 8) }
        bytes.appendBigEndian(repairs, size: 8)
        if let latestSigned { bytes.appendBigEndian(UInt64(bitPattern: latestSigned), size: 8) }
        if let anchor {
            for value in [anchor.time, anchor.wall, anchor.sinceBoot] {
                bytes.appendBigEndian(UInt64(bitPattern: value), size: 8)
            }
            let bootID = anchor.bootID.utf8.prefix(Self.maximumBootIDSize)
            bytes.append(UInt8(bootID.count))
            bytes += bootID
        }
        return bytes
    }

    /// Reads what `serialized()` writes. Throws `truncated`, `malformed`, and `unsupported` for another version.
    public init(serialized bytes: [UInt8]) throws(FormatError) {
        self.init()
        var reader = ByteReader(bytes, structure: "trusted clock record")
        let version = try reader.readUInt8()
        guard version == Self.formatVersion else { throw .unsupported("trusted clock record, version \(version)") }
        let number = try reader.readUInt8()
        guard let trust = [.unset, .observed, .signed, .rolledBack].first(where: { Self.number($0) == number }) else {
            throw .malformed("\(reader.place): trust \(number)")
        }
        self.trust = trust
        let presence = try reader.readUInt8()
        guard presence < 4 else { throw .malformed("\(reader.place): unknown fields") }
        latestGood = try reader.readTime()
        untrusted = try reader.readTime()
        repairs = try reader.readUInt64()
        if presence & 1 != 0 { latestSigned = try reader.readTime() }
        if presence & 2 != 0 {
            let times = (try reader.readTime(), try reader.readTime(), try reader.readTime())
            let size = try reader.readUInt8()
            guard size <= Self.maximumBootIDSize else { throw .tooLarge("\(reader.place): boot id") }
            guard let bootID = String(validating: try reader.readBytes(UInt64(size)), as: UTF8.self) else {
                throw .malformed("\(reader.place): boot id")
            }
            anchor = Anchor(time: times.0, wall: times.1, sinceBoot: times.2, bootID: bootID)
        }
        guard reader.isAtEnd else { throw .malformed("\(reader.place): \(reader.remaining) bytes too many") }
    }

    private static func number(_ trust: TrustedTime.Trust) -> UInt8 {
        switch trust {
        case .unset: 0
        case .observed: 1
        case .signed: 2
        case .rolledBack: 3
        }
    }
}

extension ByteReader {
    fileprivate mutating func readTime() throws(FormatError) -> Int64 { Int64(bitPattern: try readUInt64()) }
}
