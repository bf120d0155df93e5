// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

extension PlayReadyObject {
    /// Reads an object in any of the forms in which content carries it: alone; in one or more `pssh` boxes; in Base64,
    /// as manifests have it (`mspr:pro`, `cenc:pssh`, Smooth's ProtectionHeader); a single record; a header alone; and a
    /// `pssh` box without its first eight bytes, which one published sample has.
    ///
    /// Throws `malformed` for anything else, `tooLarge` above twice `maximumSize`, and, where an object was recognised,
    /// the errors of its reader. Which form it is follows from the bytes; no form is tried after another one fitted.
    public init(initializationData bytes: some Collection<UInt8>) throws(FormatError) {
        guard bytes.count <= 2 * Self.maximumSize else {
            throw .tooLarge("PlayReady initialization data of \(bytes.count) bytes")
        }
        var bytes = Array(bytes)
        if let decoded = Self.base64(bytes) { bytes = decoded }
        try self.init(binary: bytes)
    }

    private init(binary bytes: [UInt8]) throws(FormatError) {
        if bytes.count >= 8, bytes[4..<8].elementsEqual("pssh".utf8) {
            let data = PSSHBox.readableBoxes(in: bytes).first { $0.system == .playReady }?.data
            guard let data else { throw .malformed("pssh boxes: none of PlayReady that can be read") }
            try self.init(payload: data)
        } else if bytes.starts(with: [0, 0, 0, 0] + ProtectionSystem.playReady.bytes) {
            var reader = ByteReader(bytes, structure: "pssh box without its header")
            try reader.skip(20)
            try self.init(payload: Array(try reader.readBytes(try reader.readUInt32())))
        } else {
            try self.init(payload: bytes)
        }
    }

    private init(payload bytes: [UInt8]) throws(FormatError) {
        if Self.isHeader(bytes) {
            self.init(records: [Record(type: Record.header, value: bytes)])
        } else if Self.isHeader(bytes.dropFirst(4)), bytes.starts(with: littleEndian(Record.header)) {
            var reader = ByteReader(bytes, structure: "PlayReady record")
            self.init(records: [try Record(reading: &reader)])
        } else {
            try self.init(reading: bytes)
        }
    }

    /// Whether the bytes start as markup does, in UTF-16 or UTF-8.
    private static func isHeader(_ bytes: some Collection<UInt8>) -> Bool {
        ["<\0W\0R\0M\0", "\u{FEFF}"].contains { bytes.starts(with: $0.utf8) } || bytes.starts(with: "<WRM".utf8)
            || bytes.starts(with: [0xFF, 0xFE, 0x3C, 0x00]) || bytes.starts(with: "<\0?\0".utf8)
            || bytes.starts(with: "<?xml".utf8)
    }

    /// The bytes that Base64 text spells; nil where `bytes` is no such text. White space is left out.
    private static func base64(_ bytes: [UInt8]) -> [UInt8]? {
        guard bytes.count >= 8 else { return nil }
        let isSpace: (UInt8) -> Bool = { $0 == 0x20 || (0x09...0x0D).contains($0) }
        let kept = bytes.filter { !isSpace($0) }
        guard kept.allSatisfy({ (0x2B...0x7A).contains($0) }) else { return nil }
        return Base64.decode(String(decoding: kept, as: UTF8.self))
    }
}
