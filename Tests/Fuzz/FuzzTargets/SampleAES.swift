// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

extension FuzzTarget {
    static let sampleAES: [FuzzTarget] = [
        FuzzTarget("sample-aes") { bytes in
            let whole = clear(bytes, pieces: bytes.count)
            // The first byte may say where to cut, since the readers look at all of it anyway.
            let parts = clear(bytes, pieces: 1 + Int(bytes.first ?? 0) * 3)
            // Where a broken stream is found again may differ; that nothing is lost or doubled may not.
            if let whole, let parts { promise(whole.count == parts.count, "how the bytes come changes nothing") }
        },
        FuzzTarget("segment-key") { bytes in
            if let key = SegmentKey(transportStreamPackets: bytes) {
                promise(SegmentKey(transportStreamPackets: key.transportStreamPackets()) == key)
            }
            if let key = SegmentKey(id3Tag: bytes) { promise(SegmentKey(id3Tag: key.id3Tag()) == key) }
        },
        FuzzTarget("id3-filter") { bytes in
            let whole = ID3Filter.filter(whole: bytes)
            promise(whole.count == bytes.count, "no byte is added or removed")
            promise(zip(whole, bytes).allSatisfy { $0 == $1 || ($1 == 0x50 && $0 == 0x58) }, "a P may become an X")
            promise(ID3Filter.filter(whole: whole) == whole, "what is good stays")
            var filter = ID3Filter()
            var pieces: [UInt8] = []
            let size = 1 + Int(bytes.last ?? 0) % 40
            for start in stride(from: 0, to: bytes.count, by: size) {
                pieces += filter.filter(Array(bytes[start..<min(start + size, bytes.count)]))
            }
            promise(pieces + filter.end() == whole, "how the bytes come changes nothing")
        },
        // H.264 as a byte stream, and as a sample with encrypted blocks behind the parameter sets.
        FuzzTarget("intra-slices") { bytes in
            var pictures = PictureSlices()
            let (whole, broken) = bytes.withUnsafeBytes { pictures.count(in: $0) }
            promise(whole <= 1 && broken <= 8, "few slices of a picture are read")
            var plan = SamplePlan(
                scheme: .cbcs, initializationVector: InitializationVector(high: 0, low: 0),
                pattern: BlockPattern(crypt: 1, skip: 9))
            plan.subsamples = [Subsample(clear: 64, protected: UInt32(max(0, bytes.count - 64)))]
            let signs = bytes.withUnsafeBytes { SampleSigns($0, plan, .h264(lengthSize: 4)) }
            promise(signs.wholeSlices <= 1 && signs.brokenSlices <= 8, "few slices of a sample are read")
        },
    ]

    /// What comes out, with a cipher that inverts bits; nil where the bytes cannot be read.
    private static func clear(_ bytes: [UInt8], pieces: Int) -> [UInt8]? {
        let stream = SampleAESStream()
        var output: [UInt8] = []
        do {
            var rest = bytes[...]
            while true {
                let piece = rest.prefix(max(1, pieces))
                rest = rest.dropFirst(max(1, pieces))
                if piece.isEmpty { try stream.end() } else { try piece.withUnsafeBytes { try stream.append($0) } }
                while try step(stream) {}
                promise(stream.outputSize <= stream.heldSize, "nothing comes from nowhere")
                var taken = [UInt8](repeating: 0, count: stream.outputSize)
                taken.withUnsafeMutableBytes { stream.takeOutput(into: $0) }
                output += taken
                if piece.isEmpty { return output }
            }
        } catch {
            return nil
        }
    }

    private static func step(_ stream: SampleAESStream) throws -> Bool {
        switch try stream.next() {
        case .nothing: return false
        case .key: return true
        case .unit:
            stream.withUnit { plan, bytes in
                promise(
                    plan.subsamples.reduce(0) { $0 + Int($1.clear) + Int($1.protected) } == bytes.count
                        || plan.subsamples.isEmpty, "the plan covers the unit")
                for index in bytes.indices { bytes[index] = ~bytes[index] }
            }
            return true
        }
    }
}
