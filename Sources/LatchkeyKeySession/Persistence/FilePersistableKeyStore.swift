// SPDX-License-Identifier: MPL-2.0

import Glibc
public import LatchkeyProtection

/// A folder with one file for each record, which only its owner may read. Thread-safe; several processes may share
/// the folder, as each file is replaced in one step.
public final class FilePersistableKeyStore: PersistableKeyStore {
    /// The path of the folder.
    public let folder: String
    private let kind: String
    private let isMadeOnDemand: Bool
    private static let suffix = ".lkpk"
    private static let maximumSize = 64 * 1024

    /// Makes the folder where it is missing. Throws `invalidConfiguration` with the path and the reason.
    public init(folder: String) throws(KeyError) {
        self.folder = folder
        (kind, isMadeOnDemand) = ("stored key", false)
        guard mkdir(folder, 0o700) == 0 || errno == EEXIST else {
            throw PrivateFile.failure("stored keys \(folder)", errno)
        }
    }

    /// Makes the folder, and those above it, with the first file. `kind` names what is stored in error texts.
    init(onDemand folder: String, kind: String) {
        self.folder = folder
        (self.kind, isMadeOnDemand) = (kind, true)
    }

    /// Reads a file of 64 KiB at most. Throws `invalidConfiguration` with path and reason.
    public func data(named name: String) throws(KeyError) -> [UInt8]? {
        let path = try path(name)
        guard access(path, F_OK) == 0 else {
            if errno == ENOENT || errno == ENOTDIR { return nil }
            throw PrivateFile.failure("\(kind) \(path)", errno)
        }
        if let flaw = FileAccess.flaw(files: [], folders: [folder]) { throw .invalidConfiguration("\(kind) \(flaw)") }
        return try RegularFile(path: path, kind: kind, hasSecrets: false, followsLinks: false)
            .contents(limit: Self.maximumSize)
    }

    /// Replaces the file in one step, so that a crash leaves the old or the new key. Throws `invalidConfiguration`.
    public func store(_ data: [UInt8], named name: String) throws(KeyError) {
        let path = try path(name)
        if isMadeOnDemand {
            do throws(LicenseStoreError) {
                try StoreFiles.createFolder(of: path)
            } catch {
                throw .invalidConfiguration("\(kind) \(error)")
            }
        }
        try PrivateFile.write(data, to: path, kind: "\(kind) \(path)")
    }

    /// Removes the file; a copy that somebody took stays good. Throws `invalidConfiguration`.
    public func remove(named name: String) throws(KeyError) {
        let path = try path(name)
        guard unlink(path) == 0 || errno == ENOENT else { throw PrivateFile.failure("\(kind) \(path)", errno) }
    }

    /// The names of the files without `.lkpk`. Throws `invalidConfiguration` where the folder cannot be read.
    public func names() throws(KeyError) -> [String] {
        guard let handle = opendir(folder) else {
            if isMadeOnDemand, errno == ENOENT { return [] }
            throw PrivateFile.failure("\(kind)s \(folder)", errno)
        }
        defer { closedir(handle) }
        var names: [String] = []
        while let entry = readdir(handle) {
            // SAFETY: the entry holds a name that ends in NUL, good until the next call of `readdir`.
            let name = withUnsafePointer(to: &entry.pointee.d_name) { pointer in
                pointer.withMemoryRebound(to: CChar.self, capacity: 256) { String(cString: $0) }
            }
            if name.hasSuffix(Self.suffix) { names.append(String(name.dropLast(Self.suffix.count))) }
        }
        return names
    }

    /// Letters, digits and hyphens only, so that no name leads out of the folder.
    private func path(_ name: String) throws(KeyError) -> String {
        guard !name.isEmpty, name.utf8.count <= 128,
            name.utf8.allSatisfy({ 0x30...0x39 ~= $0 || 0x41...0x5A ~= $0 || 0x61...0x7A ~= $0 || $0 == 0x2D })
        else { throw .invalidConfiguration("\(kind)s \(folder): a name that no file can have") }
        return "\(folder)/\(name)\(Self.suffix)"
    }
}
