// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import Synchronization

/// A web of a few resources, with byte ranges. What it does not have is 404; `silent` ones do not answer.
final class StubTransport: HTTPTransport {
    private let resources: [String: [UInt8]]
    private let silent: Set<String>
    private let headers: [HTTPHeader]
    private let seen = Mutex<[String]>([])

    init(_ resources: [String: [UInt8]], silent: Set<String> = [], headers: [HTTPHeader] = []) {
        self.resources = resources
        self.silent = silent
        self.headers = headers
    }

    var requests: [String] { seen.withLock { $0 } }

    func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        seen.withLock { $0.append(request.url) }
        if silent.contains(request.url) { throw .timedOut(request.url) }
        guard let bytes = resources[request.url] else {
            return HTTPResponse(status: 404, headers: headers, url: request.url)
        }
        guard let range = request.headers.first(where: { $0.name == "Range" })?.value else {
            guard bytes.count <= request.maximumResponseSize else { throw .tooLarge(request.url) }
            return HTTPResponse(status: 200, headers: headers, body: bytes, url: request.url)
        }
        let numbers = range.dropFirst("bytes=".count).split(separator: "-").compactMap { Int($0) }
        guard numbers.count == 2, numbers[0] < bytes.count else { return HTTPResponse(status: 416, url: request.url) }
        let part = bytes[numbers[0]..<min(numbers[1] + 1, bytes.count)]
        return HTTPResponse(status: 206, body: Array(part), url: request.url)
    }
}
