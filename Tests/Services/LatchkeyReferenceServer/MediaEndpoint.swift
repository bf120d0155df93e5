// SPDX-License-Identifier: MPL-2.0

import HTTPTypes
import Hummingbird
import NIOPosix

/// `GET` and `HEAD /media/…`: the files of a folder, whole or one range of bytes, read in pieces.
struct MediaEndpoint: Sendable {
    let folder: MediaFolder?
    private let files = FileIO()

    init(folder: MediaFolder?) { self.folder = folder }

    @Sendable func respond(to request: Request, context: ServerContext) async throws -> Response {
        let path = String(request.uri.path.dropFirst(ServerEndpoint.media.rawValue.count))
        let folder = folder
        let found = try await NIOThreadPool.singleton.runIfActive { folder?.file(atEscapedPath: path) }
        guard let file = found else { return .error(.notFound, "no such media file") }

        var headers: HTTPFields = [
            .acceptRanges: "bytes", .contentType: MediaTypes.contentType(ofFile: file.path),
            .contentLength: String(file.size),
        ]
        guard request.method == .get else { return Response(status: .ok, headers: headers) }
        // There is no validator to compare If-Range with, so it never holds and the whole file is sent.
        let header = request.headers[.ifRange] == nil ? request.headers[.range] : nil
        switch ByteRange(header: header, size: file.size) {
        case .whole:
            let body = try await files.loadFile(path: file.path, context: context)
            return Response(status: .ok, headers: headers, body: body)
        case .part(let range):
            headers[.contentLength] = String(range.count)
            headers[.contentRange] = "bytes \(range.lowerBound)-\(range.upperBound)/\(file.size)"
            let body = try await files.loadFile(path: file.path, range: range, context: context)
            return Response(status: .partialContent, headers: headers, body: body)
        case .unsatisfiable:
            return .error(
                .rangeNotSatisfiable, "the file has \(file.size) bytes",
                headers: [.acceptRanges: "bytes", .contentRange: "bytes */\(file.size)"])
        }
    }
}
