// SPDX-License-Identifier: MPL-2.0

import Foundation
import Synchronization

/// A running program. Ends with the last reference at the latest.
final class Program: Sendable {
    /// What came out of one pipe.
    private final class Text: Sendable {
        private let data = Mutex(Data())
        var string: String { data.withLock { String(decoding: $0, as: UTF8.self) } }
        func append(_ more: Data) { data.withLock { $0.append(more) } }
    }

    private let process = Process()
    private let input = Pipe()
    private let outputText = Text()
    private let errorText = Text()
    private let outputChanges: AsyncStream<Void>
    private let exits: AsyncStream<Int32>

    /// A product of this build: the test program and the others lie in one folder.
    static func product(_ name: String) -> URL {
        URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath().deletingLastPathComponent()
            .appendingPathComponent(name)
    }

    init(_ arguments: [String], of executable: URL = Program.product("latchkey-server")) throws {
        process.executableURL = executable
        process.arguments = arguments
        process.standardInput = input
        let (output, errors) = (Pipe(), Pipe())
        process.standardOutput = output
        process.standardError = errors
        let (changes, changed) = AsyncStream<Void>.makeStream()
        let (exits, exited) = AsyncStream<Int32>.makeStream()
        (outputChanges, self.exits) = (changes, exits)
        // Exits count once both pipes have been read to their ends.
        let open = DispatchGroup()
        for (pipe, text) in [(output, outputText), (errors, errorText)] {
            open.enter()
            let handle = pipe.fileHandleForReading
            Thread.detachNewThread {
                while true {
                    let data = handle.availableData
                    if data.isEmpty { break }
                    text.append(data)
                    changed.yield()
                }
                open.leave()
            }
        }
        process.terminationHandler = { process in
            open.notify(queue: .global()) {
                changed.finish()
                exited.yield(process.terminationStatus)
                exited.finish()
            }
        }
        try process.run()
    }

    deinit { if process.isRunning { process.terminate() } }

    var output: String { outputText.string }
    var errors: String { errorText.string }

    /// The first line of standard output; nil where the program ends without one.
    func firstLine() async -> String? {
        for await _ in outputChanges where output.contains("\n") { break }
        return output.contains("\n") ? output.split(separator: "\n").first.map(String.init) : nil
    }

    func exitStatus() async -> Int32? {
        for await status in exits { return status }
        return nil
    }

    func send(_ signal: Int32) { kill(process.processIdentifier, signal) }

    func closeInput() { try? input.fileHandleForWriting.close() }
}
