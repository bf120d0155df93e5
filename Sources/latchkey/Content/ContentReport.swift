// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import LatchkeyKeySystems
    import Latchkey
    import LatchkeyProtection

    /// What is known of some content, for people and for programs.
    struct ContentReport {
        private let info: ContentInfo
        private let type: ContentType
        private let url: String

        /// `url` is shown as it is.
        init(_ info: ContentInfo, type: ContentType, url: String) {
            self.info = info
            self.type = type
            self.url = url
        }

        // MARK: For people

        func text(_ terminal: Terminal) -> String {
            var lines = [terminal.bold(terminal.fit(url))]
            lines +=
                TextTable(
                    titles: ["Type:", type.rawValue],
                    rows: [
                        ["Protected:", info.isProtected ? "yes" : "no"],
                        ["Key systems:", list(info.keySystems.map(\.rawValue))], ["Rights:", "\(info.rights)"],
                    ] + dates
                ).lines
            if !info.tracks.isEmpty { lines += [""] + tracks(terminal) }
            lines += ["", terminal.bold("On play")] + onPlay.map { terminal.fit("  \($0)") }
            return lines.joined(separator: "\n")
        }

        private var dates: [[String]] {
            var rows: [[String]] = []
            if let begins = info.rightsBegin { rows.append(["Rights begin:", "\(begins)"]) }
            if let ends = info.rightsEnd { rows.append(["Rights end:", "\(ends)"]) }
            if info.rightsExpireAfterFirstUse { rows.append(["Rights end:", "some time after the first use"]) }
            return rows
        }

        private func list(_ names: [String]) -> String { names.isEmpty ? "-" : names.joined(separator: ", ") }

        private func tracks(_ terminal: Terminal) -> [String] {
            let table = TextTable(
                titles: ["TRACK", "NAME", "LANGUAGE", "CODECS", "BIT RATE", "SIZE"],
                rows: info.tracks.map { track in
                    [
                        track.kind.rawValue, track.name ?? "-", track.language ?? "-", track.codecs ?? "-",
                        track.bitRate.map(Self.rate) ?? "-",
                        track.width.flatMap { width in track.height.map { "\(width)x\($0)" } } ?? "-",
                    ]
                }, right: [4]
            ).lines
            var lines = [terminal.bold(terminal.fit(table[0]))]
            for (track, line) in zip(info.tracks, table.dropFirst()) {
                lines.append(terminal.fit(line))
                lines += track.keyPeriods.map { terminal.fit("  " + Self.text($0)) }
            }
            return lines
        }

        private static func text(_ period: KeyPeriod) -> String {
            let times = "\(period.start.map(time) ?? "…") – \(period.end.map(time) ?? "…")"
            guard let method = period.method else { return "\(times)  clear" }
            let keys = period.keyIDs.map { "KID \($0)" }
            return ([times, method] + [period.keyFormat, period.keyURI].compactMap(\.self) + keys)
                .joined(separator: "  ")
        }

        /// `1:02:03.5`, `0:10`
        static func time(_ seconds: Double) -> String {
            guard seconds.isFinite, seconds >= 0, seconds < 1e9 else { return "…" }
            let tenths = Int((seconds * 10).rounded())
            let (whole, rest) = (tenths / 10, tenths % 10)
            func two(_ number: Int) -> String { number < 10 ? "0\(number)" : "\(number)" }
            let clock =
                whole < 3600
                ? "\(whole / 60):\(two(whole % 60))" : "\(whole / 3600):\(two(whole / 60 % 60)):\(two(whole % 60))"
            return rest == 0 ? clock : "\(clock).\(rest)"
        }

        /// `128 kb/s`, `2.5 Mb/s`
        static func rate(_ bits: UInt64) -> String {
            guard bits >= 1_000_000 else { return "\(bits / 1000) kb/s" }
            let tenths = bits / 100_000
            return "\(tenths / 10).\(tenths % 10) Mb/s"
        }

        private var onPlay: [String] {
            guard info.isProtected else { return ["It plays: nothing is encrypted."] }
            guard !info.keyNeeds.isEmpty else { return ["It plays: its keys come without a licence."] }
            var lines = info.keyNeeds.map { need in
                let name = need.keyURI ?? list(need.keyIDs.map { "KID \($0)" })
                return "\(name): "
                    + (need.source.map { "from \($0)" }
                        ?? "nobody is asked, and playback waits in vain: configure a licence service or a keys file")
            }
            if info.rightsStatus != .valid, info.keyNeeds.contains(where: { $0.source != nil }) {
                lines.append(
                    "A licence is acquired first: latchkey acquire, or an answer to the question of latchkey play.")
            }
            return lines
        }

        // MARK: For programs

        var document: ContentDocument { ContentDocument(info, type: type, url: url) }
    }
#endif
