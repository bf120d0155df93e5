// SPDX-License-Identifier: MPL-2.0

/// Which tracks of a presentation are kept for playback offline: one variant of the pictures, and audio tracks. A value.
public struct TrackSelection: Hashable, Sendable {
    /// In bits a second: the best variant up to this is kept, or the least where all have more. Nil: the best.
    public var maximumBitRate: UInt64?
    /// Names of audio tracks (`ContentInfo.audioTrackNames`), or languages as the manifest has them. Empty: the one that plays
    /// by default. One that the manifest does not have is no error as long as another is there.
    public var audioTracks: [String]

    /// The best variant and the default sound.
    public init(maximumBitRate: UInt64? = nil, audioTracks: [String] = []) {
        self.maximumBitRate = maximumBitRate
        self.audioTracks = audioTracks
    }

    /// The index of the best variant; nil where there is none. The first of equals.
    func variant(of bitRates: [UInt64]) -> Int? {
        var best: Int?
        for (index, rate) in bitRates.enumerated() {
            guard let known = best else {
                best = index
                continue
            }
            let (fits, knownFits) = (isAllowed(rate), isAllowed(bitRates[known]))
            if fits != knownFits ? fits : fits ? rate > bitRates[known] : rate < bitRates[known] { best = index }
        }
        return best
    }

    private func isAllowed(_ rate: UInt64) -> Bool { maximumBitRate.map { rate <= $0 } ?? true }

    /// The indices of the audio tracks to keep: those with a name that is wanted, and for what is no track's name those with
    /// that word beside their names, such as a language. `preferred` is the default track.
    func audio(of tracks: [(name: String, others: [String])], preferred: Int?) -> [Int] {
        let names = Set(tracks.map(\.name))
        let chosen = tracks.indices.filter { index in
            audioTracks.contains { wanted in
                tracks[index].name == wanted || !names.contains(wanted) && tracks[index].others.contains(wanted)
            }
        }
        if !chosen.isEmpty { return chosen }
        return (preferred ?? tracks.indices.first).map { [$0] } ?? []
    }
}
