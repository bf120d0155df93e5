// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyContainers

/// What an origin answered where a part of a resource was asked for, checked against what is known of the resource. A
/// value.
struct RangeAnswer: Sendable {
    /// The first block that is there as a whole.
    let first: UInt64
    /// Whole blocks; the last may be shorter where the resource ends.
    let bytes: [UInt8]
    /// With its size and its validator.
    let resource: CachedResource

    /// Throws `serverError`, `invalidContent` for a web page and for a malformed answer, and `contentChanged` where size or
    /// validator are others than before: bytes of two versions never come together. `isWhole`: whether all of the body is
    /// there, and not only its start.
    init(
        _ response: HTTPResponse, to range: Range<UInt64>, of known: CachedResource, blockSize: Int,
        isWhole: Bool = true
    ) throws(CacheError) {
        var resource = known
        var offset: UInt64 = 0
        let total: UInt64
        switch response.status {
        case 206:
            guard let range = response.contentRange, let first = range.first, let last = range.last,
                let size = range.size,
                isWhole ? last - first + 1 == response.body.count : last - first + 1 >= response.body.count
            else {
                throw .invalidContent("an answer with a part has no usable Content-Range", at: response.url)
            }
            (offset, total) = (UInt64(first), UInt64(size))
        case 200..<300: total = UInt64(response.body.count)
        // A resource without bytes has no part.
        case 416 where range.lowerBound == 0 && (known.size ?? 0) == 0: total = 0
        case 416: throw Self.changed(known)
        default: throw .serverError(response.status, at: response.url)
        }
        guard total <= CachedResource.largestSize else {
            throw .invalidContent("the server tells a size of \(total) bytes", at: response.url)
        }
        let body = response.status == 416 ? [] : response.body
        if WebPage.isOne(start: body.prefix(WebPage.size)) {
            throw .invalidContent(
                "a web page came in the place of media, such as the log-in page of a network: open the URL in a browser",
                at: response.url)
        }
        let validator = response.header("ETag") ?? response.header("Last-Modified") ?? ""
        let isOther = !known.validator.isEmpty && !validator.isEmpty && validator != known.validator
        guard known.size == nil || known.size == total, !isOther else { throw Self.changed(known) }
        resource.size = total
        if !validator.isEmpty { resource.validator = validator }
        resource.answeringURL = response.url
        resource.contentType = response.header("Content-Type") ?? ""
        self.resource = resource

        // From the start of a block to the end of one, or of the resource.
        let size = UInt64(blockSize)
        first = (offset + size - 1) / size
        let skipped = first * size - offset
        let end = offset + UInt64(body.count)
        let stop = end >= total ? end : end / size * size
        bytes = stop > first * size ? Array(body[Int(skipped)..<Int(stop - offset)]) : []
        guard first * size <= range.lowerBound, stop > range.lowerBound || total <= range.lowerBound || !isWhole else {
            throw .invalidContent("the server sends other bytes than were asked for", at: response.url)
        }
    }

    /// One array for each block.
    func blocks(of size: Int) -> [[UInt8]] {
        stride(from: 0, to: bytes.count, by: size).map { Array(bytes[$0..<min($0 + size, bytes.count)]) }
    }

    private static func changed(_ resource: CachedResource) -> CacheError {
        CacheError(
            .contentChanged,
            "\(CacheError.printable(resource.url)) is not any more what it was when a part of it was cached; "
                + "purge it and start again")
    }
}
