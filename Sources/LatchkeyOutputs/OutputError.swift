// SPDX-License-Identifier: MPL-2.0

import Glibc

/// Why outputs cannot be read or asked.
public struct OutputError: Error, Hashable, Sendable {
    private enum Code: Hashable {
        case badScript, noDevice, failed, refused, notOffered, noWayland, notOfferedByCompositor
    }

    private let code: Code
    /// What failed, and what to do.
    public let reason: String

    private init(_ code: Code, _ reason: String) {
        self.code = code
        self.reason = reason
    }

    static func badScript(line: Int) -> OutputError {
        OutputError(
            .badScript,
            "line \(line) of the output script is not “MILLISECONDS NAME:KIND[:PROTECTION] …” or “MILLISECONDS unreadable”"
        )
    }

    /// There is no display device to read.
    static let noDevice = OutputError(
        .noDevice, "there is no display device under /dev/dri; let the application tell the outputs")

    /// The system refused a call. `number` is errno's.
    static func failed(_ what: String, _ number: Int32) -> OutputError {
        OutputError(.failed, "\(what) failed: \(text(of: number))")
    }

    /// What the system says of a number of errno.
    static func text(of number: Int32) -> String {
        // SAFETY: glibc returns a string that ends in NUL, good until this thread's next call.
        strerror(number).map { String(cString: $0) } ?? "error \(number)"
    }

    /// Only the DRM master may ask.
    static func refused(_ connector: String, _ number: Int32) -> OutputError {
        OutputError(
            .refused,
            "HDCP cannot be requested on \(connector) (\(text(of: number))): only the owner of the display, such as the "
                + "compositor, may; give its descriptor or have it ask (a Wayland compositor: give latchkeyguard the "
                + "window, as wayland-display and wayland-surface)")
    }

    /// The driver has no such property.
    static func notOffered(_ connector: String, _ property: String) -> OutputError {
        OutputError(.notOffered, "the driver of \(connector) has no property “\(property)”")
    }

    /// Outputs cannot be queried through Wayland.
    static func noWayland(_ reason: String) -> OutputError { OutputError(.noWayland, reason) }

    /// The compositor does not speak weston_content_protection.
    static let notOfferedByCompositor = OutputError(
        .notOfferedByCompositor,
        "the compositor does not offer weston_content_protection, so that HDCP cannot be requested through it: use one "
            + "that does (Weston, with allow_hdcp=true for the output), or have the owner of the display ask")

    /// Whether it is the same kind of failure, whatever the text says.
    public func isSameKind(as other: OutputError) -> Bool { code == other.code }
}

extension OutputError: CustomStringConvertible {
    public var description: String { reason }
}
