// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import LatchkeyManifests

extension FuzzTarget {
    static let offline: [FuzzTarget] = [
        FuzzTarget("offline-hls") { bytes in
            let url = "https://media.example/a/b.m3u8"
            if let master = try? HLSOfflineMaster(bytes, from: url, selection: TrackSelection()), master.isMaster {
                let written = master.serialized { $0 }
                let again = try? HLSOfflineMaster(written, from: url, selection: TrackSelection())
                promise(again?.playlists.count == master.playlists.count, "what is kept is kept again")
            }
            guard let media = try? HLSOfflineMedia(bytes, from: url, variables: [:]) else { return }
            let kept = try? HLSOfflineMedia(
                media.serialized(until: nil, keptKeys: Set(media.keys)) { $0 }, from: url, variables: [:])
            // A URI that no URL may be is one when it is written.
            promise(kept.map { Set(media.keys).isSubset(of: $0.keys) } ?? true, "no key is lost")
            promise(
                kept.map { Set(media.serverKeys.map(\.uri)).isSubset(of: $0.serverKeys.map(\.uri)) } ?? true,
                "no key of a key server is lost")
            for url in media.keys + media.pieces.map(\.url) {
                let normal = URIReference.normalized(url)
                promise(URIReference.normalized(normal) == normal, "a URL has one spelling")
            }
            let end = media.duration / 2
            guard let half = try? HLSOfflineMedia(media.serialized(until: end) { $0 }, from: url, variables: [:]) else {
                return
            }
            promise(half.isEnded && half.duration <= end + 1, "a playlist ends where it is cut")
        },
        FuzzTarget("offline-dash") { bytes in
            let url = "https://media.example/a/b.mpd"
            guard let whole = try? DASHOfflinePresentation(bytes, from: url, selection: TrackSelection()) else {
                return
            }
            promise(whole.pieces.allSatisfy { $0.begin >= .zero && $0.duration >= .zero }, "time goes forward")
            for end in [nil, whole.duration.map { $0 / 2 }] {
                _ = try? DASHOfflinePresentation(
                    whole.serialized(until: end) { $0 }, from: url, selection: TrackSelection())
            }
        },
        FuzzTarget("iso-timeline") { bytes in
            _ = try? ISOSegmentIndex(bytes)
            var offset: UInt64 = 0
            var timeline: ISOTimeline?
            while offset < bytes.count {
                let header = Array(bytes[Int(offset)...].prefix(ISOTopLevelBox.headerSize))
                guard let box = try? ISOTopLevelBox(header, at: offset, ofFileWith: UInt64(bytes.count)) else { return }
                promise(box.range.upperBound > offset && box.range.upperBound <= bytes.count, "boxes go forward")
                let whole = Array(bytes[Int(offset)..<Int(box.range.upperBound)])
                if box.type == "moov" { timeline = try? ISOTimeline(movie: whole) }
                if box.type == "moof" {
                    let parts = (try? timeline?.take(fragment: whole)) ?? []
                    promise(parts.allSatisfy { $0.begin >= .zero && $0.duration >= .zero }, "time goes forward")
                }
                offset = box.range.upperBound
            }
        },
    ]
}
