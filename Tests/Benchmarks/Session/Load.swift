// SPDX-License-Identifier: MPL-2.0

/// What a server saw.
struct Load: Sendable {
    /// Clients begin within this time, in milliseconds.
    static let joining: Int64 = 5_000
    static let end: Int64 = 900_000

    let clients: Int
    var events = 0
    var lost = 0
    /// Requests in each second.
    private var seconds = [Int](repeating: 0, count: Int(end / 1000) + 1)

    init(clients: Int) { self.clients = clients }

    mutating func count(requestAt time: Int64) {
        let second = Int(time / 1000)
        if seconds.indices.contains(second) { seconds[second] += 1 }
    }

    mutating func add(_ other: Load) {
        events += other.events
        lost += other.lost
        for (index, number) in other.seconds.enumerated() { seconds[index] += number }
    }

    var mean: Double { scaled(Double(seconds[300..<600].reduce(0, +)) / 300) }
    var steadyPeak: Double { peak(300..<600) }
    var recoveryPeak: Double { peak(690..<800) }

    private func peak(_ range: Range<Int>) -> Double { scaled(Double(seconds[range].max() ?? 0)) }
    private func scaled(_ number: Double) -> Double { number * 1e6 / Double(max(clients, 1)) }

    var row: String {
        func text(_ peak: Double) -> String {
            let times = (peak / mean * 100).rounded() / 100
            return "\(Int(peak.rounded())) (\(times)×)"
        }
        let lost = (Double(lost) / Double(max(clients, 1)) * 10_000).rounded() / 100
        return "\(Int(mean.rounded())) | \(text(peak(5..<120))) | \(text(steadyPeak)) | \(text(peak(600..<690)))"
            + " | \(text(recoveryPeak)) | \(lost) % |"
    }
}
