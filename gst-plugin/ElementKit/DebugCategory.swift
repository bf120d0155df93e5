// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// A category of GStreamer's debug log (`GST_DEBUG=name:level`). Make one for each plug-in part, once, and keep it.
///
/// The protected build logs nothing. Thread-safe. The text is built only where the category's threshold lets it through. What is logged must hold no
/// secret.
public struct DebugCategory: @unchecked Sendable {
    // SAFETY: categories live for ever and are thread-safe.
    private let pointer: UnsafeMutablePointer<GstDebugCategory>?

    /// GStreamer's levels, as `GST_DEBUG` counts them.
    public enum Level: Int32, Sendable {
        /// Something failed, and data is lost or playback ends.
        case error = 1
        /// Something is wrong, and it goes on all the same.
        case warning = 2
        /// Reached code that does less than it should.
        case fixme = 3
        /// Once in a stream, as new caps.
        case info = 4
        /// Now and then, as events and state changes.
        case debug = 5
        /// Often, as once a buffer.
        case log = 6
        /// All there is, as reference counts.
        case trace = 7
    }

    /// Makes the category, or takes the one that has this name.
    public init(_ name: String, _ description: String) {
        #if LATCHKEY_PROTECTED
            pointer = nil
        #else
            GStreamer.initialize()
            pointer = ek_debug_category(StaticText.keep(name), StaticText.keep(description))
        #endif
    }

    /// Logs a text where the level is on, from any thread. `element` is named with it. Never a secret.
    public func log(
        _ level: Level, _ element: ElementReference? = nil, _ message: @autoclosure () -> String,
        file: StaticString = #fileID, function: StaticString = #function, line: Int = #line
    ) {
        #if !LATCHKEY_PROTECTED
            guard let pointer, ek_debug_is_on(pointer, level.rawValue) != 0 else { return }
            // SAFETY: static strings are null-terminated and live for ever.
            gst_debug_log_literal(
                pointer, GstDebugLevel(UInt32(level.rawValue)), Self.text(file), Self.text(function), gint(line),
                element.map { UnsafeMutableRawPointer($0.pointer).assumingMemoryBound(to: GObject.self) }, message())
        #endif
    }

    private static func text(_ string: StaticString) -> UnsafePointer<CChar>? {
        guard string.hasPointerRepresentation else { return nil }
        return UnsafeRawPointer(string.utf8Start).assumingMemoryBound(to: CChar.self)
    }
}

/// C strings that live for ever, for the functions of GStreamer that keep the pointer they are given.
enum StaticText {
    static func keep(_ text: String) -> UnsafePointer<CChar>? {
        UnsafePointer(g_intern_string(text))
    }
}
