// SPDX-License-Identifier: MPL-2.0

import ArgumentParser
import LatchkeyOutputs
import LatchkeyProtection

struct OutputsCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "outputs",
        abstract: "What the kernel tells of the outputs, as the output guard sees it.",
        discussion: """
            One line: each output that shows pictures as NAME:KIND:PROTECTION, and the level that all of them have \
            (none, type-0, type-1). Or why they cannot be read, which counts as no protection.

            EXAMPLE
              latchkey outputs
              latchkey outputs --request type-0 --device /dev/dri/card0
              latchkey outputs --watch
            """)

    enum Level: String, ExpressibleByArgument, CaseIterable {
        case type0 = "type-0"
        case type1 = "type-1"
    }

    @Option(help: "Ask the digital outputs of --device for HDCP. Only the owner of the display may.")
    var request: Level?

    private static let firstDevice = "/dev/dri/card0"

    @Option(help: ArgumentHelp("The display device to ask on.", valueName: "path"))
    var device = OutputsCommand.firstDevice

    @Flag(help: "Go on, with a line for each reading that says something else, until standard input ends.")
    var watch = false

    func validate() throws {
        if request == nil, device != Self.firstDevice {
            throw ValidationError("--device is for --request; all devices are read")
        }
    }

    func run() throws {
        if let request {
            do throws(OutputError) {
                try HDCPRequest(DRMCard(path: device, keepsMaster: true)).request(
                    request == .type1 ? .hdcpType1 : .hdcpType0)
            } catch {
                throw ToolError(error.reason)
            }
        }
        let outputs = KMSOutputs()
        guard watch else { return print(Self.line(outputs.read())) }
        let last = LastLine()
        let watching = OutputWatch(outputs) { facts, _ in last.show(Self.line(facts)) }
        while readLine() != nil { watching.poke() }
        watching.stop()
    }

    private static func line(_ facts: OutputFacts) -> String {
        let level =
            switch facts.level {
            case nil: "unknown"
            case .unprotected: "none"
            case .hdcpType0: "type-0"
            case .hdcpType1: "type-1"
            }
        switch facts {
        case .unreadable(let reason): return "unreadable: \(reason)"
        case .outputs(let outputs):
            let list = outputs.map { "\($0.name):\($0.kind.rawValue):\($0.protection.rawValue)" }
            return (list + ["level=\(level)"]).joined(separator: " ")
        }
    }
}

private final class LastLine: @unchecked Sendable {
    // SAFETY: only the watch's one thread calls.
    private var last: String?

    func show(_ line: String) {
        if line != last { StandardStream.output.write("\(line)\n") }
        last = line
    }
}
