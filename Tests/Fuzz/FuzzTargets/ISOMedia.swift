// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

extension FuzzTarget {
    static let isoMedia: [FuzzTarget] = [
        FuzzTarget("iso-media") { bytes in
            let isProtected = ISORecognition.isProtectedFile { part(of: bytes, $0, $1, isWhole: true) }
            let isMediaFirst = ISORecognition.isMediaFirst(size: nil) { part(of: bytes, $0, $1, isWhole: true) }
            promise(!(isProtected && isMediaFirst), "what is known to be protected is not unknown")
            compare(bytes, defaults: nil)
        },
        FuzzTarget("iso-fragments") { bytes in
            compare(
                bytes,
                defaults: ISOEncryption(scheme: .cbc1, initializationVectorSize: 8, keyID: KeyID(high: 1, low: 2)))
        },
    ]

    /// Both ways through a file agree, where both get to its end. Decryption is played: each byte is turned over.
    private static func compare(_ bytes: [UInt8], defaults: ISOEncryption?) {
        let anywhere = readAnywhere(bytes, step: bytes.count, defaults: defaults)
        let inSteps = readAnywhere(bytes, step: 777, defaults: defaults)
        let whole = stream(bytes, step: bytes.count, defaults: defaults)
        let inPieces = stream(bytes, step: 61, defaults: defaults)
        promise(whole == inPieces, "the cuts of a stream change nothing")
        let held = stream(bytes, step: 61, defaults: defaults, canJump: false)
        // A piece may begin a segment, although the fragment in front is not complete.
        _ = stream(bytes, step: 64, defaults: defaults, canJump: false, isOfSegments: true)
        if let anywhere { promise(anywhere.count <= bytes.count, "nothing is added") }
        if let anywhere, let inSteps, anywhere.count == inSteps.count {
            promise(anywhere == inSteps, "the ranges of a file change nothing")
        }
        // Of several `moov` boxes a stream takes each for what follows, a file the first.
        let movies = (try? ISOBox.boxes(in: bytes, range: 0..<bytes.count))?.count { $0.type == "moov" } ?? 2
        if let anywhere, let whole, anywhere.count == whole.count, movies <= 1 {
            promise(anywhere == whole, "a file and a stream of it come out the same")
        }
        if let held, let whole, held.count == whole.count, movies <= 1 {
            promise(held == whole, "media that is held comes out the same")
        }
    }

    private static func part(of bytes: [UInt8], _ offset: UInt64, _ count: Int, isWhole: Bool) -> [UInt8]? {
        guard offset <= UInt64(bytes.count) else { return isWhole ? nil : [] }
        let part = Array(bytes[Int(offset)...].prefix(count))
        return isWhole && part.count < count ? nil : part
    }

    private static func turnOver(_ bytes: UnsafeMutableRawBufferPointer) {
        for index in bytes.indices { bytes[index] = ~bytes[index] }
    }

    private static func readAnywhere(_ bytes: [UInt8], step: Int, defaults: ISOEncryption?) -> [UInt8]? {
        var file = ISORandomAccess(defaults: defaults)
        var output: [UInt8] = []
        // Where a table may say that a sample is.
        var elsewhere = file
        try? elsewhere.prepare(UInt64.max - 4..<UInt64.max) { offset, count in
            offset < UInt64(bytes.count) ? Array(bytes[Int(offset)...].prefix(count)) : []
        }
        while output.count < bytes.count {
            let lower = UInt64(output.count)
            let range = lower..<lower + UInt64(min(step, bytes.count - output.count))
            guard (try? file.prepare(range) { part(of: bytes, $0, $1, isWhole: false) }) != nil else { return nil }
            promise(
                file.extent.lowerBound <= lower && file.extent.upperBound >= range.upperBound, "all is asked for")
            guard var extent = part(of: bytes, file.extent.lowerBound, file.extent.count, isWhole: false) else {
                return nil
            }
            let result = extent.withUnsafeMutableBytes { extent in
                file.decrypt(extent) { _, _, sample in turnOver(sample) }
            }
            guard case .success(let size) = result else { return nil }
            let front = Int(lower - file.extent.lowerBound)
            let found = extent.prefix(size).dropFirst(front).prefix(range.count)
            output += found
            guard found.count == range.count else { break }
        }
        return output
    }

    private static func stream(
        _ bytes: [UInt8], step: Int, defaults: ISOEncryption?, canJump: Bool = true, isOfSegments: Bool = false
    ) -> [UInt8]? {
        var stream = ISOStream(defaults: defaults)
        stream.isOfSegments = isOfSegments
        var output: [UInt8] = []
        var position = 0
        var jumps = 0
        do {
            while position < bytes.count {
                let end = min(bytes.count, position + step)
                if isOfSegments, bytes[position..<end].withUnsafeBytes({ stream.isCutShort(by: $0) }) {
                    try stream.jump(to: UInt64(position))
                }
                bytes[position..<end].withUnsafeBytes { stream.append($0) }
                position = end
                steps: while true {
                    let next = try stream.next()
                    var part = [UInt8](repeating: 0, count: stream.outputSize)
                    part.withUnsafeMutableBytes { stream.takeOutput(into: $0) }
                    output += part
                    switch next {
                    case .nothing: break steps
                    case .sample: stream.withSample { _, sample in turnOver(sample) }
                    case .needsMovie where !canJump: try stream.holdMedia()
                    case .needsMovie(let place), .goBack(let place):
                        jumps += 1
                        guard canJump, jumps <= 2, let start = Int(exactly: place), start <= bytes.count else {
                            return nil
                        }
                        try stream.jump(to: place)
                        position = start
                        break steps
                    }
                }
            }
            try stream.end()
        } catch {
            return nil
        }
        var part = [UInt8](repeating: 0, count: stream.outputSize)
        part.withUnsafeMutableBytes { stream.takeOutput(into: $0) }
        return output + part
    }
}
