// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import LatchkeyDiagnosis
    import FoundationEssentials
    import Glibc
    import LatchkeyHTTP
    import LatchkeyContainers

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
            try ClipFile(path).read(Self.fetchedSize)
        }

        /// The `moov` box, wherever in the file it stands. Nil for what is no ISO media.
        private func movieOfFile() throws -> [UInt8]? {
            let file = try ClipFile(path)
            let end = try file.size()
            var place: UInt64 = 0
            for _ in 0..<ISOBox.maximumCount {
                try file.seek(to: place)
                guard let (type, size) = Self.header(try file.read(16)) else { return nil }
                let whole = size == 0 ? end - place : size
                guard whole >= 8, whole <= end - place else { return nil }
                if type == "moov" {
                    guard whole <= UInt64(ClipStream.maximumMovieSize) else { return nil }
                    try file.seek(to: place)
                    return try file.read(Int(whole))
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

    /// A file that is read piece by piece.
    private struct ClipFile: ~Copyable {
        private let path: String
        private let descriptor: Int32

        init(_ path: String) throws(ToolError) {
            self.path = path
            descriptor = open(path, O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else { throw ToolError("\(path): cannot be opened") }
        }

        deinit { close(descriptor) }

        /// In bytes.
        func size() throws(ToolError) -> UInt64 {
            guard let size = UInt64(exactly: lseek(descriptor, 0, SEEK_END)) else { throw unreadable }
            return size
        }

        func seek(to place: UInt64) throws(ToolError) {
            guard let place = off_t(exactly: place), lseek(descriptor, place, SEEK_SET) == place
            else { throw unreadable }
        }

        /// Fewer bytes at the end of the file.
        func read(_ count: Int) throws(ToolError) -> [UInt8] {
            var bytes = [UInt8](repeating: 0, count: count)
            var length = 0
            while length < count {
                // SAFETY: reads at most as many bytes as are left in the array.
                let read = bytes[length...].withUnsafeMutableBytes {
                    Glibc.read(descriptor, $0.baseAddress, $0.count)
                }
                if read == 0 { break }
                guard read > 0 || errno == EINTR else { throw unreadable }
                length += max(read, 0)
            }
            return Array(bytes[..<length])
        }

        private var unreadable: ToolError { ToolError("\(path): cannot be read") }
    }
#endif
