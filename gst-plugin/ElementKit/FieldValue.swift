// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// A value of a property, a signal argument or a structure field.
public enum FieldValue: Sendable, Equatable {
    /// No value, as a signal without a result has it.
    case none
    /// `gboolean`.
    case boolean(Bool)
    /// 32 bits.
    case uint(UInt32)
    /// 64 bits.
    case uint64(UInt64)
    /// UTF-8; nil is NULL.
    case string(String?)
    /// A `G_TYPE_STRV`.
    case strings([String])
    /// Travels as `GBytes`.
    case bytes([UInt8]?)
    /// Travels as a `GstStructure` with this name.
    case structure(String, [(String, FieldValue)])

    /// Fields of a structure count with their order.
    public static func == (left: FieldValue, right: FieldValue) -> Bool {
        switch (left, right) {
        case (.none, .none): true
        case (.boolean(let a), .boolean(let b)): a == b
        case (.uint(let a), .uint(let b)): a == b
        case (.uint64(let a), .uint64(let b)): a == b
        case (.string(let a), .string(let b)): a == b
        case (.strings(let a), .strings(let b)): a == b
        case (.bytes(let a), .bytes(let b)): a == b
        case (.structure(let a, let fields), .structure(let b, let others)):
            a == b && fields.elementsEqual(others) { $0.0 == $1.0 && $0.1 == $1.1 }
        default: false
        }
    }

    /// The GType that the value travels as.
    var type: GType {
        switch self {
        case .none: ek_type_none()
        case .boolean: ek_type_boolean()
        case .uint: ek_type_uint()
        case .uint64: ek_type_uint64()
        case .string: ek_type_string()
        case .strings: ek_type_strv()
        case .bytes: ek_type_bytes()
        case .structure: ek_type_structure()
        }
    }

    /// Writes into a GValue that has been initialized with `type`.
    func store(in value: UnsafeMutablePointer<GValue>) {
        switch self {
        case .none: break
        case .boolean(let flag): g_value_set_boolean(value, flag ? 1 : 0)
        case .uint(let number): g_value_set_uint(value, number)
        case .uint64(let number): g_value_set_uint64(value, guint64(number))
        case .string(let text):
            if let text { g_value_set_string(value, text) } else { g_value_set_string(value, nil) }
        case .strings(let texts): g_value_take_boxed(value, Self.makeStringVector(texts))
        case .bytes(let bytes):
            g_value_take_boxed(value, bytes.map { UnsafeMutableRawPointer(Self.makeBytes($0)) } ?? nil)
        case .structure(let name, let fields):
            g_value_take_boxed(value, UnsafeMutableRawPointer(Self.makeStructure(name, fields)))
        }
    }

    /// Reads a GValue of one of the known types; `none` for any other.
    init(reading value: UnsafePointer<GValue>) {
        if ek_value_holds(value, ek_type_boolean()) != 0 {
            self = .boolean(g_value_get_boolean(value) != 0)
        } else if ek_value_holds(value, ek_type_uint()) != 0 {
            self = .uint(g_value_get_uint(value))
        } else if ek_value_holds(value, ek_type_uint64()) != 0 {
            self = .uint64(UInt64(g_value_get_uint64(value)))
        } else if ek_value_holds(value, ek_type_string()) != 0 {
            self = .string(g_value_get_string(value).map { String(cString: $0) })
        } else if ek_value_holds(value, ek_type_strv()) != 0 {
            // SAFETY: a value of that type holds a vector of texts that ends with a null pointer, or nothing.
            let vector = g_value_get_boxed(value)?.assumingMemoryBound(to: UnsafePointer<CChar>?.self)
            var texts: [String] = []
            while let text = vector?[texts.count] { texts.append(String(cString: text)) }
            self = .strings(texts)
        } else if ek_value_holds(value, ek_type_bytes()) != 0 {
            guard let boxed = g_value_get_boxed(value) else {
                self = .bytes(nil)
                return
            }
            var size: gsize = 0
            let data = g_bytes_get_data(OpaquePointer(boxed), &size)
            // SAFETY: GBytes lends `size` bytes for as long as the GValue holds it.
            self = .bytes(Array(UnsafeRawBufferPointer(start: data, count: Int(size))))
        } else {
            self = .none
        }
    }

    /// A new structure that the caller owns.
    static func makeStructure(
        _ name: String, _ fields: [(String, FieldValue)]
    ) -> UnsafeMutablePointer<GstStructure>? {
        guard let structure = gst_structure_new_empty(name) else { return nil }
        for (field, content) in fields {
            if case .none = content { continue }
            var value = GValue()
            ek_value_init(&value, content.type)
            content.store(in: &value)
            gst_structure_take_value(structure, field, &value)
        }
        return structure
    }

    /// GStreamer prints a structure's field by its transform to a string, which GLib lacks for string vectors.
    private static let stringVectorsPrint: Void = {
        guard g_value_type_transformable(ek_type_strv(), ek_type_string()) == 0 else { return }
        g_value_register_transform_func(ek_type_strv(), ek_type_string()) { source, target in
            guard let source, let target else { return }
            // SAFETY: GObject calls this with an initialized string vector and a string.
            let vector = g_value_get_boxed(source)?.assumingMemoryBound(to: UnsafeMutablePointer<gchar>?.self)
            g_value_take_string(target, vector.flatMap { g_strjoinv(",", $0) })
        }
    }()

    private static func makeBytes(_ bytes: [UInt8]) -> OpaquePointer? {
        bytes.withUnsafeBytes { g_bytes_new($0.baseAddress, gsize($0.count)) }
    }

    private static func makeStringVector(_ texts: [String]) -> UnsafeMutableRawPointer? {
        _ = stringVectorsPrint
        guard let builder = g_strv_builder_new() else { return nil }
        for text in texts { g_strv_builder_add(builder, text) }
        let vector = g_strv_builder_end(builder)
        g_strv_builder_unref(builder)
        return UnsafeMutableRawPointer(vector)
    }
}
