// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// The encrypted samples of the media that the boxes tell of.
extension ISOStream {
    /// The first sample that is not done, and whose it is; -1 for the movie.
    func nextSample() -> (fragment: Int, sample: ISOSampleTable.Sample)? {
        var found: (fragment: Int, sample: ISOSampleTable.Sample)?
        if let movie, nextOfMovie < movie.table.samples.count { found = (-1, movie.table.samples[nextOfMovie]) }
        for (index, next) in nextSamples.enumerated() where next < fragments[index].table.samples.count {
            let sample = fragments[index].table.samples[next]
            if found.map({ sample.offset < $0.sample.offset }) ?? true { found = (index, sample) }
        }
        return found
    }

    /// Nil where the media is at its end.
    mutating func proceed(in region: ISORegion) throws(FormatError) -> Step? {
        guard let (fragment, sample) = current ?? nextSample(), sample.offset < region.end else {
            cursor = min(region.end, queue.end)
            guard cursor == region.end else { return .nothing }
            state = .header
            return nil
        }
        try sample.check(liesIn: region)
        guard sample.offset >= cursor else {
            throw .malformed("the encrypted sample at \(sample.offset) shares bytes with the one before it")
        }
        cursor = min(sample.offset, queue.end)
        guard queue.end >= sample.end else { return .nothing }
        current = (fragment, sample)
        if fragment < 0 {
            try movie?.table.fill(&plan, for: sample)
            return .sample(movie?.table.key(of: sample) ?? ISOKeyUse(keyID: nil, media: .video))
        }
        try fragments[fragment].table.fill(&plan, for: sample)
        return .sample(fragments[fragment].table.key(of: sample))
    }

    /// Lends the sample that `next` announced last: its bytes, and how to decrypt them. When `body` throws, the sample
    /// stays.
    public mutating func withSample<Failure: Error>(
        _ body: (SamplePlan, UnsafeMutableRawBufferPointer) throws(Failure) -> Void
    ) throws(Failure) {
        guard let (fragment, sample) = current else { return }
        let plan = plan
        try queue.withBytes(in: sample.offset..<sample.end) { bytes throws(Failure) in try body(plan, bytes) }
        current = nil
        cursor = sample.end
        if fragment < 0 { nextOfMovie += 1 } else { nextSamples[fragment] += 1 }
    }
}
