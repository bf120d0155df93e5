// SPDX-License-Identifier: MPL-2.0

public import LatchkeyHTTP
import LatchkeyProtection

/// Answers requests for parts of a cached item as the origin would, from the cache; others go on. Manifests name the cached
/// tracks alone. Thread-safe.
public struct CachedTransport: HTTPTransport {
    private let reader: CacheReader
    private let origin: any HTTPTransport

    /// `origin` sends what is no part of `item`. `onWarning` is called once for each thing that is wrong with the item.
    public init(
        _ item: CachedItem, otherwise origin: any HTTPTransport,
        onWarning: @escaping @Sendable (CacheError) -> Void = { _ in }
    ) {
        reader = CacheReader(item, onWarning: onWarning)
        self.origin = origin
    }

    /// As the origin would answer. Ends with `HTTPError.cancelled` only where the origin is asked.
    public func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        guard request.method == "GET", request.body.isEmpty else { return try await origin.send(request) }
        do throws(CacheError) {
            if let response = try await response(to: request) { return response }
        } catch let cause {
            // The origin says what is wrong in its own words, and nothing of what is on this disk.
            do throws(HTTPError) {
                return try await origin.send(request)
            } catch {
                let saysMore = cause.isTemporary && cause.reason != error.description
                throw error.isConnectionFailure && saysMore ? .refused(request.url, cause.reason) : error
            }
        }
        return try await origin.send(request)
    }

    private func response(to request: HTTPRequest) async throws(CacheError) -> HTTPResponse? {
        switch try await reader.answer(request.url, route: { $0 }) {
        case nil: return nil
        case .document(let document):
            return HTTPResponse(
                status: 200, headers: [HTTPHeader(name: "Content-Type", value: document.contentType)],
                body: document.bytes, url: request.url)
        case .key(let key):
            return HTTPResponse(
                status: 200, headers: [HTTPHeader(name: "Content-Type", value: CacheReader.typeOfKeys)],
                body: key.withBytes { Array($0) }, url: request.url)
        case .resource(let url, let size, let type):
            let range = request.headers.first { $0.name.lowercased() == "range" }
                .flatMap { LoopbackRange($0.value) }
            guard let bounds = (range ?? .from(0)).bounds(in: Int(clamping: size)),
                bounds.count <= request.maximumResponseSize
            else { return nil }
            var body: [UInt8] = []
            while body.count < bounds.count {
                let bytes = try await reader.bytes(of: url, at: UInt64(bounds.lowerBound + body.count))
                guard !bytes.isEmpty else { break }
                body += bytes.prefix(bounds.count - body.count)
            }
            var headers = [HTTPHeader(name: "Content-Type", value: type)]
            if range != nil {
                let text = "bytes \(bounds.lowerBound)-\(bounds.upperBound - 1)/\(size)"
                headers.append(HTTPHeader(name: "Content-Range", value: text))
            }
            return HTTPResponse(status: range == nil ? 200 : 206, headers: headers, body: body, url: url)
        }
    }
}
