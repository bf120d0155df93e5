// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import FoundationEssentials
    import Glibc
    import LatchkeyContainers
    import LatchkeyDiagnosis
    import LatchkeyHTTP
    import LatchkeyOutputs
    import LatchkeyProtection

    struct DoctorCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "doctor",
            abstract: "Say which decoder a clip would get here, why, and what is missing.",
            discussion: """
                Reads what the clip says of its streams: no key is needed and none is asked for. Then it looks at \
                GStreamer's decoders in the order in which players try them, at the devices of hardware decoders, and at \
                what Latchkey needs. Without a clip it looks at every codec, or at those of --codec.

                EXAMPLE
                  latchkey doctor movie.mp4
                  latchkey doctor https://media.example/movie/stream.mpd
                  latchkey doctor --codec h265 --json

                EXIT STATUS
                  0   nothing is missing
                  1   something is missing, or the clip cannot be read
                """)

        @Option(
            help: ArgumentHelp(
                "Look at this codec: \(ClipCodec.all.map(\.name).joined(separator: ", ")). May be given again.",
                valueName: "name"))
        var codec: [String] = []

        @Option(help: ArgumentHelp("Look at media of these caps. May be given again.", valueName: "caps"))
        var caps: [String] = []

        @Flag(help: "Print JSON.")
        var json = false

        @Argument(help: ArgumentHelp("The clip: a file, or an http or https URL.", valueName: "clip"))
        var clip: String?

        func validate() throws {
            for name in codec where ClipCodec.of(name) == nil {
                throw ValidationError("--codec \(name): \(ClipCodec.all.map(\.name).joined(separator: ", ")) are known")
            }
        }

        func run() async throws {
            let report = try await report()
            print(json ? try JSONText.of(report) : report.text)
            if report.hasProblem { throw ExitCode.failure }
        }

        /// What is printed.
        func report() async throws -> DiagnosisReport {
            do throws(DiagnosisError) {
                try GStreamerInstallation.start()
            } catch {
                throw ToolError("GStreamer: \(error)")
            }
            var sections = [
                GStreamerInstallation.section(latchkey: LatchkeyCommand.configuration.version),
                Self.libraries(http: HTTPSupport.failure), DeviceNodes().section,
                Self.outputs(KMSOutputs().read()),
            ]
            let streams = try await streams()
            let unknown = streams.filter { $0.caps == nil }.map {
                Finding(
                    .problem, "“\($0.name)” is no codec that is known here",
                    advice: "Name its caps: latchkey doctor --caps 'video/x-…'")
            }
            if clip != nil, streams.isEmpty {
                sections.append(
                    DiagnosisSection(
                        "Clip",
                        [
                            Finding(
                                .hint, "the clip does not say which codecs are in it",
                                advice: "Name them with --codec.")
                        ]))
            } else if !unknown.isEmpty {
                sections.append(DiagnosisSection("Clip", unknown))
            }
            let version = GStreamerInstallation.version
            return DiagnosisReport(
                sections: sections,
                streams: streams.compactMap { stream in
                    stream.caps.map {
                        StreamDiagnosis(
                            name: stream.name, caps: $0, isProtected: stream.isProtected,
                            factories: DecoderFactory.all(for: $0), gstreamer: (version.major, version.minor))
                    }
                })
        }

        /// What is loaded with its first use.
        static func libraries(http: HTTPError?) -> DiagnosisSection {
            let finding =
                http.map { Finding(.problem, "no request can be sent: \($0)") }
                ?? Finding(.fact, "libcurl is there, for requests")
            return DiagnosisSection("Libraries", [finding])
        }

        /// What the kernel tells of the outputs, for keys with rules about them.
        static func outputs(_ facts: OutputFacts) -> DiagnosisSection {
            var findings: [Finding]
            let owner = DisplayOwner(environment: ProcessInfo.processInfo.environment)
            switch facts {
            case .unreadable(let reason):
                findings = [
                    Finding(
                        .hint, "the outputs cannot be read: \(reason)",
                        advice:
                            "Keys with rules for outputs show black then. Let the user open /dev/dri/card*, or have the "
                            + "application tell the outputs to latchkeyguard.")
                ]
            case .outputs(let outputs) where outputs.isEmpty:
                findings = [
                    Finding(
                        .hint, "no output shows anything, so keys with rules for outputs show black",
                        advice: "Where the screen is not the kernel's, have the application tell the outputs to "
                            + "latchkeyguard.")
                ]
            case .outputs(let outputs):
                findings = outputs.map { output in
                    let isOpen = output.kind == .digital && output.level == .unprotected
                    return Finding(
                        .fact, "\(output.name): \(output.kind.rawValue), \(output.protection.rawValue)",
                        advice: isOpen ? owner.advice : nil)
                }
            }
            if owner == .waylandCompositor { findings.append(compositor()) }
            return DiagnosisSection("Outputs", findings)
        }

        /// Whether the Wayland compositor can be asked for HDCP.
        private static func compositor() -> Finding {
            do throws(OutputError) {
                guard try WaylandCompositor.offersContentProtection() else {
                    return Finding(
                        .hint, "the Wayland compositor does not offer weston_content_protection",
                        advice: "Only the compositor can ask for HDCP: use one that offers it, such as Weston.")
                }
                return Finding(.fact, "the Wayland compositor offers weston_content_protection")
            } catch {
                return Finding(.hint, "nothing is known of the Wayland compositor: \(error)")
            }
        }

        private func streams() async throws -> [ClipStream] {
            var streams = codec.compactMap(ClipCodec.of).map {
                ClipStream(name: $0.name, isProtected: false, caps: $0.caps)
            }
            streams += caps.map { ClipStream(name: "caps", isProtected: false, caps: $0) }
            if let clip {
                streams += try await DoctorClip(clip).streams()
            } else if streams.isEmpty {
                streams = ClipCodec.all.map { ClipStream(name: $0.name, isProtected: false, caps: $0.caps) }
            }
            return streams
        }
    }

    /// The clip that `latchkey doctor` looks at: a file or a URL.
    struct DoctorClip {
        /// How much of a URL is fetched at most, in bytes.
        private static let fetchedSize = 4 << 20

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
            guard descriptor >= 0 else {
                throw ToolError("\(path): cannot be opened: \(String(cString: strerror(errno)))")
            }
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
