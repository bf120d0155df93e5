// SPDX-License-Identifier: MPL-2.0

import Glibc
public import LatchkeyProtection

/// The sessions that servers may count, in files that outlive a crash: one each, for their owner alone to read.
///
/// Thread-safe: a file is replaced as a whole, and is on the disk before the session is set up. It is a few hundred bytes
/// and is written again only where something in it changes.
public struct SessionRecords: Sendable {
    /// How often ending a left-over session is tried.
    static let maximumAttempts = 5
    private static let maximumCount = 1000
    private static let suffix = ".session"

    private let folder: String
    let process: ProcessIdentity

    /// Makes the folder where it is not there. Throws `invalidConfiguration` where that fails, it cannot be read, or others may
    /// write to it.
    public init(folder: String, process: ProcessIdentity = .current) throws(KeyError) {
        guard !folder.isEmpty, !folder.utf8.contains(0) else {
            throw .invalidConfiguration("the folder of session records has no name")
        }
        func failure(_ path: String, _ code: Int32) -> KeyError {
            .invalidConfiguration("the folder \(path) for session records: \(String(cString: strerror(code)))")
        }
        var made = folder.hasPrefix("/") ? "" : "."
        for part in folder.split(separator: "/") {
            made += "/\(part)"
            if mkdir(made, 0o700) != 0, errno != EEXIST { throw failure(made, errno) }
        }
        guard let directory = opendir(folder) else { throw failure(folder, errno) }
        closedir(directory)
        if let flaw = FileAccess.flaw(files: [], folders: [folder]) {
            throw .invalidConfiguration("the folder for session records \(flaw)")
        }
        self.folder = folder
        self.process = process
    }

    /// False where it could not be written.
    @discardableResult
    func write(_ record: SessionRecord) -> Bool { RegularFile.write(record.text, to: path(record.session)) == 0 }

    func remove(_ session: String) { _ = unlink(path(session)) }

    func record(_ session: String) -> SessionRecord? {
        contents(of: path(session)).flatMap { SessionRecord(text: $0) }
    }

    /// Sessions of that server whose process is gone, or that were left over.
    func orphans(of url: String) -> [SessionRecord] {
        all().filter { $0.url == url && $0.owner?.isRunning != true }
    }

    /// Every record that can be read.
    func all() -> [SessionRecord] {
        guard let directory = opendir(folder) else { return [] }
        defer { closedir(directory) }
        var records: [SessionRecord] = []
        while records.count < Self.maximumCount, let entry = readdir(directory) {
            // SAFETY: `d_name` ends in NUL within its array, and is copied here.
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            guard name.hasSuffix(Self.suffix),
                let bytes = contents(of: "\(folder)/\(name)")
            else { continue }
            // Only under its own name: another one could not be removed.
            guard let record = SessionRecord(text: bytes), self.name(record.session) == name else { continue }
            records.append(record)
        }
        return records
    }

    private func contents(of path: String) -> [UInt8]? {
        try? RegularFile(path: path, kind: "session record", has: .settings, followsLinks: false)
            .contents(limit: SessionRecord.maximumSize)
    }

    private func name(_ session: String) -> String { PercentEncoding.encode(session) + Self.suffix }
    private func path(_ session: String) -> String { "\(folder)/\(name(session))" }
}

extension SessionRecords {
    /// One session that a server may count, for people.
    public struct Entry: Hashable, Sendable {
        /// Of the session server. Its query may hold private data.
        public var serverURL: String
        /// The client's own name of the session, random.
        public var session: String
        /// The process that has it; nil where that is gone, and the session was left over.
        public var processID: Int32?
        /// How often ending it was tried in vain.
        public var attempts: Int
    }

    /// Every record that can be read, in no order.
    public var entries: [Entry] {
        all().map { record in
            Entry(
                serverURL: record.url, session: record.session,
                processID: record.owner.flatMap { $0.isRunning ? $0.pid : nil }, attempts: record.attempts)
        }
    }
}

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
    /// The process that has the session. Nil: it was left over.
    var owner: ProcessIdentity?
    var attempts = 0

    static let maximumSize = 64 * 1024

    var text: [UInt8] {
        func line(_ text: String?) -> String { text.map { "=" + PercentEncoding.encode($0) } ?? "-" }
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
