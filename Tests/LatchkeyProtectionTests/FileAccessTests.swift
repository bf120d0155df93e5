// SPDX-License-Identifier: MPL-2.0

import Foundation
import Glibc
import Testing

@testable import LatchkeyProtection

struct FileAccessTests {
    /// A file of a user who is not root.
    private static func status(mode: mode_t = 0o600) throws -> stat {
        let path = FileManager.default.temporaryDirectory.appending(path: "access-\(UUID())").path
        defer { unlink(path) }
        try Data("secret".utf8).write(to: URL(fileURLWithPath: path))
        if geteuid() == 0 { try #require(chown(path, 4321, getegid()) == 0) }
        try #require(chmod(path, mode) == 0)
        var status = stat()
        try #require(stat(path, &status) == 0)
        return status
    }

    @Test func aFileOfAnotherUserHasAFlaw() throws {
        let status = try Self.status()
        #expect(FileAccess(status, user: status.st_uid).writeFlaw == nil)
        #expect(FileAccess(status, user: status.st_uid + 1).writeFlaw?.contains("another user owns it") == true)
    }

    @Test func rootMayUseTheFilesOfAllAndTheOthersThoseOfRoot() throws {
        var status = try Self.status()
        #expect(FileAccess(status, user: 0).writeFlaw == nil)
        let owner = status.st_uid
        status.st_uid = 0
        #expect(FileAccess(status, user: owner).writeFlaw == nil)
    }

    @Test(arguments: [(0o600, true), (0o644, true), (0o666, false), (0o606, false)] as [(mode_t, Bool)])
    func whatOthersMayWriteHasAFlaw(_ mode: mode_t, isRight: Bool) throws {
        let status = try Self.status(mode: mode)
        #expect((FileAccess(status, user: status.st_uid).writeFlaw == nil) == isRight)
    }
}
