// SPDX-License-Identifier: MPL-2.0

/// What is written down of a session that a server may count, so that the next start can end it.
///
/// The text is this project's own: `LKSS 1`, then a line each for the server's URL, the session's name, the server's name
/// for it, its token, the process, the start of the process, the run of the machine, and how often ending it was tried.
/// Texts are percent-encoded; `-` stands for nothing. The token is there only where ending the session takes it.
struct SessionRecord: Equatable, Sendable {
    var url: String
    /// The client's own name of the session.
    var session: String
    var reference: String?
    var token: SessionToken?
    /// Who has the session. Nobody: it was left over.
    var owner: ProcessIdentity?
    var attempts = 0

    static let maximumSize = 64 * 1024

    var text: [UInt8] {
        func line(_ text: String?) -> String { text.map { "=" + SessionTemplate.percentEncoded($0) } ?? "-" }
        let lines = [
            "LKSS 1", line(url), line(session), line(reference), line(token?.text), "\(owner?.pid ?? 0)",
            "\(owner?.start ?? 0)", line(owner?.bootID), "\(attempts)",
        ]
        return Array((lines.joined(separator: "\n") + "\n").utf8)
    }

    init(
        url: String, session: String, reference: String? = nil, token: SessionToken? = nil,
        owner: ProcessIdentity?, attempts: Int = 0
    ) {
        self.url = url
        self.session = session
        self.reference = reference
        self.token = token
        self.owner = owner
        self.attempts = attempts
    }

    /// Nil where the bytes are no record.
    init?(text bytes: [UInt8]) {
        guard bytes.count <= Self.maximumSize, let text = String(validating: bytes, as: UTF8.self) else { return nil }
        let lines = text.split(separator: "\n")
        guard lines.count == 9, lines[0] == "LKSS 1", let pid = Int32(lines[5]), let start = UInt64(lines[6]),
            let attempts = Int(lines[8]), (0...1000).contains(attempts)
        else { return nil }
        var texts: [String?] = []
        for index in [1, 2, 3, 4, 7] {
            if lines[index] == "-" {
                texts.append(nil)
            } else {
                guard lines[index].hasPrefix("="), let text = Self.decoded(lines[index].dropFirst()) else { return nil }
                texts.append(text)
            }
        }
        guard let url = texts[0], let session = texts[1], !session.isEmpty else { return nil }
        self.init(
            url: url, session: session, reference: texts[2], token: texts[3].map { SessionToken($0) },
            owner: pid > 0 ? ProcessIdentity(pid: pid, start: start, bootID: texts[4] ?? "") : nil, attempts: attempts)
    }

    private static func decoded(_ text: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = text.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard rest.count >= 2, let value = UInt8(Substring(rest.prefix(2)), radix: 16) else { return nil }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }
}
