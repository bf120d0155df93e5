// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import Glibc
import Synchronization

/// What the application has shown in the place of the video (HDMI mode `alternative`). Thread-safe.
package final class AlternativePicture: Sendable {
    let picture: StillPicture

    /// Decodes the bytes of a PNG or JPEG file, or of what else GStreamer knows. Throws what is wrong with it.
    package init(_ bytes: [UInt8]) throws(PipelineError) { picture = try StillPicture(encoded: bytes) }

    /// The same with the file's bytes. Throws why they cannot be had, too.
    package convenience init(file path: String) throws(PipelineError) { try self.init(Self.read(path)) }

    /// Has a guard show it from the next frame on, where it shows a picture instead of the video; nil: a white one. Does
    /// nothing for other elements.
    package static func set(_ picture: AlternativePicture?, of element: ElementReference) {
        GuardElement.implementation(of: element.pointer)?.picture.withLock { $0 = picture }
    }

    private static func read(_ path: String) throws(PipelineError) -> [UInt8] {
        guard let file = fopen(path, "re") else {
            throw PipelineError(description: "\(path) cannot be opened: \(String(cString: strerror(errno)))")
        }
        defer { fclose(file) }
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: 1 << 16)
        while bytes.count <= StillPicture.sizeLimit {
            let count = fread(&piece, 1, piece.count, file)
            guard count > 0 else { break }
            bytes += piece[..<count]
        }
        return bytes
    }
}
