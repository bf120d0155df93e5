// SPDX-License-Identifier: MPL-2.0

/// The part of a loopback URL that nobody can guess: 128 random bits. Never prints.
struct LoopbackToken: Sendable {
    /// In hexadecimal digits.
    let text: String

    init() {
        var generator = SystemRandomNumberGenerator()
        let digits = Array("0123456789abcdef".utf8)
        var bytes: [UInt8] = []
        for _ in 0..<2 {
            var word: UInt64 = generator.next()
            for _ in 0..<16 {
                bytes.append(digits[Int(word & 15)])
                word >>= 4
            }
        }
        text = String(decoding: bytes, as: UTF8.self)
    }

    /// Whether a path segment is this token. How long that takes does not depend on where they differ.
    func matches(_ segment: some StringProtocol) -> Bool {
        let mine = Array(text.utf8)
        let other = Array(segment.utf8.prefix(mine.count + 1))
        guard other.count == mine.count else { return false }
        var difference: UInt8 = 0
        for index in mine.indices { difference |= mine[index] ^ other[index] }
        return difference == 0
    }
}

extension LoopbackToken: CustomStringConvertible, CustomReflectable {
    var description: String { "<redacted>" }
    var customMirror: Mirror { Mirror(self, children: []) }
}
