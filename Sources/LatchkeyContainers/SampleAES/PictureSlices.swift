// SPDX-License-Identifier: MPL-2.0

/// Which intra slices of an H.264 byte stream are whole ones (ITU-T H.264, annex B), of those that SAMPLE-AES encrypts. The first
/// encrypted block of each needs the right IV, too. No bytes make it trap.
public struct PictureSlices {
    private var sets = H264ParameterSets()
    /// NAL units of at most so many bytes are clear.
    private static let largestClearUnit = 48

    /// No parameter set is known yet.
    public init() {}

    /// The slices of a decrypted access unit, behind the header of its PES packet: how many are whole, and how many are not. Those
    /// behind a whole one are not looked at, nor those behind `SampleSigns.sliceLimit` broken ones.
    public mutating func count(in pictures: UnsafeRawBufferPointer) -> (whole: Int, broken: Int) {
        var (whole, broken) = (0, 0)
        guard let base = pictures.baseAddress else { return (0, 0) }
        // SAFETY: all offsets are at most the size.
        var next = StartCode.find(base, from: 0, to: pictures.count, escapes: nil)
        while whole == 0, broken < SampleSigns.sliceLimit, let start = next.map({ $0 + StartCode.size }),
            start < pictures.count
        {
            next = StartCode.find(base, from: start, to: pictures.count, escapes: nil)
            var end = next ?? pictures.count
            while end > start, pictures[end - 1] == 0 { end -= 1 }
            let unit = UnsafeRawBufferPointer(rebasing: pictures[start..<end])
            guard let header = unit.first else { continue }
            switch header & 31 {
            case 7, 8: sets.add(unit: unit)
            case 1 where unit.count > Self.largestClearUnit, 5 where unit.count > Self.largestClearUnit:
                let slice = UnsafeRawBufferPointer(rebasing: unit.dropFirst())
                switch H264IntraStart.isWhole(slice, header: header, sets) {
                case true?: whole += 1
                case false?: broken += 1
                case nil: break
                }
            default: break
            }
        }
        return (whole, broken)
    }
}
