// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import FoundationEssentials
    import Latchkey

    /// Which content a command is about.
    struct ContentPlace: ParsableArguments {
        @Option(
            help: ArgumentHelp(
                "What it is: \(ContentType.allCases.map(\.rawValue).joined(separator: ", ")). "
                    + "Left out: the end of the URL tells.", valueName: "type"))
        var type: String?

        @Argument(help: ArgumentHelp("A file, or an http, https or file URL.", valueName: "url"))
        var url: String

        func validate() throws {
            if let type, ContentType(rawValue: type) == nil {
                throw ValidationError(
                    "--type \(type): \(ContentType.allCases.map(\.rawValue).joined(separator: ", ")) are known")
            }
            guard type != nil || ContentType(url: url) != nil else {
                throw ValidationError("the end of \(url) does not tell what it is; give --type")
            }
        }

        /// Of a path, the URL.
        var absoluteURL: String {
            url.contains("://") ? url : URL(fileURLWithPath: url).standardizedFileURL.absoluteString
        }

        var contentType: ContentType { type.flatMap { ContentType(rawValue: $0) } ?? ContentType(url: url) ?? .mp4 }

        func agent(_ configuration: Agent.Configuration = Agent.Configuration()) -> Agent {
            Agent(contentURL: absoluteURL, type: contentType, configuration: configuration)
        }
    }
#endif
