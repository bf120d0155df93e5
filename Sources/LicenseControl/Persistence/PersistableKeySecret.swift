// SPDX-License-Identifier: MPL-2.0

import Glibc
import KeySystems
public import ProtectionModel

/// 32 random bytes that belong to one device, in key memory. Stored keys are sealed with it, so that a copy of them is
/// of no use elsewhere. Prints as `<redacted>`. Immutable and thread-safe.
public final class PersistableKeySecret: Sendable {
    private let halves: (ContentKey, ContentKey)

    /// Nil unless there are exactly 32 bytes. The caller's copy is the caller's to wipe.
    public init?(_ bytes: some Collection<UInt8>) {
        guard bytes.count == FairPlayPersistableKey.secretSize, let first = ContentKey(bytes.prefix(16)),
            let second = ContentKey(bytes.dropFirst(16))
        else { return nil }
        halves = (first, second)
    }

    /// The secret in a file; a new one is written where there is none, for the user alone to read.
    ///
    /// A file is the least that protects a secret: give a secret of the platform's key store where there is one. Throws
    /// `invalidConfiguration` with the path and the reason. Blocks for as long as the file system does.
    public static func file(_ path: String) throws(KeyError) -> PersistableKeySecret {
        let name = "device secret \(path)"
        if access(path, F_OK) != 0 {
            var bytes = (0..<FairPlayPersistableKey.secretSize).map { _ in UInt8.random(in: 0...255) }
            defer { wipe(&bytes) }
            try PrivateFile.write(bytes, to: path, replacing: false, kind: name)
        }
        var bytes = try RegularFile(path: path, kind: "device secret").contents(limit: 64)
        defer { wipe(&bytes) }
        guard let secret = PersistableKeySecret(bytes) else {
            throw .invalidConfiguration("\(name): \(bytes.count) bytes, where 32 are expected")
        }
        return secret
    }

    /// Lends a copy of the bytes for the time of the call.
    func withBytes<Result, Failure: Error>(_ body: ([UInt8]) throws(Failure) -> Result) throws(Failure) -> Result {
        var bytes = halves.0.withBytes { Array($0) } + halves.1.withBytes { Array($0) }
        defer { wipe(&bytes) }
        return try body(bytes)
    }
}

extension PersistableKeySecret: CustomStringConvertible, CustomReflectable {
    public var description: String { "<redacted>" }
    public var customMirror: Mirror { Mirror(self, children: []) }
}
