// SPDX-License-Identifier: MPL-2.0

/// What licenses take their time for, without the network: acquiring one, starting with a stored one, and the store with
/// 10,000 of them. Prints one table.
@main
enum LicenseBenchmark {
    static func main() async throws {
        guard let folder = CommandLine.arguments.dropFirst().first else {
            return print("usage: latchkey-license-benchmark FOLDER")
        }
        print("| what | runs | median ms | p99 ms |\n|---|---|---|---|")
        for row in try RoundTrip.measure() { print(row) }
        print(try await StoredLicense.measure(in: folder + "/one"))
        for row in try await FullStore.measure(in: folder + "/full") { print(row) }
    }
}

struct BenchmarkFailure: Error { let text: String }

/// The times of one thing.
struct Row: CustomStringConvertible {
    let name: String
    var times: [Duration] = []

    init(_ name: String, _ times: [Duration] = []) {
        self.name = name
        self.times = times
    }

    var description: String {
        let sorted = times.map { $0 / .milliseconds(1) }.sorted()
        func text(_ part: Double) -> String {
            guard !sorted.isEmpty else { return "?" }
            let value = sorted[min(sorted.count - 1, Int(Double(sorted.count) * part))]
            return "\((value * 1000).rounded() / 1000)"
        }
        return "| \(name) | \(times.count) | \(text(0.5)) | \(text(0.99)) |"
    }
}
