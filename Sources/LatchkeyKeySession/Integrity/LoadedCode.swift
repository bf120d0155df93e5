// SPDX-License-Identifier: MPL-2.0

/// The machine code around an address, as the process has it loaded. A value.
struct LoadedCode: Hashable, Sendable {
    /// The file that it was loaded from.
    var path: String
    /// In the memory of the process.
    var memory: Range<UInt>
    /// In the file, in bytes.
    var offset: UInt64

    /// Finds it in what `/proc/self/maps` says (proc(5)). Nil where no file is mapped at the address, or one that is no
    /// longer there.
    init?(maps: [UInt8], containing address: UInt) {
        for line in maps.split(separator: UInt8(ascii: "\n")) {
            let fields = line.split(separator: UInt8(ascii: " "), maxSplits: 5, omittingEmptySubsequences: true)
            guard fields.count == 6, let memory = Self.range(fields[0]), memory.contains(address) else { continue }
            let path = String(decoding: fields[5].drop { $0 == UInt8(ascii: " ") }, as: UTF8.self)
            guard path.hasPrefix("/"), !path.hasSuffix(" (deleted)"), let offset = Self.number(fields[2]) else {
                return nil
            }
            (self.path, self.memory, self.offset) = (path, memory, UInt64(offset))
            return
        }
        return nil
    }

    private static func range(_ text: ArraySlice<UInt8>) -> Range<UInt>? {
        let ends = text.split(separator: UInt8(ascii: "-"))
        guard ends.count == 2, let start = number(ends[0]), let end = number(ends[1]), start < end else { return nil }
        return start..<end
    }

    private static func number(_ text: ArraySlice<UInt8>) -> UInt? {
        UInt(String(decoding: text, as: UTF8.self), radix: 16)
    }
}
