// SPDX-License-Identifier: MPL-2.0

import HTTP

/// The body of a segment on its way to the stock demuxer, which cannot mend one that breaks off. Where the connection breaks,
/// it goes on where it was: with the rest, or, where no field tells that of another resource, with all of it again, whose
/// beginning must be what was handed on.
actor RelayedBody {
    private let url: String
    private let request: LoopbackRequest
    private var download: SegmentDownload
    private let head: HTTPResponse
    private var start: [UInt8]
    private let part: RelayedPart
    /// In the resource at the origin: what is handed on next.
    private var place: Int
    /// What the origin sends in front of that, though it was not asked for.
    private var surplus: Int
    /// What was handed on; nil where the fields of the head tell the resource.
    private var fingerprint: BodyFingerprint?
    /// What has to come again before something new does, and what came of that.
    private var repetition = (left: 0, seen: BodyFingerprint())
    /// The head of the answer to a new request has to be looked at.
    private var isNew = false
    private let relay: SegmentRelay
    private let origin: PresentationOrigin
    private let onEnd: @Sendable (Int) -> Void

    /// `start` is what came of it already; `onEnd` hears how many bytes were handed on, when all were.
    init(
        _ url: String, _ request: LoopbackRequest, _ download: SegmentDownload, head: HTTPResponse, start: [UInt8],
        part: RelayedPart, relay: SegmentRelay, origin: PresentationOrigin, onEnd: @escaping @Sendable (Int) -> Void
    ) {
        (self.url, self.request, self.download, self.head) = (url, request, download, head)
        (self.start, self.part, self.relay, self.origin, self.onEnd) = (start, part, relay, origin, onEnd)
        place = part.first
        surplus = part.first - part.sent.first
        let isWeak = head.header("ETag")?.hasPrefix("W/") == true
        let isTold = part.end != nil || head.header("ETag") != nil || head.header("Last-Modified") != nil
        fingerprint = isWeak || !isTold ? BodyFingerprint() : nil
    }

    /// The next piece; nil after the last one.
    func next() async throws(LoopbackStream.Broken) -> [UInt8]? {
        if !start.isEmpty {
            let left = try wanted(start)
            start = []
            if !left.isEmpty { return take(left) }
        }
        while let event = await download.next() {
            switch event {
            case .piece(let head, let piece):
                guard !isNew || fits(head) else { throw lost(.changed(url)) }
                let left = try wanted(piece)
                if !left.isEmpty { return take(left) }
            case .end(let response):
                if isWhole(response) {
                    onEnd(place - part.first)
                    return nil
                }
                guard !(200...299 ~= response.status) else { throw lost(.changed(url)) }
                try await goOn(after: .status(response.status, of: "segment", at: url))
            case .failure(let failure): try await goOn(after: failure)
            }
        }
        throw LoopbackStream.Broken()
    }

    /// What of a piece goes on.
    private func wanted(_ piece: [UInt8]) throws(LoopbackStream.Broken) -> [UInt8] {
        var left = piece.dropFirst(surplus)
        surplus -= piece.count - left.count
        guard repetition.left > 0 else { return Array(left) }
        let again = left.prefix(repetition.left)
        left = left.dropFirst(again.count)
        repetition.left -= again.count
        repetition.seen.add(again)
        guard repetition.left > 0 || repetition.seen == fingerprint else { throw lost(.changed(url)) }
        return Array(left)
    }

    private func take(_ bytes: [UInt8]) -> [UInt8] {
        place += bytes.count
        fingerprint?.add(bytes[...])
        relay.didSucceed(url)
        if let end = part.end, place >= end { onEnd(end - part.first) }
        return bytes
    }

    /// Whether this is the end of a body whose length nobody told. Where only the end of it was lost, nothing is left.
    private func isWhole(_ response: HTTPResponse) -> Bool {
        guard part.end == nil else { return false }
        if response.status == 416 { return isNew && fingerprint == nil && ContentRange.size(response) == place }
        return 200...299 ~= response.status && !isNew && surplus == 0 && repetition.left == 0
    }

    private func goOn(after failure: PresentationFailure) async throws(LoopbackStream.Broken) {
        guard await relay.triesAgain(failure, at: url) else { throw lost(failure) }
        var range = request.header("Range")
        if fingerprint == nil { range = "bytes=\(place)-" + (part.end.map { "\($0 - 1)" } ?? "") }
        download = SegmentDownload(url, for: request, range: range, from: origin)
        isNew = true
    }

    /// Tells of it, unless nobody wants the body any more.
    private func lost(_ failure: PresentationFailure) -> LoopbackStream.Broken {
        if !Task.isCancelled { relay.didLose(failure) }
        return LoopbackStream.Broken()
    }

    /// Whether the new answer is of the same resource, as far as its head tells.
    private func fits(_ new: HTTPResponse) -> Bool {
        isNew = false
        let first = new.status == 206 ? ContentRange(new)?.first : 0
        guard fingerprint == nil else {
            surplus = part.first - part.sent.first
            repetition = (place - part.first, BodyFingerprint())
            return first == part.sent.first
        }
        guard new.header("ETag") == head.header("ETag"), new.header("Last-Modified") == head.header("Last-Modified"),
            isOfSameSize(new)
        else { return false }
        // What an answer before this one still was to skip is not in a part.
        surplus = new.status == 206 ? 0 : place
        return new.status != 206 || first == place
    }

    private func isOfSameSize(_ new: HTTPResponse) -> Bool {
        guard part.end != nil else { return true }
        return ContentRange.size(new).map { $0 == ContentRange.size(head) } ?? false
    }
}

extension PresentationFailure {
    fileprivate static func changed(_ url: String) -> PresentationFailure {
        PresentationFailure(
            kind: .network,
            text:
                "The segment \(HTTPRequest(url: url).printableURL) cannot be had: its connection broke, and what came "
                + "next is of another size or content.",
            advice: "Check whether the server changed it, or give it an ETag that stays the same while its bytes do.")
    }
}
