// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import LatchkeyDiagnosis
    import FoundationEssentials
    import LatchkeyHTTP
    import LatchkeyContainers
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
                        advice: "Nobody but the compositor can ask for HDCP: use one that offers it, such as Weston.")
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
#endif
