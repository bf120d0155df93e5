// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

extension HLSPlan {
    /// Writes the lines of `media` as planned.
    func write(_ media: HLSMediaPlaylist, to output: inout HLSOutput) throws(FormatError) {
        // The map that the lines written so far leave in force.
        var front: HLSShared<HLSFront>?
        for (segment, placement) in zip(media.segments, placements) {
            var isIntroduced = !isRewritten
            for index in segment.lines {
                let line = media.lines[index]
                if !isIntroduced, line.startsSegment {
                    try introduce(placement, behind: &front, to: &output)
                    isIntroduced = true
                }
                let isLast = index == segment.lines.upperBound - 1
                try write(line, segment, placement, isLast: isLast, to: &output)
            }
        }
        for line in media.lines[(media.segments.last?.lines.upperBound ?? 0)...] {
            try write(line, nil, placements.last, isLast: false, to: &output)
        }
    }

    /// Writes the map of a segment where it changes.
    ///
    /// It goes in front of the segment's own tags: the stock demuxer takes an `EXT-X-BYTERANGE` before a map for the map's.
    private func introduce(
        _ placement: Placement, behind front: inout HLSShared<HLSFront>?, to output: inout HLSOutput
    ) throws(FormatError) {
        guard let next = placement.front, next != front else { return }
        front = next
        switch next.value {
        case .own(let map):
            output.note(map.url)
            let range = map.byteRange.map { ",BYTERANGE=\"\($0.text)\"" } ?? ""
            try output.write("#EXT-X-MAP:URI=\"\(map.url)\"\(range)")
        case .routed(let resource):
            try output.write("#EXT-X-MAP:URI=\"\(output.url(resource))\"")
        }
    }

    private func write(
        _ line: HLSLine, _ segment: HLSMediaPlaylist.Segment?, _ placement: Placement?, isLast: Bool,
        to output: inout HLSOutput
    ) throws(FormatError) {
        switch line.content {
        case .blank, .comment:
            try output.write(line)
        case .uri(let reference):
            guard isLast, let segment, let url = segment.url else {
                return try output.write(output.absolute(reference), ending: line.ending)
            }
            output.note(url)
            (output.lastSegment, output.lastPart) = ((url, output.lastPart), nil)
            if let placement, placement.delivery == .enveloped {
                let resource = HLSEnvelopedSegment(
                    url: url, byteRange: segment.byteRange,
                    kind: segment.map == nil ? .transportStream : .fragmentedMP4,
                    start: Self.ticks(placement.start))
                return try output.write(output.url(.envelope(resource)), ending: line.ending)
            }
            guard placement?.delivery == .decrypted, let decryption = segment.decryption else {
                let target = isRelayed(url) ? output.url(.relayedSegment(url: url)) : url
                return try output.write(target, ending: line.ending)
            }
            let resource = HLSEncryptedSegment(url: url, byteRange: segment.byteRange, decryption: decryption)
            try output.write(output.url(.segment(resource)), ending: line.ending)
        case .tag(let name, let value):
            try writeTag(line, name, value ?? "", segment, placement, to: &output)
        }
    }

    private func isRelayed(_ url: String) -> Bool {
        guard isRewritten, relaysSegments || relayedOrigin != nil else { return false }
        let reference = URIReference(url)
        return reference.isHTTP && (relaysSegments || reference.origin == relayedOrigin)
    }

    /// Seconds in ticks of 90 kHz, of which the lowest 33 bits are kept.
    private static func ticks(_ seconds: Double) -> UInt64 {
        let ticks = (seconds * 90_000).rounded().truncatingRemainder(dividingBy: Double(1 << 33))
        return UInt64(exactly: ticks) ?? 0
    }

    private func writeTag(
        _ line: HLSLine, _ name: Substring, _ value: Substring, _ segment: HLSMediaPlaylist.Segment?,
        _ placement: Placement?, to output: inout HLSOutput
    ) throws(FormatError) {
        switch name {
        case "EXT-X-KEY":
            // The stock demuxer decrypts nothing itself.
            if !isRewritten { try output.write("#EXT-X-KEY:METHOD=NONE", ending: line.ending) }
        case "EXT-X-MAP":
            guard !isRewritten else { return }
            try output.writeAbsolute(line, tag: name, value: value, names: ["URI"])
        case "EXT-X-BYTERANGE":
            guard isRewritten, let segment, let range = segment.byteRange else { return try output.write(line) }
            // The server applies the range itself; and what follows a routed segment needs its offset.
            guard placement?.delivery.isServed != true else { return }
            try output.write("#EXT-X-BYTERANGE:\(range.text)", ending: line.ending)
        case "EXT-X-PART":
            // Segments that are decrypted here are served whole.
            guard placement?.delivery.isServed != true else { return }
            output.lastPart = (try? HLSAttributeList(parsing: value))?["URI"].map { output.absolute($0) }
            try output.writeAbsolute(line, tag: name, value: value, names: ["URI"])
        case "EXT-X-PRELOAD-HINT":
            // A hint at what will have another URL would be fetched in vain.
            let isMap = (try? HLSAttributeList(parsing: value))?["TYPE"] == "MAP"
            guard placement?.delivery.isServed != true, !isRewritten || !isMap else { return }
            try output.writeAbsolute(line, tag: name, value: value, names: ["URI"])
        case "EXT-X-RENDITION-REPORT":
            guard let list = try? HLSAttributeList(parsing: value) else { return try output.write(line) }
            try output.write(line, tag: name, list: list) { output, attribute in
                guard attribute.name == "URI", !attribute.value.isEmpty else { return nil }
                return output.url(.playlist(url: output.absolute(attribute.value)))
            }
        case "EXT-X-DATERANGE":
            try output.writeAbsolute(line, tag: name, value: value, names: ["X-ASSET-URI", "X-ASSET-LIST"])
        default:
            try output.write(line)
        }
    }
}

extension HLSLine {
    /// Whether this is a line of a segment, where a map has to stand in front.
    fileprivate var startsSegment: Bool {
        switch content {
        case .tag("EXTINF", _), .tag("EXT-X-BYTERANGE", _), .tag("EXT-X-PART", _): true
        case .tag, .blank, .comment, .uri: false
        }
    }
}
