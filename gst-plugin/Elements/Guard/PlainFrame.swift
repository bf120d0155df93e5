// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyProtection
import Synchronization

/// What takes the place of frames.
enum PlainContent: Equatable, Sendable {
    case black, white
    case picture(AlternativePicture)

    static func == (left: PlainContent, right: PlainContent) -> Bool {
        switch (left, right) {
        case (.black, .black), (.white, .white): true
        case (.picture(let one), .picture(let other)): one === other
        default: false
        }
    }
}

/// A frame in one color, or the application's, that takes the place of others. Its bytes are made once and shared.
final class PlainFrame: @unchecked Sendable {
    // SAFETY: constant after `init`; the buffer's reference count is atomic.
    let caps: Caps
    let content: PlainContent
    /// Frames of these caps lie in memory of another kind, so the sink has to change over.
    let hasOwnCaps: Bool
    private let buffer: Buffer

    /// Nil where the caps are no raw video of a known format.
    init?(_ caps: Caps, _ content: PlainContent) {
        hasOwnCaps = !caps.isInSystemMemory
        self.caps = hasOwnCaps ? Self.named(caps.inSystemMemory()) : caps
        self.content = content
        if case .picture(let alternative) = content, let frame = alternative.picture.frame(self.caps) {
            buffer = frame
        } else {
            guard let frame = Buffer(plainFrame: self.caps, isWhite: content != .black) else { return nil }
            buffer = frame
        }
    }

    func frame(at time: UInt64?, duration: UInt64?) -> Buffer? {
        buffer.sharingBytes(presentationTime: time, duration: duration)
    }

    /// Caps of GStreamer 1.24 and later name the kernel's format, which in plain memory is one of GStreamer's own.
    private static func named(_ caps: Caps) -> Caps {
        caps.map { structure in
            guard structure.string("format") == "DMA_DRM" else { return true }
            let code = structure.string("drm-format")?.split(separator: ":").first.map(String.init) ?? ""
            structure.remove("drm-format")
            structure.set("format", formats[code] ?? "NV12")
            return true
        }
    }

    /// By the kernel's codes (drm_fourcc.h), without their modifier. For others any does: the frame says nothing.
    private static let formats = [
        "YU12": "I420", "YV12": "YV12", "NV12": "NV12", "NV21": "NV21", "NV16": "NV16", "P010": "P010_10LE",
        "YUYV": "YUY2", "UYVY": "UYVY", "XR24": "BGRx", "AR24": "BGRA", "XB24": "RGBx", "AB24": "RGBA",
    ]
}

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
        do throws(KeyError) {
            return try RegularFile(path: path, kind: "file", has: .untrusted).contents(limit: StillPicture.sizeLimit)
        } catch {
            throw PipelineError(description: error.reason)
        }
    }
}
