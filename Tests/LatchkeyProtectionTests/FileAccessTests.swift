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

    /// The sticky bit is for folders alone.
    @Test(
        arguments: [(0o600, true), (0o644, true), (0o666, false), (0o606, false), (0o1666, false)] as [(mode_t, Bool)])
    func whatOthersMayWriteHasAFlaw(_ mode: mode_t, isRight: Bool) throws {
        let status = try Self.status(mode: mode)
        #expect((FileAccess(status, user: status.st_uid).writeFlaw == nil) == isRight)
    }

    /// The group of this process is often the user's own.
    @Test(arguments: [0o660, 0o620, 0o640] as [mode_t]) func theMembersOfAnotherGroupAreOthers(_ mode: mode_t) throws {
        var status = try Self.status(mode: mode)
        status.st_gid = getegid()
        let own = FileAccess(status, user: status.st_uid)
        #expect(own.writeFlaw == nil && !own.othersMayRead)
        status.st_gid += 1
        let other = FileAccess(status, user: status.st_uid)
        #expect((other.writeFlaw != nil) == (mode & 0o020 != 0))
        #expect(other.othersMayRead == (mode & 0o040 != 0))
    }

    /// An access control list lets one user more write. Its mask is in the place of the group's bits, so it is seen if the
    /// file's group is another.
    @Test func theMaskOfAnAccessControlListCountsAsTheGroup() throws {
        let path = FileManager.default.temporaryDirectory.appending(path: "access-\(UUID())").path
        defer { unlink(path) }
        try Data("secret".utf8).write(to: URL(fileURLWithPath: path))
        try #require(chmod(path, 0o600) == 0)
        // As the kernel keeps it: version 2, then tag, permissions and id of the owner, a user, the group, the mask and others.
        var list: [UInt8] = [2, 0, 0, 0]
        for (tag, permissions, id) in [(0x01, 6, -1), (0x02, 6, 4321), (0x04, 0, -1), (0x10, 6, -1), (0x20, 0, -1)] {
            list += [UInt8(tag), 0, UInt8(permissions), 0]
            list += withUnsafeBytes(of: UInt32(truncatingIfNeeded: id).littleEndian) { Array($0) }
        }
        // The C library's module for Swift leaves it out.
        typealias SetAttribute =
            @convention(c) (
                UnsafePointer<CChar>, UnsafePointer<CChar>, UnsafeRawPointer, Int, Int32
            ) -> Int32
        // SAFETY: the function has these parameters (setxattr(2)).
        let setAttribute = unsafeBitCast(try #require(dlsym(nil, "setxattr")), to: SetAttribute.self)
        guard setAttribute(path, "system.posix_acl_access", list, list.count, 0) == 0 else {
            #expect(errno == EOPNOTSUPP, "the list is refused: \(errno)")
            return
        }
        var status = stat()
        try #require(stat(path, &status) == 0)
        status.st_gid = getegid() + 1
        let access = FileAccess(status, user: status.st_uid)
        #expect(access.writeFlaw?.contains("others may write to it") == true && access.othersMayRead)
        status.st_gid = getegid()
        #expect(FileAccess(status, user: status.st_uid).writeFlaw == nil)
    }
}
