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

    /// Makes the folder where it is not there. Throws `invalidConfiguration` where that fails.
    public init(folder: String, process: ProcessIdentity = .current) throws(KeyError) {
        guard !folder.isEmpty, !folder.utf8.contains(0) else {
            throw .invalidConfiguration("the folder of session records has no name")
        }
        var made = folder.hasPrefix("/") ? "" : "."
        for part in folder.split(separator: "/") {
            made += "/\(part)"
            if mkdir(made, 0o700) != 0, errno != EEXIST {
                throw .invalidConfiguration("the folder of session records \(folder) cannot be made, error \(errno)")
            }
        }
        self.folder = folder
        self.process = process
    }

    /// False where it could not be written.
    @discardableResult
    func write(_ record: SessionRecord) -> Bool { SmallFile.write(record.text, to: path(record.session)) == 0 }

    func remove(_ session: String) { _ = unlink(path(session)) }

    func record(_ session: String) -> SessionRecord? {
        SmallFile.read(path(session), upTo: SessionRecord.maximumSize).flatMap { SessionRecord(text: $0) }
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
                let bytes = SmallFile.read("\(folder)/\(name)", upTo: SessionRecord.maximumSize)
            else { continue }
            // Only under its own name: another one could not be removed.
            guard let record = SessionRecord(text: bytes), self.name(record.session) == name else { continue }
            records.append(record)
        }
        return records
    }

    private func name(_ session: String) -> String { SessionTemplate.percentEncoded(session) + Self.suffix }
    private func path(_ session: String) -> String { "\(folder)/\(name(session))" }
}
