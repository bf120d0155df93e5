// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// A protection system specific header box (ISO/IEC 23001-7, 8.1), whole, with its header.
///
/// ```
/// UInt32 size, "pssh", UInt8 version, UInt24 flags, UInt8[16] SystemID
/// version > 0:  UInt32 KID_count, UInt8[16] KID each
/// UInt32 DataSize, UInt8[DataSize] Data
/// ```
public struct PSSHBox: Hashable, Sendable {
    /// The SystemID: whose data this is.
    public var system: ProtectionSystem
    /// 0, or 1 for a box that lists KIDs.
    public var version: UInt8
    /// In the order of the box, repeats included. Empty in version 0.
    public var keyIDs: [KeyID]
    /// What the protection system defines: a PlayReady object, a Widevine header.
    public var data: [UInt8]

    /// A box of version 1 where there are KIDs, else of version 0.
    public init(system: ProtectionSystem, keyIDs: [KeyID] = [], data: [UInt8] = []) {
        self.system = system
        self.version = keyIDs.isEmpty ? 0 : 1
        self.keyIDs = keyIDs
        self.data = data
    }

    /// All boxes of `bytes`, which is one `pssh` box or several in a row and nothing else.
    ///
    /// Throws at the first box that cannot be read: `truncated`, `malformed` for another box, `unsupported` for a
    /// version above 1. Bytes behind Data within a box are ignored.
    public static func boxes(in bytes: some Collection<UInt8>) throws(FormatError) -> [PSSHBox] {
        var boxes: [PSSHBox] = []
        var reader = ByteReader(Array(bytes), structure: "pssh boxes")
        while !reader.isAtEnd {
            var body = try nextBody(&reader)
            boxes.append(try PSSHBox(body: &body))
        }
        return boxes
    }

    /// The boxes of `bytes` that can be read. One that is broken inside, of an unknown version or of another type is
    /// left out; what follows a broken size is lost.
    public static func readableBoxes(in bytes: some Collection<UInt8>) -> [PSSHBox] {
        var boxes: [PSSHBox] = []
        var reader = ByteReader(Array(bytes), structure: "pssh boxes")
        while !reader.isAtEnd {
            let start = reader.offset
            do {
                var body = try nextBody(&reader)
                boxes.append(try PSSHBox(body: &body))
            } catch {
                // A box that was stepped over is left out; a size that leads nowhere ends the reading.
                if reader.offset == start { break }
            }
        }
        return boxes
    }

    /// The box with its header, ready for a file. KIDs are written in version 1 only; Data and the KIDs together have to
    /// stay below 4 GiB, else nil.
    public func serialized() -> [UInt8]? {
        let listsKeyIDs = version > 0
        let size = 32 + data.count + (listsKeyIDs ? 4 + 16 * keyIDs.count : 0)
        guard let boxSize = UInt32(exactly: size) else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(size)
        func append(_ value: some BinaryInteger) {
            for shift in [24, 16, 8, 0] { bytes.append(UInt8(truncatingIfNeeded: value >> shift)) }
        }
        append(boxSize)
        bytes += "pssh".utf8
        append(listsKeyIDs ? 0x0100_0000 : 0)
        bytes += system.bytes
        if listsKeyIDs {
            append(keyIDs.count)
            for keyID in keyIDs { bytes += keyID.bytes }
        }
        append(data.count)
        bytes += data
        return bytes
    }
}

extension PSSHBox {
    /// Takes one whole box off `reader` and returns a reader for what stands behind its type.
    ///
    /// The reader is moved only where the size of the box can be believed. Throws `malformed` for another box, having
    /// stepped over it.
    private static func nextBody(_ reader: inout ByteReader) throws(FormatError) -> ByteReader {
        let place = reader.place
        var header = reader
        var size = UInt64(try header.readUInt32())
        let type = try header.readFourCC()
        if size == 1 { size = try header.readUInt64() }  // the size stands in 64 bits behind the type
        let headerSize = header.offset - reader.offset
        if size == 0 { size = UInt64(reader.remaining) }  // the box goes to the end
        guard size >= headerSize else { throw .malformed("\(place): a box of \(size) bytes") }
        guard let boxSize = Int(exactly: size), boxSize <= reader.remaining else {
            throw .truncated("\(place): a box of \(size) bytes, \(reader.remaining) left")
        }
        var body = try reader.readStructure(boxSize, "pssh box")
        guard type == "pssh" else { throw .malformed("\(place): box “\(type)” where “pssh” is expected") }
        try body.skip(headerSize)
        return body
    }

    private init(body: inout ByteReader) throws(FormatError) {
        version = try body.readUInt8()
        guard version <= 1 else { throw .unsupported("\(body.place): version \(version)") }
        try body.skip(3)
        let place = body.place
        guard let id = KeyID(try body.readBytes(16)), let system = ProtectionSystem(uuid: id.uuidString) else {
            throw .malformed("\(place): SystemID")
        }
        self.system = system
        keyIDs = []
        if version > 0 {
            let count = try body.readUInt32()
            // Taking the bytes first checks the count against the box, before anything grows by it.
            var list = ByteReader(try body.readBytes(UInt64(count) * 16), structure: "KIDs of a pssh box")
            while !list.isAtEnd {
                if let keyID = KeyID(try list.readBytes(16)) { keyIDs.append(keyID) }
            }
        }
        data = Array(try body.readBytes(try body.readUInt32()))
    }
}

extension ProtectionSystem {
    /// The 16 bytes of the SystemID, as a `pssh` box has them.
    public var bytes: [UInt8] { KeyID(hex: uuid)?.bytes ?? [] }
}
