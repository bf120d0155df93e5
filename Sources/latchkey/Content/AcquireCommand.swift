// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import ArgumentParser
    import Latchkey
    import LatchkeyProtection

    struct AcquireCommand: AsyncParsableCommand {
        static let configuration = CommandConfiguration(
            commandName: "acquire",
            abstract: "Acquire the licenses for some content and keep them on this device.",
            discussion: """
                Asks the license service that is configured, or that the content names, as playback would. Licenses that \
                may be kept are in the license store then: see latchkey licenses. Others are good for one playback, and \
                are given up at the end of this command, which says so. JSON has rights, as latchkey inspect has them, and \
                isStored.

                EXIT STATUS
                  0   acquired; the rights may begin later
                  1   no license was acquired; standard error says why
                """)

        @OptionGroup var place: ContentPlace

        @Option(
            help: ArgumentHelp(
                "Goes into the signed part of the challenge, for the service to read.", valueName: "text"))
        var customData: String?

        @Flag(help: "Write JSON, for programs.")
        var json = false

        func run() async throws {
            let rights: RightsStatus
            let kept: RightsStatus
            do throws(AgentError) {
                let agent = place.agent()
                agent.customLicenseChallengeData = customData
                rights = try await agent.acquireLicense()
                // What another agent has is what is stored.
                kept = try await place.agent().contentInfo().rights
            } catch {
                throw ToolError(error.description)
            }
            // Content whose keys are named only in playback, or a license without the right to play.
            guard rights.kind != .none else {
                throw ToolError(
                    "no license for playback was acquired: \(rights.reason); latchkey play acquires those for keys that are "
                        + "named only in playback")
            }
            let isStored = kept.kind == rights.kind
            guard !json else {
                return print(try JSONText.of(Answer(rights: ContentDocument.Rights(rights), isStored: isStored)))
            }
            print("acquired: \(rights)".inOneLine)
            if !isStored { print("The license is good for one playback; nothing was stored.") }
        }

        private struct Answer: Encodable {
            let rights: ContentDocument.Rights
            let isStored: Bool
        }
    }
#endif
