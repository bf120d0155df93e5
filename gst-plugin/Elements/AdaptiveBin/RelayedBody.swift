// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyContainers

/// The body of a segment on its way to the stock demuxer, which cannot mend one that breaks off. Where the connection breaks,
/// it goes on where it was.
actor RelayedBody {
    private let url: String
    private let request: LoopbackRequest
    private var download: SegmentDownload
    private let head: HTTPResponse
    private var start: [UInt8]
    private var body: ResumableBody
    private let relay: SegmentRelay
    private let origin: PresentationOrigin
    private let onEnd: @Sendable (Int) -> Void
    /// Nil: everything goes on as it comes.
    private var filter: ID3Filter?
    private var hasEnded = false

    /// `start` is what came of it already; `onEnd` hears how many bytes were handed on, when all were.
    init(
        _ url: String, _ request: LoopbackRequest, _ download: SegmentDownload, head: HTTPResponse, start: [UInt8],
        part: RelayedPart, filter: ID3Filter?, relay: SegmentRelay, origin: PresentationOrigin,
        onEnd: @escaping @Sendable (Int) -> Void
    ) {
        (self.url, self.request, self.download, self.head) = (url, request, download, head)
        (self.start, self.filter, self.relay, self.origin, self.onEnd) = (start, filter, relay, origin, onEnd)
        body = ResumableBody(head, part)
    }

    /// The next piece; nil after the last one.
    func next() async throws(LoopbackStream.Broken) -> [UInt8]? {
        if hasEnded { return nil }
        if !start.isEmpty {
            let left = try take(start, of: head)
            start = []
            if !left.isEmpty { return left }
        }
        while let event = await download.next() {
            switch event {
            case .piece(let head, let piece):
                let left = try take(piece, of: head)
                if !left.isEmpty { return left }
            case .end(let response):
                if body.isWhole(at: response) {
                    onEnd(body.count)
                    hasEnded = true
                    let rest = filter?.end() ?? []
                    return rest.isEmpty ? nil : rest
                }
                guard !(200...299 ~= response.status) else { throw lost(.changed(url, origin.medium)) }
                try await goOn(after: .status(response.status, of: origin.medium, at: url))
            case .failure(let failure): try await goOn(after: failure)
            }
        }
        throw LoopbackStream.Broken()
    }

    /// What of a piece goes on.
    private func take(_ piece: [UInt8], of head: HTTPResponse) throws(LoopbackStream.Broken) -> [UInt8] {
        guard let left = body.take(piece, of: head) else { throw lost(.changed(url, origin.medium)) }
        if !left.isEmpty {
            relay.didSucceed(url)
            if body.isAtEnd, let length = body.part.length { onEnd(length) }
        }
        var filtered = filter?.filter(left) ?? left
        // The reader stops at the length that was announced, and does not ask again.
        if body.isAtEnd, let rest = filter?.end() { filtered += rest }
        return filtered
    }

    private func goOn(after failure: PresentationFailure) async throws(LoopbackStream.Broken) {
        guard await relay.triesAgain(failure, at: url) else { throw lost(failure) }
        let range = body.resume(request.header("Range"))
        download = SegmentDownload(url, for: request, range: range, from: origin)
    }

    /// Tells of it, unless nobody wants the body any more.
    private func lost(_ failure: PresentationFailure) -> LoopbackStream.Broken {
        if !Task.isCancelled { relay.didLose(failure) }
        return LoopbackStream.Broken()
    }
}

extension PresentationFailure {
    fileprivate static func changed(_ url: String, _ what: String) -> PresentationFailure {
        PresentationFailure(
            kind: .network,
            text:
                "The \(what) \(HTTPRequest(url: url).printableURL) cannot be had: its connection broke, and what came "
                + "next is of another size or content.",
            advice: "Check whether the server changed it, or give it an ETag that stays the same while its bytes do.")
    }
}
