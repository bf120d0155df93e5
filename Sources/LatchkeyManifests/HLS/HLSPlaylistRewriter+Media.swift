// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

extension HLSPlaylistRewriter {
    mutating func rewriteMedia(_ playlist: HLSPlaylist, to output: inout HLSOutput) throws(FormatError) {
        let variables = HLSVariables(imported: importedVariables, url: output.base.reference)
        let media = try HLSMediaPlaylist(
            playlist, base: output.base, variables: variables, keyFormats: keyFormats, window: window)
        let plan = HLSPlan(media, rewriter: self)
        try plan.write(media, to: &output)
        describe(media, plan, in: &output)

        // What is complete is not refreshed.
        guard !media.isEnded else { return }
        window.hasSampleKeys = window.hasSampleKeys || plan.hasSamples
        window.hasFronts = window.hasFronts || plan.placements.contains { $0.front?.value.isRouted == true }
        window.sampleKey = media.segments.last { $0.sampleKey != nil }?.sampleKey ?? window.sampleKey
        let records = zip(media.segments, plan.placements).compactMap { segment, placement in
            segment.url.map { url in
                (
                    segment.sequence,
                    HLSWindow.Record(
                        url: url, byteRange: segment.byteRange, sharedKey: segment.sharedKey,
                        sharedMap: segment.sharedMap, placement: placement)
                )
            }
        }
        window.advance(first: media.mediaSequence, records: records, scopeChanges: media.scopeChanges)
    }

    private func describe(_ media: HLSMediaPlaylist, _ plan: HLSPlan, in output: inout HLSOutput) {
        output.result.targetDuration = media.targetDuration
        output.result.mediaSequence = media.mediaSequence
        output.result.isEnded = media.isEnded
        output.result.isDelta = media.isDelta
        let isPart = media.segments.last.map { $0.url == nil } ?? false
        let last = isPart ? [output.lastPart] : [output.lastSegment?.url, output.lastSegment?.part]
        output.result.lastURLs = Set(last.compactMap(\.self))
        output.result.variables = media.variables
        output.result.upcomingKey = media.upcomingKey
        output.result.segmentToInspect = plan.segmentToInspect
        output.result.segmentToProbe = plan.segmentToProbe
        var start = 0.0
        var uses: [HLSRewriting.KeyUse] = []
        for (segment, placement) in zip(media.segments, plan.placements) {
            defer { start += segment.duration }
            // What opens an envelope, it says itself.
            if placement.delivery == .enveloped { output.result.isProtected = true }
            guard let key = segment.key, placement.delivery != .enveloped else { continue }
            let decryptor: HLSRewriting.Decryptor = placement.delivery == .direct ? .element : .server
            if let last = uses.indices.last, uses[last].key == key, uses[last].decryptor == decryptor,
                uses[last].segments.upperBound &+ 1 == segment.sequence
            {
                uses[last].segments = uses[last].segments.lowerBound...segment.sequence
                uses[last].end = start + segment.duration
            } else {
                uses.append(
                    HLSRewriting.KeyUse(
                        key: key, decryptor: decryptor, segments: segment.sequence...segment.sequence, start: start,
                        end: start + segment.duration))
            }
        }
        output.result.announcedSegments = announced(media, plan)
        output.result.firstSegment = media.segments.first?.sequence
        output.result.durations = media.segments.map(\.duration)
        output.result.keys = uses
        if !uses.isEmpty { output.result.isProtected = true }
    }

    private func announced(_ media: HLSMediaPlaylist, _ plan: HLSPlan) -> [String: HLSRewriting.AnnouncedSegment] {
        var announced: [String: HLSRewriting.AnnouncedSegment] = [:]
        var last: HLSKeyNote?
        for (segment, placement) in zip(media.segments, plan.placements) {
            guard case .routed(.keyNote(let note)) = placement.front?.value else {
                last = nil
                continue
            }
            defer { last = note }
            guard let url = segment.url, segment.byteRange == nil else { continue }
            announced[url] = HLSRewriting.AnnouncedSegment(kind: note.kind, isFirst: note != last)
        }
        return announced
    }
}
