// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import Diagnosis
    import Foundation
    import HTTP
    import MediaFormats

    /// The clip that `latchkey doctor` looks at: a file or a URL.
    struct DoctorClip {
        /// How much of a URL is fetched at most, in bytes.
        static let fetchedSize = 4 << 20

        private let name: String
        private var isRemote: Bool { name.hasPrefix("http://") || name.hasPrefix("https://") }
        private var path: String { name.hasPrefix("file://") ? URL(string: name)?.path ?? name : name }

        init(_ name: String) { self.name = name }

        /// ISO media and manifests are read here, the rest by GStreamer.
        func streams() async throws -> [ClipStream] {
            let head = isRemote ? try await fetch() : try readHead()
            if let manifest = ClipStream.streams(ofManifest: String(decoding: head, as: UTF8.self)) { return manifest }
            if let movie = isRemote ? Self.movie(in: head) : try movieOfFile() {
                do throws(FormatError) {
                    return try ClipStream.streams(ofMovie: movie)
                } catch {
                    throw ToolError("\(printable): \(error)")
                }
            }
            do throws(DiagnosisError) {
                return try StreamDiscovery.streams(of: isRemote ? name : URL(fileURLWithPath: path).absoluteString)
            } catch {
                throw ToolError("\(printable): \(error)")
            }
        }

        private var printable: String { isRemote ? HTTPRequest(url: name).printableURL : path }

        // MARK: Bytes

        private func readHead() throws -> [UInt8] {
            guard let file = FileHandle(forReadingAtPath: path) else { throw ToolError("\(path): cannot be opened") }
            defer { try? file.close() }
            return Array(try file.read(upToCount: Self.fetchedSize) ?? Data())
        }

        /// The `moov` box, wherever in the file it stands. Nil for what is no ISO media.
        private func movieOfFile() throws -> [UInt8]? {
            guard let file = FileHandle(forReadingAtPath: path) else { return nil }
            defer { try? file.close() }
            let end = try file.seekToEnd()
            var place: UInt64 = 0
            for _ in 0..<ISOBox.maximumCount {
                try file.seek(toOffset: place)
                guard let header = try file.read(upToCount: 16), let (type, size) = Self.header(Array(header)) else {
                    return nil
                }
                let whole = size == 0 ? end - place : size
                guard whole >= 8, whole <= end - place else { return nil }
                if type == "moov" {
                    guard whole <= UInt64(ClipStream.maximumMovieSize) else { return nil }
                    try file.seek(toOffset: place)
                    return Array(try file.read(upToCount: Int(whole)) ?? Data())
                }
                place += whole
                if place >= end { return nil }
            }
            return nil
        }

        /// The same within the first bytes.
        static func movie(in head: [UInt8]) -> [UInt8]? {
            var place = 0
            while let (type, size) = header(Array(head[place...].prefix(16))), size >= 8,
                let whole = Int(exactly: size), whole <= head.count - place
            {
                if type == "moov" { return Array(head[place..<place + whole]) }
                place += whole
            }
            return nil
        }

        /// Type and size of a box; nil where there is none.
        private static func header(_ bytes: [UInt8]) -> (type: String, size: UInt64)? {
            guard bytes.count >= 8 else { return nil }
            let size = bytes[..<4].reduce(UInt64(0)) { $0 << 8 | UInt64($1) }
            let type = bytes[4..<8]
            guard type.allSatisfy({ (0x20...0x7e).contains($0) }) else { return nil }
            let name = String(decoding: type, as: UTF8.self)
            guard size == 1 else { return (name, size) }
            guard bytes.count >= 16 else { return nil }
            return (name, bytes[8..<16].reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
        }

        private func fetch() async throws -> [UInt8] {
            var request = HTTPRequest(
                url: name, headers: [HTTPHeader(name: "Range", value: "bytes=0-\(Self.fetchedSize - 1)")])
            request.maximumResponseSize = ClipStream.maximumMovieSize
            let response: HTTPResponse
            do throws(HTTPError) {
                response = try await CurlTransport().send(request)
            } catch {
                throw ToolError("\(printable): \(error)")
            }
            guard (200..<300).contains(response.status) else {
                throw ToolError("\(printable): the server answers \(response.status)")
            }
            return response.body
        }
    }
#endif
