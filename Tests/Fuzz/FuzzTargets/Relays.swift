// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP

extension FuzzTarget {
    static let relays: [FuzzTarget] = [
        FuzzTarget("content-range") { bytes in
            let text = String(decoding: bytes, as: UTF8.self)
            if let range = ContentRange(text) {
                let end = range.last ?? range.first ?? 0
                promise(range.first ?? 0 >= 0 && end >= range.first ?? 0 && end < ContentRange.limit)
                promise(range.size.map { $0 < ContentRange.limit && (range.first == nil || end < $0) } ?? true)
                let places = range.first.map { "\($0)-" + (range.last.map { "\($0)" } ?? "") } ?? "*"
                let written = "bytes \(places)/" + (range.size.map { "\($0)" } ?? "*")
                promise(ContentRange(written) == range)
            }
            guard let range = LoopbackRange(text) else { return }
            for size in [0, 1, 5000, ContentRange.limit] {
                let bounds = range.bounds(in: size)
                promise(bounds.map { !$0.isEmpty && $0.lowerBound >= 0 && $0.upperBound <= size } ?? true)
            }
        },
        /// A `Set-Cookie` field, of an answer from several hosts.
        FuzzTarget("set-cookie") { bytes in
            let field = String(decoding: bytes, as: UTF8.self)
            for host in ["a.b.example.com", "127.0.0.1", "[::1]", "co.uk"] {
                guard let line = CookieStore.line(of: field, from: "https://\(host)/a/b?c", at: 1 << 30) else {
                    continue
                }
                let columns = line.split(separator: "\t", omittingEmptySubsequences: false).map(String.init)
                promise(columns.count == 7 && !line.utf8.contains { $0 < 0x20 && $0 != 0x09 }, "it is one line")
                guard columns.count == 7 else { return }
                let domain = columns[0].hasPrefix("#HttpOnly_") ? String(columns[0].dropFirst(10)) : columns[0]
                let isShared = columns[1] == "TRUE" && domain.contains(".") && host.hasSuffix("." + domain)
                promise(isShared || domain == host.filter { $0 != "[" && $0 != "]" }, "it is of the host")
                promise(columns[2].hasPrefix("/") && Int(columns[4]).map { $0 >= 0 } ?? false && !columns[5].isEmpty)
            }
        },
        /// The first line is the `Range` field of the client. Then come answers: a byte that chooses the status, one that
        /// chooses how much comes before the connection breaks, header lines and an empty line.
        FuzzTarget("relayed-body") { bytes in
            var rest = bytes[...]
            let range = String(decoding: rest.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self)
            rest = rest.drop { $0 != UInt8(ascii: "\n") }.dropFirst()
            let request = LoopbackRequest(path: "1.ts", headers: [HTTPHeader(name: "Range", value: range)])
            var relayed: ResumableBody?
            while let choice = rest.popFirst(), let size = rest.popFirst() {
                let head = HTTPResponse(
                    status: [200, 206, 416, 204][Int(choice & 3)], headers: fields(&rest), url: "https://a.example/1.ts"
                )
                guard var body = relayed ?? RelayedPart(of: head, for: request).map({ ResumableBody(head, $0) }) else {
                    return
                }
                if relayed != nil {
                    let own = body.resume(nil)
                    promise(own.map { LoopbackRange($0) != nil } ?? true, "a relay asks for what there is")
                }
                let before = body.count
                let piece = [UInt8](repeating: choice, count: Int(size) << (choice >> 5))
                guard let left = body.take(piece, of: head) else { return }
                promise(left.count <= piece.count && body.count == before + left.count, "nothing comes from nowhere")
                if body.isAtEnd || body.isWhole(at: head) { return }
                relayed = body
            }
        },
        FuzzTarget("resumed-body") { bytes in
            guard bytes.count >= 4 else { return }
            let origin = BreakingOrigin(options: bytes[0], size: Int(bytes[1]) * 8 + 1)
            let range = bytes[0] & 1 == 0 ? nil : "bytes=\(bytes[2])-" + (bytes[3] == 0 ? "" : "\(Int(bytes[3]) * 16)")
            origin.relay(range, answers: bytes[4...])
        },
    ]

    /// Header lines up to an empty one, which stays.
    static func fields(_ rest: inout ArraySlice<UInt8>) -> [HTTPHeader] {
        var headers: [HTTPHeader] = []
        while let end = rest.firstIndex(of: UInt8(ascii: "\n")), end > rest.startIndex, headers.count < 16 {
            let line = String(decoding: rest[..<end], as: UTF8.self)
            rest = rest[(end + 1)...]
            guard let colon = line.firstIndex(of: ":") else { continue }
            let value = line[line.index(after: colon)...].drop { $0 == " " }
            headers.append(HTTPHeader(name: String(line[..<colon]), value: String(value)))
        }
        return headers
    }
}

/// An origin that tells the truth, whose connections break, and whose resource may be replaced by a larger one.
private struct BreakingOrigin {
    let options: UInt8
    let size: Int

    private func has(_ bit: UInt8) -> Bool { options & bit != 0 }

    private func resource(_ version: Int) -> [UInt8] {
        (0..<size + version).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ version &* 64) }
    }

    private func answer(_ range: String?, _ version: Int, knowsRanges: Bool) -> HTTPResponse {
        var body = resource(version)[...]
        var headers: [HTTPHeader] = []
        if has(2) { headers.append(HTTPHeader(name: "ETag", value: has(4) ? "W/\"1\"" : "\"\(version)\"")) }
        if has(8) { headers.append(HTTPHeader(name: "Last-Modified", value: "\(version)")) }
        var status = 200
        if knowsRanges, let wanted = range.flatMap({ LoopbackRange($0) }) {
            let bounds = wanted.bounds(in: body.count)
            status = bounds == nil ? 416 : 206
            let text = bounds.map { "\($0.lowerBound)-\($0.upperBound - 1)" } ?? "*"
            let total = status == 416 || has(16) ? "\(body.count)" : "*"
            headers.append(HTTPHeader(name: "Content-Range", value: "bytes \(text)/\(total)"))
            body = body[bounds ?? 0..<0]
        }
        if has(32) { headers.append(HTTPHeader(name: "Content-Length", value: "\(body.count)")) }
        return HTTPResponse(status: status, headers: headers, body: Array(body), url: "https://a.example/1.ts")
    }

    /// Each answer has two bytes: where its connection breaks, and whether the resource is another one and ranges are known.
    func relay(_ range: String?, answers: ArraySlice<UInt8>) {
        let fields = range.map { [HTTPHeader(name: "Range", value: $0)] } ?? []
        let request = LoopbackRequest(path: "1.ts", headers: fields)
        var rest = answers
        var next = range
        var version = 0
        var relayed: ResumableBody?
        var all: [UInt8] = []
        while let place = rest.popFirst(), let choice = rest.popFirst() {
            if choice & 7 == 7 { version = min(version + 1, 3) }
            let whole = answer(next, version, knowsRanges: choice & 8 == 0)
            var head = whole
            head.body = []
            guard var body = relayed ?? RelayedPart(of: head, for: request).map({ ResumableBody(head, $0) }) else {
                return
            }
            var left = whole.status == 416 ? [] : whole.body[...]
            let isBroken = place < 255
            if isBroken { left = left.prefix(Int(place) * 8) }
            while !left.isEmpty, !body.isAtEnd {
                let piece = left.prefix(1 + Int(choice >> 4) * 32)
                left = left.dropFirst(piece.count)
                guard let taken = body.take(Array(piece), of: head) else { return }
                all += taken
            }
            promise(all.count <= body.part.length ?? .max, "nothing comes from behind the part")
            let isWhole = body.isAtEnd || (!isBroken && body.isWhole(at: head))
            let versions = (0...version).map { resource($0).dropFirst(body.part.first) }
            if isWhole {
                promise(
                    versions.contains { Array($0.prefix(body.part.length ?? .max)) == all }, "a whole body is whole")
                return
            }
            promise(versions.contains { $0.starts(with: all) }, "two resources are never mixed")
            next = body.resume(range)
            relayed = body
        }
    }
}
