// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeyGStreamerCheck
import LatchkeyElementKit

/// A message from the bus, read into values.
public struct BusMessage: Sendable, CustomStringConvertible {
    /// As GStreamer names the type: `error`, `eos`, `element`, …
    public let type: String
    public let source: String
    /// The structure's name; of errors and warnings the domain.
    public let name: String
    public let code: Int
    /// Of errors and warnings.
    public let text: String
    public let debug: String
    /// Of element messages: the structure as text.
    public let structure: String
    private let strings: [String: String]
    private let lists: [String: [String]]
    private let numbers: [String: UInt64]
    private let blobs: [String: [UInt8]]

    public init(_ message: UnsafeMutablePointer<GstMessage>) {
        let kind = ekt_message_type(message)
        type = String(cString: gst_message_type_get_name(kind))
        source = ekt_message_source(message).map { String(cString: $0) } ?? ""
        var (name, code, text, debug) = ("", 0, "", "")
        if kind == GST_MESSAGE_ERROR || kind == GST_MESSAGE_WARNING {
            var error: UnsafeMutablePointer<GError>?
            var details: UnsafeMutablePointer<CChar>?
            if kind == GST_MESSAGE_ERROR {
                gst_message_parse_error(message, &error, &details)
            } else {
                gst_message_parse_warning(message, &error, &details)
            }
            if let error {
                name = String(cString: g_quark_to_string(error.pointee.domain))
                code = Int(error.pointee.code)
                text = String(cString: error.pointee.message)
                g_error_free(error)
            }
            if let details {
                debug = String(cString: details)
                g_free(details)
            }
        }
        var (strings, lists, numbers, blobs) = (
            [String: String](), [String: [String]](), [String: UInt64](), [String: [UInt8]]()
        )
        var structureText = ""
        if let structure = gst_message_get_structure(message) {
            if name.isEmpty { name = String(cString: gst_structure_get_name(structure)) }
            if kind == GST_MESSAGE_ELEMENT, let printed = gst_structure_to_string(structure) {
                structureText = String(cString: printed)
                g_free(printed)
            }
            for index in 0..<max(gst_structure_n_fields(structure), 0) {
                guard let fieldName = gst_structure_nth_field_name(structure, guint(index)),
                    let value = gst_structure_get_value(structure, fieldName)
                else { continue }
                let field = String(cString: fieldName)
                if ek_value_holds(value, ek_type_string()) != 0 {
                    strings[field] = g_value_get_string(value).map { String(cString: $0) }
                } else if ek_value_holds(value, ek_type_uint64()) != 0 {
                    numbers[field] = UInt64(g_value_get_uint64(value))
                } else if ek_value_holds(value, ek_type_boolean()) != 0 {
                    numbers[field] = UInt64(g_value_get_boolean(value))
                } else if ek_value_holds(value, ek_type_strv()) != 0, let boxed = g_value_get_boxed(value) {
                    let vector = boxed.assumingMemoryBound(to: UnsafeMutablePointer<CChar>?.self)
                    lists[field] = (0..<Int(g_strv_length(vector))).compactMap {
                        vector[$0].map { String(cString: $0) }
                    }
                } else if ek_value_holds(value, ek_type_bytes()) != 0, let boxed = g_value_get_boxed(value) {
                    var size: gsize = 0
                    let data = g_bytes_get_data(OpaquePointer(boxed), &size)
                    blobs[field] = Array(UnsafeRawBufferPointer(start: data, count: Int(size)))
                }
            }
        }
        (self.name, self.code, self.text, self.debug) = (name, code, text, debug)
        (self.strings, self.lists, self.numbers, self.blobs) = (strings, lists, numbers, blobs)
        self.structure = structureText
    }

    public func string(_ field: String) -> String? { strings[field] }
    public func strings(_ field: String) -> [String]? { lists[field] }
    public func number(_ field: String) -> UInt64? { numbers[field] }
    public func bytes(_ field: String) -> [UInt8]? { blobs[field] }

    public var description: String { "\(type) \(name) \(code) from \(source): \(text) [\(debug)] \(structure)" }

    /// Whether this is an error with that code of the stream domain.
    public func isStreamError(_ code: GstStreamError) -> Bool {
        type == "error" && name == String(cString: g_quark_to_string(gst_stream_error_quark()))
            && self.code == Int(code.rawValue)
    }

    /// Whether this is an error with that code of the resource domain.
    public func isResourceError(_ code: GstResourceError) -> Bool {
        type == "error" && name == String(cString: g_quark_to_string(gst_resource_error_quark()))
            && self.code == Int(code.rawValue)
    }
}

/// A bus that a test reads. One thread at a time.
public final class MessageBus {
    public let pointer: UnsafeMutablePointer<GstBus>
    /// Everything that was posted and read, in order.
    public private(set) var seen: [BusMessage] = []
    /// What no `next` has returned yet: messages of several threads come in any order.
    private var unclaimed: [BusMessage] = []

    public init() { pointer = gst_bus_new() }

    /// Takes over the caller's reference.
    public init(owning pointer: UnsafeMutablePointer<GstBus>) { self.pointer = pointer }

    deinit { gst_object_unref(pointer) }

    /// The first message that fits and was not returned before; waits for it until the deadline.
    public func next(where fits: (BusMessage) -> Bool) throws -> BusMessage {
        if let index = unclaimed.firstIndex(where: fits) { return unclaimed.remove(at: index) }
        let end = MonotonicTime.now + TestProcess.deadline
        while true {
            let now = MonotonicTime.now
            guard now < end, let message = gst_bus_timed_pop(pointer, GstClockTime(end - now)) else {
                throw TestFailure("no such message; seen: \(seen.map(\.description).joined(separator: "\n"))")
            }
            let read = BusMessage(message)
            gst_message_unref(message)
            seen.append(read)
            if fits(read) { return read }
            unclaimed.append(read)
        }
    }

    public func next(element name: String) throws -> BusMessage { try next { $0.type == "element" && $0.name == name } }

    public func nextError() throws -> BusMessage { try next { $0.type == "error" } }

    /// All that has been posted up to now.
    public func all() -> [BusMessage] {
        while let message = gst_bus_pop(pointer) {
            seen.append(BusMessage(message))
            unclaimed.append(BusMessage(message))
            gst_message_unref(message)
        }
        return seen
    }

    public func count(element name: String) -> Int { all().count { $0.type == "element" && $0.name == name } }
}
