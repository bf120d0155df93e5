// SPDX-License-Identifier: MPL-2.0

import ArgumentParser
import CLatchkeyVersion
import Dispatch
import Glibc
import LatchkeyProtection

/// What the main function of the executable (gst-plugin/command.c) calls. It ends the process. No header declares it.
/// `CommandLine` is empty if a preloaded library has moved the environment before the Swift runtime was loaded.
@c(latchkey_command_main)
public func runCommand(_ count: CInt, _ words: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) {
    let arguments = (1..<max(1, Int(count))).compactMap { words[$0].map { String(cString: $0) } }
    // Until a pipeline is made, whose elements tell it to GStreamer's log.
    FileWarnings.setHandler { warn($0) }
    Task {
        await LatchkeyCommand.main(arguments)
        exit(0)
    }
    dispatchMain()
}

struct LatchkeyCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey",
        abstract: "Protected media from the shell.",
        discussion: """
            EXIT STATUS
              0   done
              1   it failed; standard error says why, with the file
              64  the command line is not understood

            Some commands have more; their help says so.

            FILES
              ~/.config/latchkey/latchkey.conf
                  keys, key servers, license services and the session server;
                  LATCHKEY_CONFIG in the environment names another file
            """,
        version: "\(LATCHKEY_VERSION_MAJOR).\(LATCHKEY_VERSION_MINOR).\(LATCHKEY_VERSION_MICRO)",
        subcommands: subcommands)

    private static var subcommands: [any ParsableCommand.Type] {
        #if LATCHKEY_GSTREAMER
            [
                InspectCommand.self, PlayCommand.self, AcquireCommand.self, CacheCommand.self,
                LicensesCommand.self, SessionCommand.self,
                OutputsCommand.self, DoctorCommand.self, ProvisionCommand.self, PackageCommand.self,
            ]
        #else
            [LicensesCommand.self, OutputsCommand.self, ProvisionCommand.self, PackageCommand.self]
        #endif
    }
}
