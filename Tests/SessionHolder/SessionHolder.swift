// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyViewingSession

/// Holds a viewing session until it is killed, for tests of what is left then. `latchkey-session-holder URL FOLDER`: says
/// `established`, and begins to end the session when its standard input ends.
@main
enum SessionHolder {
    static func main() async throws {
        var service = SessionService(url: CommandLine.arguments[1], credential: "c")
        service.parameters = ["account": "anna"]
        var configuration = ViewingSession.Configuration(service)
        configuration.records = try SessionRecords(folder: CommandLine.arguments[2])
        // Long enough to be killed in the middle.
        configuration.policy.requestTimeout = 120_000
        configuration.policy.setupWindow = 120_000
        configuration.policy.teardownWindow = 120_000
        let session = ViewingSession(configuration)
        session.start()
        try await session.established()
        // Past stdio's buffer, so that the parent sees it at once.
        try FileHandle.standardOutput.write(contentsOf: Data("established\n".utf8))
        await withCheckedContinuation { continuation in
            Thread.detachNewThread {
                while !FileHandle.standardInput.availableData.isEmpty {}
                continuation.resume()
            }
        }
        session.stop()
        await session.closed()
    }
}
