// SPDX-License-Identifier: MPL-2.0

import ElementKit
import HTTP
import MediaFormats
import Synchronization

/// Segments behind notes that are no media. The stock demuxer fetches them by itself, and where one that has a note in front
/// holds nothing that it can use, it stops in silence: so what its HTTP client gets is watched here.
extension HLSPresentation {
    /// In bytes. A segment of less is looked at; media has more.
    private static let suspiciousSize: UInt64 = 512

    /// From the first playlist with notes on. Nothing is seen where GStreamer has an older HTTP library.
    func watchSegments() {
        guard state.withLock({ $0.hasNotes && $0.segmentWatch == nil && $0.servers != nil }) else { return }
        let watch = HTTPClientWatch { [weak self] in self?.clientDidGet($0) }
        let surplus = state.withLock { state -> HTTPClientWatch? in
            guard state.segmentWatch == nil, state.servers != nil else { return watch }
            state.segmentWatch = watch
            return nil
        }
        withExtendedLifetime(surplus) {}
    }

    private func clientDidGet(_ answer: HTTPClientAnswer) {
        guard answer.status == 200 || answer.status == 206 else { return }
        let found = state.withLock { state -> (url: String, segment: HLSRewriting.AnnouncedSegment, isFirst: Bool)? in
            var url = answer.url
            if let path = state.servers?.path(in: url) {
                let name = path.prefix { $0 != "." && $0 != "?" }
                guard let own = table.resource(String(name))?.originURL else { return nil }
                url = own
            }
            for (playlist, segments) in state.announced {
                guard let segment = segments[url] else { continue }
                state.lastAnnounced = url
                let isFirst = answer.isFinished && state.begun.insert(playlist).inserted
                return (url, segment, isFirst || segment.isFirst)
            }
            return nil
        }
        guard answer.isFinished, let (url, segment, isFirst) = found, let length = answer.length,
            length < Self.suspiciousSize
        else { return }
        // The stock demuxer leaves out an empty one that has no note right in front.
        if length == 0, !isFirst { return }
        Task { await examine(url, segment.kind) }
    }

    /// Looks at a segment that is too short to be believed.
    private func examine(_ url: String, _ kind: HLSSegmentKind) async {
        do throws(HLSFailure) {
            let bytes = try await origin.bytes(.segment, url)
            guard let flaw = Self.flaw(of: bytes, kind) else { return }
            fail(.media("segment", at: url, flaw))
        } catch {
            if error.isFinal { fail(error) }
        }
    }

    /// Why that is no segment; nil where it may be one.
    static func flaw(of bytes: [UInt8], _ kind: HLSSegmentKind) -> String? {
        switch kind {
        case .transportStream:
            if bytes.isEmpty { return "it is empty" }
            return bytes.count < SegmentKey.packetSize
                ? "its \(bytes.count) bytes are less than a packet of a transport stream" : nil
        // The stock demuxer leaves out an empty one.
        case .packedAudio:
            return SegmentKey.endsWithinTag(bytes) ? "its \(bytes.count) bytes end within its ID3 tag" : nil
        case .fragmentedMP4, .webVTT:
            return nil
        }
    }

    /// The stock demuxer has failed at what it fetched, and says no more. With several tracks, the segment that it fetched
    /// last may be another's.
    var failureOfSegments: HLSFailure? {
        guard let url = state.withLock({ $0.lastAnnounced }) else { return nil }
        return HLSFailure(
            kind: .format,
            text: "The segments cannot be used: GStreamer finds no media in one of them. It fetched "
                + "\(HTTPRequest(url: url).printableURL) last.",
            advice: "Either the key or the media is a wrong one.")
    }
}
