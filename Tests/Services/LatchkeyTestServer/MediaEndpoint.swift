// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Glibc
import HTTPTypes
import Hummingbird
import LatchkeyContainers
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

/// A folder whose files may be read, and nothing outside of it.
struct MediaFolder: Sendable {
    /// A regular file within the folder.
    struct File: Equatable {
        /// Absolute, without symbolic links.
        var path: String
        /// In bytes.
        var size: Int
    }

    /// Absolute, without symbolic links.
    let path: String

    /// Nil where `path` is no folder.
    init?(path: String) {
        guard let real = Self.realPath(path), Self.status(real)?.isFolder == true else { return nil }
        self.path = real
    }

    /// The file that a path of a URL names, with its escapes; nil where there is none, or where it lies outside.
    ///
    /// Blocks while the file system answers.
    func file(atEscapedPath escaped: some StringProtocol) -> File? {
        guard let relative = PercentEncoding.decodeText(escaped), !relative.utf8.contains(0) else { return nil }
        let names = relative.split(separator: "/", omittingEmptySubsequences: false)
        guard names.allSatisfy({ !$0.isEmpty && $0 != "." && $0 != ".." }) else { return nil }
        // A link may point anywhere, so what counts is where the path leads in the end.
        guard let real = Self.realPath("\(path)/\(relative)"), real.hasPrefix(path == "/" ? "/" : "\(path)/"),
            let status = Self.status(real), status.isFile
        else { return nil }
        return File(path: real, size: status.size)
    }

    private static func realPath(_ path: String) -> String? {
        // SAFETY: realpath allocates the result, which is copied and freed here.
        guard let real = realpath(path, nil) else { return nil }
        defer { free(real) }
        return String(cString: real)
    }

    private static func status(_ path: String) -> (isFile: Bool, isFolder: Bool, size: Int)? {
        var status = stat()
        guard stat(path, &status) == 0 else { return nil }
        let type = status.st_mode & S_IFMT
        return (type == S_IFREG, type == S_IFDIR, Int(status.st_size))
    }
}

/// The `Content-Type` of media files, by the ending of the name.
enum MediaTypes {
    /// `path` may have folders in front.
    static func contentType(ofFile path: String) -> String {
        let name = path[(path.lastIndex(of: "/").map { path.index(after: $0) } ?? path.startIndex)...]
        guard let dot = name.lastIndex(of: ".") else {
            // A Smooth Streaming manifest has no ending.
            return name.lowercased() == "manifest" ? "application/vnd.ms-sstr+xml" : fallback
        }
        return types[name[name.index(after: dot)...].lowercased()] ?? fallback
    }

    private static let fallback = "application/octet-stream"

    private static let types = [
        "aac": "audio/aac", "ac3": "audio/ac3", "ac4": "audio/ac4", "adts": "audio/aac", "cmfa": "audio/mp4",
        "cmft": "application/mp4", "cmfv": "video/mp4", "ec3": "audio/eac3", "eac3": "audio/eac3",
        "flac": "audio/flac", "htm": "text/html", "html": "text/html", "isma": "audio/mp4",
        "ismc": "application/vnd.ms-sstr+xml", "ismv": "video/mp4", "jpeg": "image/jpeg", "jpg": "image/jpeg",
        "json": "application/json", "m2ts": "video/mp2t", "m3u": "application/vnd.apple.mpegurl",
        "m3u8": "application/vnd.apple.mpegurl", "m4a": "audio/mp4", "m4f": "video/iso.segment",
        "m4s": "video/iso.segment", "m4v": "video/mp4", "mka": "audio/x-matroska", "mkv": "video/x-matroska",
        "mov": "video/quicktime", "mp3": "audio/mpeg", "mp4": "video/mp4", "mp4a": "audio/mp4",
        "mpd": "application/dash+xml", "ogg": "audio/ogg", "opus": "audio/ogg", "png": "image/png",
        "srt": "application/x-subrip", "ts": "video/mp2t", "ttml": "application/ttml+xml",
        "txt": "text/plain; charset=utf-8", "vtt": "text/vtt", "wav": "audio/wav", "webm": "video/webm",
        "xml": "application/xml",
    ]
}

/// What a `Range` header asks of a representation (RFC 9110, 14.1.2 and 14.2).
enum ByteRange: Equatable, Sendable {
    /// No range, several, or one that cannot be read: the header is ignored.
    case whole
    /// First and last byte.
    case part(ClosedRange<Int>)
    /// Answered with 416.
    case unsatisfiable

    /// `size` is the length of the representation in bytes.
    init(header: String?, size: Int) {
        self = .whole
        guard let header, header.lowercased().hasPrefix("bytes=") else { return }
        let ends = header.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Self.number(ends[0]), let last = Self.number(ends[1]) else { return }
        switch (first, last) {
        case (nil, nil):
            return
        case (nil, let count?):
            self = count > 0 && size > 0 ? .part(max(0, size - count)...size - 1) : .unsatisfiable
        case (let first?, let last):
            if let last, last < first { return }
            self = first < size ? .part(first...min(last ?? size - 1, size - 1)) : .unsatisfiable
        }
    }

    /// Nil inside for no digits, nil for no number. What does not fit counts as the largest number.
    private static func number(_ text: Substring) -> Int?? {
        let isSpace = { (character: Character) in character == " " || character == "\t" }
        var digits = text.drop(while: isSpace)
        while let last = digits.last, isSpace(last) { digits.removeLast() }
        guard digits.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) else { return .none }
        return .some(digits.isEmpty ? nil : Int(digits) ?? Int.max)
    }
}
