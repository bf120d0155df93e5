// SPDX-License-Identifier: MPL-2.0

import Glibc
import Latchkey

/// Plays protected content with Latchkey's agent, in a terminal: the sample application of the Downloadable Agent
/// manual, section 4.
///
///     play-protected [OPTION…] [URL [TYPE]]
///
/// Without a URL it shows a list of samples and asks. Keys and licenses come from where the configuration file says.
@main
struct PlayProtected {
    static func main() async {
        let options: Options
        switch Options.read(Array(CommandLine.arguments.dropFirst())) {
        case .success(let read): options = read
        case .failure(let problem):
            print("play-protected: \(problem.text)\n\n\(Options.usage)")
            exit(64)
        }
        if options.showsHelp {
            print(Options.usage)
            exit(0)
        }
        let log = options.showsLog ? watchLog() : nil
        let status = await perform(options)
        withExtendedLifetime(log) {}
        exit(status)
    }

    private static func perform(_ options: Options) async -> Int32 {
        if options.resets { return await reset() ? 0 : 1 }
        if options.hasConsole {
            await Console(options).run()
            return 0
        }
        if let caching = options.caching { return await CacheView(options).perform(caching) ? 0 : 1 }
        if let content = options.content { return await Playback(content, options).run().status }
        await menu(options)
        return 0
    }

    private static func watchLog() -> AgentLogWatch {
        AgentLog.watch(threshold: .debug) { print("log: \($0)") }
    }

    /// The home screen: samples, and what else there is.
    private static func menu(_ options: Options) async {
        var log: AgentLogWatch?
        while true {
            for (index, sample) in options.samples.enumerated() {
                print("\(index + 1)  \(sample.title) (\(sample.type.rawValue))")
            }
            print("Number or URL; l: log on or off; r: reset DRM database; q: quit")
            guard let line = ask("> ") else { return }
            switch line {
            case "q": return
            case "l":
                log = log == nil ? watchLog() : nil
                print(log == nil ? "The log is off." : "The log is on.")
            case "r":
                if options.agrees || ask("Remove all licenses? [y/N] ") == "y" { _ = await reset() }
            default:
                let sample = Int(line).flatMap {
                    options.samples.indices.contains($0 - 1) ? options.samples[$0 - 1] : nil
                }
                guard let content = sample ?? Options.Content(url: line) else {
                    print("There is no such sample, and the URL does not tell its type.")
                    continue
                }
                _ = await Playback(content, options).run()
            }
        }
    }

    private static func reset() async -> Bool {
        do throws(AgentError) {
            let count = try await Agent.resetLicenses()
            print("reset: \(count) records removed")
            return true
        } catch {
            print("error: \(error)")
            return false
        }
    }

    /// What the user types; nil at the end of the input.
    static func ask(_ question: String) -> String? {
        print(question, terminator: "")
        return readLine()
    }
}

/// Prints at once, also into a pipe.
func print(_ text: String, terminator: String = "\n") {
    Swift.print(text, terminator: terminator)
    fflush(nil)
}
