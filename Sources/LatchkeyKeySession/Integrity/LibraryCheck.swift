// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import Glibc
import Synchronization

/// Whether the file that this code was loaded from is the one that was built, and whether its code is as it was loaded.
///
/// The build writes the SHA-256 sum of the file beside it, as `FILE.sha256`: 64 hexadecimal digits. A program that
/// alters the file can alter the sum. Thread-safe.
final class LibraryCheck: Sendable {
    private struct Known: Sendable {
        var code: LoadedCode
        var sum: [UInt8]
    }

    /// The code that was found whole. Nil before `violationAtStart`, and where that found something.
    private let known = Mutex<Known?>(nil)
    private let find: @Sendable () -> LoadedCode?

    /// `find` says where the code is.
    init(_ find: @escaping @Sendable () -> LoadedCode? = LibraryCheck.ownCode) { self.find = find }

    /// Reads the whole file, which takes some hundredths of a second. Why not to decrypt, or nil.
    func violationAtStart() -> String? {
        guard let code = find() else { return "the file that this library was loaded from is not there any more" }
        guard let expected = Self.text(of: code.path + ".sha256") else {
            return "the sum of \(code.path) is not there: \(code.path).sha256 belongs beside it"
        }
        guard let (whole, part) = Self.sums(of: code) else { return "\(code.path) cannot be read" }
        guard Self.hexadecimal(whole) == expected else { return "\(code.path) is not the file that was built" }
        guard Self.sum(of: code) == part else { return "the code of \(code.path) was changed in memory" }
        known.withLock { $0 = Known(code: code, sum: part) }
        return nil
    }

    /// Looks at the code in memory alone: whether it is as it was at the start.
    func violation() -> String? {
        guard let known = known.withLock({ $0 }) else { return nil }
        return Self.sum(of: known.code) == known.sum ? nil : "the code of \(known.code.path) was changed in memory"
    }

    // MARK: This process

    static let ownCode: @Sendable () -> LoadedCode? = {
        let here: @convention(c) () -> Void = {}
        guard let maps = IntegrityWatch.contents(of: "/proc/self/maps", limit: 8 << 20) else { return nil }
        return LoadedCode(maps: maps, containing: UInt(bitPattern: unsafeBitCast(here, to: UnsafeRawPointer.self)))
    }

    // MARK: Sums

    /// What the code in memory sums up to.
    private static func sum(of code: LoadedCode) -> [UInt8]? {
        guard let start = UnsafeRawPointer(bitPattern: code.memory.lowerBound) else { return nil }
        var sum = [UInt8](repeating: 0, count: 32)
        // SAFETY: the process has this range mapped for as long as this code runs.
        guard EVP_Digest(start, code.memory.count, &sum, nil, EVP_sha256(), nil) == 1 else { return nil }
        return sum
    }

    /// Of the file, and of the part of it that is the code. Past the file's end a mapping has zeros up to its page's end.
    private static func sums(of code: LoadedCode) -> (whole: [UInt8], part: [UInt8])? {
        guard let file = fopen(code.path, "re"), let whole = Sum(), let part = Sum() else { return nil }
        defer { fclose(file) }
        var piece = [UInt8](repeating: 0, count: 1 << 18)
        var place: UInt64 = 0
        let end = code.offset + UInt64(code.memory.count)
        while true {
            let count = fread(&piece, 1, piece.count, file)
            guard count > 0 else { break }
            whole.add(piece[..<count])
            let first = max(place, code.offset), last = min(place + UInt64(count), end)
            if first < last { part.add(piece[Int(first - place)..<Int(last - place)]) }
            place += UInt64(count)
        }
        guard ferror(file) == 0 else { return nil }
        if place < end, end - max(place, code.offset) < 1 << 16 {
            part.add(ArraySlice([UInt8](repeating: 0, count: Int(end - max(place, code.offset)))))
        }
        return (whole.finish(), part.finish())
    }

    private final class Sum {
        private let context: OpaquePointer

        init?() {
            guard let context = EVP_MD_CTX_new() else { return nil }
            self.context = context
            guard EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1 else { return nil }
        }

        deinit { EVP_MD_CTX_free(context) }

        func add(_ bytes: ArraySlice<UInt8>) {
            bytes.withUnsafeBytes { _ = EVP_DigestUpdate(context, $0.baseAddress, $0.count) }
        }

        func finish() -> [UInt8] {
            var sum = [UInt8](repeating: 0, count: 32)
            EVP_DigestFinal_ex(context, &sum, nil)
            return sum
        }
    }

    private static func hexadecimal(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    private static func text(of path: String) -> String? {
        IntegrityWatch.contents(of: path).map { String(decoding: $0.prefix { $0 > 0x20 }, as: UTF8.self).lowercased() }
    }
}

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
