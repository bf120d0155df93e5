// SPDX-License-Identifier: MPL-2.0

import Foundation
import Glibc
import Testing

@testable import LatchkeyProtection

/// The folders of files that are settings, or have secrets in them: who may put another file there.
final class RegularFileTests {
    private let folder: String

    init() throws {
        folder = FileManager.default.temporaryDirectory.appending(path: "latchkey-\(UUID())").path
        try make("")
    }

    deinit { try? FileManager.default.removeItem(atPath: folder) }

    /// A folder in the folder, with a file `keys` that no one but this user may write to. Returns the path of that.
    @discardableResult
    private func make(_ name: String) throws -> String {
        let place = name.isEmpty ? folder : "\(folder)/\(name)"
        try FileManager.default.createDirectory(
            atPath: place, withIntermediateDirectories: false, attributes: [.posixPermissions: 0o700])
        try Data("secret".utf8).write(to: URL(fileURLWithPath: "\(place)/keys"))
        try #require(chmod("\(place)/keys", 0o600) == 0)
        return "\(place)/keys"
    }

    /// Why the file is not read; nil if it is.
    private func refusal(_ path: String, has contents: RegularFile.Contents = .secrets) -> String? {
        do throws(KeyError) {
            let bytes = try RegularFile(path: path, kind: "keys file", has: contents).contents(limit: 100)
            #expect(bytes == Array("secret".utf8))
            return nil
        } catch {
            return error.reason
        }
    }

    /// As for files: the group of this process is often the user's own. With the sticky bit, others cannot exchange files. systemd
    /// makes folders of credentials that their owner alone may read.
    @Test(
        arguments: [
            (0o700, true), (0o755, true), (0o770, true), (0o500, true), (0o1777, true), (0o777, false), (0o702, false),
        ] as [(mode_t, Bool)])
    func aFolderThatOthersMayWriteIsRefused(mode: mode_t, isRight: Bool) throws {
        let path = try make("own")
        try #require(chown("\(folder)/own", uid_t.max, getegid()) == 0)
        try #require(chmod("\(folder)/own", mode) == 0)
        defer { _ = chmod("\(folder)/own", 0o700) }
        let words = "keys file \(path): its folder \(folder)/own: others may write to it; run chmod go-w on it"
        for contents in [RegularFile.Contents.secrets, .settings] {
            #expect(refusal(path, has: contents) == (isRight ? nil : words))
        }
        // Media may be anywhere.
        #expect(refusal(path, has: .untrusted) == nil)
    }

    /// The folders above its own are not looked at.
    @Test func aFolderAboveIsNotLookedAt() throws {
        let path = try make("own")
        try #require(chmod(folder, 0o777) == 0)
        #expect(refusal(path) == nil)
    }

    @Test func theFolderToWhichALinkLeadsCounts() throws {
        let path = try make("own")
        try #require(symlink("own", "\(folder)/link") == 0)
        #expect(refusal("\(folder)/link/keys") == nil)
        try #require(chmod("\(folder)/own", 0o777) == 0)
        for place in ["own", "link"] {
            let reason = refusal("\(folder)/\(place)/keys")
            #expect(reason?.contains("its folder \(folder)/\(place): others may write to it") == true)
        }
        try #require(chmod("\(folder)/own", 0o700) == 0)
        #expect(refusal(path) == nil)
    }

    /// A link to a file, and one to that.
    @Test func theFoldersOfALinkAndOfItsFileCount() throws {
        for name in ["file", "middle", "first"] { try make(name) }
        for (name, target) in [("middle", "../file/keys"), ("first", "\(folder)/middle/keys")] {
            try #require(unlink("\(folder)/\(name)/keys") == 0)
            try #require(symlink(target, "\(folder)/\(name)/keys") == 0)
        }
        let path = "\(folder)/first/keys"
        #expect(refusal(path) == nil)
        for name in ["file", "middle", "first"] {
            try #require(chmod("\(folder)/\(name)", 0o777) == 0)
            #expect(refusal(path)?.contains("/\(name): others may write to it") == true, "\(name)")
            try #require(chmod("\(folder)/\(name)", 0o700) == 0)
        }
        #expect(refusal(path) == nil)
    }

    /// No one can put another file in the place of one that is open. What others may write to is refused all the same.
    @Test func anOpenFileHasNoFolder() throws {
        let path = try make("own")
        let descriptor = open(path, O_RDONLY | O_CLOEXEC)
        try #require(descriptor >= 0)
        defer { close(descriptor) }
        try #require(chmod("\(folder)/own", 0o777) == 0)
        #expect(refusal(path) != nil)
        for place in ["/dev/fd", "/proc/self/fd"] { #expect(refusal("\(place)/\(descriptor)") == nil) }
        try #require(chmod(path, 0o602) == 0)
        #expect(refusal("/dev/fd/\(descriptor)")?.contains("others may write to it") == true)
    }
}
