// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection

extension FuzzTarget {
    private static let formats: [HLSKeyFormat] = [.fairPlay, .identity, .playReady]

    static let hls: [FuzzTarget] = [
        FuzzTarget("hls-playlist") { bytes in
            _ = (HLSPlaylist.isKeyed(start: bytes), HLSPlaylist.blocksReload(start: bytes))
            guard let playlist = try? HLSPlaylist(bytes) else { return }
            let written = playlist.serialized()
            promise((try? HLSPlaylist(written))?.serialized() == written, "what is written reads the same")
        },
        FuzzTarget("hls-rewriter") { bytes in
            for kind in [nil, HLSSegmentKind.transportStream] {
                var rewriter = HLSPlaylistRewriter(keyFormats: formats, segmentKind: kind)
                var routed: [HLSResource] = []
                guard
                    let first = try? rewriter.rewrite(
                        bytes, from: "https://media.example/a/b.m3u8?c=d",
                        route: { resource in
                            if !routed.contains(resource) { routed.append(resource) }
                            return "http://127.0.0.1:1/t/\(routed.firstIndex(of: resource) ?? 0)"
                        })
                else { continue }
                promise(first.resources.allSatisfy(routed.contains), "only routed resources are told")
                promise(
                    !first.bytes.split(separator: UInt8(ascii: "\n")).contains {
                        $0.starts(with: "#EXT-X-KEY:".utf8)
                            && String(decoding: $0, as: UTF8.self).contains("=SAMPLE-AES,")
                    }, "the stock demuxer sees no SAMPLE-AES")
            }
        },
        // Refreshes of one live playlist, with a zero byte between them.
        FuzzTarget("hls-refresh") { bytes in
            var rewriter = HLSPlaylistRewriter(keyFormats: formats)
            var routes: [HLSResource: Int] = [:]
            for refresh in bytes.split(separator: 0, maxSplits: 7) {
                func rewritten() -> HLSRewriting? {
                    try? rewriter.rewrite(refresh, from: "https://media.example/a/b.m3u8") { resource in
                        let number = routes[resource] ?? routes.count
                        routes[resource] = number
                        return "http://127.0.0.1:1/t/\(number)"
                    }
                }
                guard let first = rewritten() else { continue }
                promise(rewritten()?.bytes == first.bytes, "a refresh that changes nothing gives the same bytes")
                promise(
                    first.durations.count <= first.bytes.count, "no more segments than there are in the playlist")
            }
        },
        FuzzTarget("hls-key") { bytes in
            guard let key = try? HLSKey(attributeList: String(decoding: bytes, as: UTF8.self)) else { return }
            guard let again = try? HLSKey(attributeList: key.attributeList) else {
                fatalError("what is written reads")
            }
            promise(again == key, "what is written reads the same")
            guard key.method != .none else { return }
            let box = key.initializationData(keyID: KeyID(high: 1, low: 2))
            promise(HLSKey.key(in: box) == key, "the key comes back out of its box")
        },
        FuzzTarget("uri") { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            let lines = text.split(separator: "\n", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
            guard let first = lines.first else { return }
            let base = URIReference(first)
            let resolved = URIReference.resolve(lines.count > 1 ? lines[1] : "", against: base)
            _ = URIReference(resolved).printable
        },
        FuzzTarget("init-segment") { bytes in
            let keyID = KeyID(high: 0x0123_4567_89AB_CDEF, low: 0xFEDC_BA98_7654_3210)
            let box = PSSHBox(system: .fairPlay, keyIDs: [keyID], data: [1, 2, 3])
            let isTaken = (try? InitSegment.check(bytes)) != nil
            if let start = InitSegment(startOf: bytes) {
                promise(start.bytes.elementsEqual(bytes.prefix(start.bytes.count)), "it is the start")
            }
            guard let segment = try? InitSegment(bytes) else { return }
            promise(isTaken, "what can be read has a movie")
            if let rewritten = try? segment.rewriting(keyID: keyID, protectionBoxes: [box]) {
                let again = try? InitSegment(rewritten)
                promise(again?.tracks.count == segment.tracks.count, "no track is lost")
                promise(again?.protectionBoxes == [box], "the box is there, alone")
            }
            if let marked = try? segment.markingProtected(scheme: .cbcs, keyID: keyID, protectionBoxes: [box]) {
                // Broken boxes inside a clear sample entry are not looked into before.
                let again = try? InitSegment(marked)
                promise(again == nil || again?.tracks.count == segment.tracks.count, "no track is lost")
            }
        },
    ]
}
