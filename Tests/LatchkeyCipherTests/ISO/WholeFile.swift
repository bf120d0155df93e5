// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

/// Keys by KID, and the ciphers made of them: what an element adds to `ISOStream` and `ISORandomAccess`.
struct KeyTable {
    struct MissingKey: Error, CustomStringConvertible {
        var keyID: KeyID?
        var description: String { "no key for \(keyID.map { "\($0)" } ?? "no KID")" }
    }

    private let keys: [KeyID: String]
    private var ciphers: [KeyID?: SampleCipher] = [:]
    private(set) var sampleCount = 0

    init(_ keys: [KeyID: String]) { self.keys = keys }

    mutating func decrypt(_ plan: SamplePlan, _ keyID: KeyID?, _ bytes: UnsafeMutableRawBufferPointer) throws {
        sampleCount += 1
        if ciphers[keyID] == nil {
            guard let keyID, let key = keys[keyID].flatMap({ ContentKey(hex: $0) }) else {
                throw MissingKey(keyID: keyID)
            }
            ciphers[keyID] = try SampleCipher(key: key)
        }
        try ciphers[keyID]?.decrypt(plan, in: bytes)
    }
}

/// A file in memory, decrypted in one way or the other.
enum WholeFile {
    /// Read anywhere, in ranges of `step` bytes from the start.
    static func readAnywhere(
        _ file: [UInt8], keys: [KeyID: String], step: Int = .max, defaults: ISOEncryption? = nil
    ) throws -> [UInt8] {
        var access = ISORandomAccess(defaults: defaults)
        var table = KeyTable(keys)
        var output: [UInt8] = []
        while output.count < file.count {
            let lower = UInt64(output.count)
            let range = lower..<lower + UInt64(min(step, file.count - output.count))
            let part = try read(range, of: file, &access, &table)
            output += part
            guard part.count == range.count else { break }
        }
        return output
    }

    /// One range of the file; shorter at an end that cuts off a sample.
    static func read(
        _ range: Range<UInt64>, of file: [UInt8], _ access: inout ISORandomAccess, _ table: inout KeyTable
    ) throws -> [UInt8] {
        try access.prepare(range) { Self.bytes($0, $1, of: file) }
        let extent = access.extent
        var bytes = Self.bytes(extent.lowerBound, extent.count, of: file)
        let size = try bytes.withUnsafeMutableBytes { bytes in
            try access.decrypt(bytes) { plan, key, sample in try table.decrypt(plan, key.keyID, sample) }.get()
        }
        let start = Int(range.lowerBound - extent.lowerBound)
        return Array(bytes.prefix(size).dropFirst(start).prefix(range.count))
    }

    private static func bytes(_ offset: UInt64, _ count: Int, of file: [UInt8]) -> [UInt8] {
        guard offset < UInt64(file.count) else { return [] }
        return Array(file[Int(offset)...].prefix(count))
    }

    /// As a stream, in pieces that end at `cuts`. Where the media is in front of `moov`, it jumps, unless it cannot.
    static func stream(
        _ file: [UInt8], keys: [KeyID: String], cuts: some Sequence<Int>, defaults: ISOEncryption? = nil,
        canJump: Bool = true
    ) throws -> [UInt8] {
        var stream = ISOStream(defaults: defaults)
        var table = KeyTable(keys)
        var output: [UInt8] = []
        let ends = Array(cuts) + [file.count]
        var next = 0
        var start = 0
        while start < file.count {
            while next < ends.count - 1, ends[next] <= start { next += 1 }
            let end = ends[next] > start ? ends[next] : file.count
            file[start..<end].withUnsafeBytes { stream.append($0) }
            start = end
            steps: while true {
                let step = try stream.next()
                take(&stream, &output)
                switch step {
                case .nothing: break steps
                case .sample(let key):
                    try stream.withSample { plan, bytes in try table.decrypt(plan, key.keyID, bytes) }
                case .needsMovie where !canJump:
                    try stream.holdMedia()
                case .needsMovie(let place), .goBack(let place):
                    guard canJump, place <= file.count else { throw ISOStream.mediaFirst }
                    try stream.jump(to: place)
                    start = Int(place)
                    next = 0
                    break steps
                }
            }
        }
        try stream.end()
        take(&stream, &output)
        return output
    }

    private static func take(_ stream: inout ISOStream, _ output: inout [UInt8]) {
        var part = [UInt8](repeating: 0, count: stream.outputSize)
        part.withUnsafeMutableBytes { stream.takeOutput(into: $0) }
        output += part
    }
}
