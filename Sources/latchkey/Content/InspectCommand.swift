// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import Latchkey

    struct InspectCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "inspect",
            abstract: "Show the tracks and keys of some content, the rights on this device, and what playing would do.",
            discussion: """
                Reads playlists, manifests and the heads of files, as players do. No key is asked for, no session is \
                begun, and no right begins to run. What keys are configured comes from latchkey.conf and the environment.

                Tracks are in the order of the content; below each are the times of its keys. JSON has type, url, \
                isProtected, keySystems, keyIds, licenseUrls, rights (status, reason, expiresAfterFirstUse, begins, ends), \
                tracks (kind, name, language, codecs, bitRate, width, height, keyPeriods) and keyNeeds (keySystem, keyIds, \
                keyUri, source); what is not known is left out. Times of key periods are seconds.

                EXAMPLE
                  latchkey inspect https://media.example/movie/master.m3u8
                  latchkey inspect --json movie.mp4

                EXIT STATUS
                  0   it was looked at, whatever the rights
                  1   it cannot be read, or is not what its type says
                """)

        @OptionGroup var place: ContentPlace

        @Flag(help: "Write JSON, for programs.")
        var json = false

        func run() async throws {
            let agent = place.agent()
            let report: ContentReport
            do throws(AgentError) {
                report = ContentReport(try await agent.contentInfo(), type: place.contentType, url: place.url)
            } catch {
                throw ToolError(error.description)
            }
            print(json ? try JSONText.of(report.document) : report.text(Terminal()))
        }
    }
#endif
