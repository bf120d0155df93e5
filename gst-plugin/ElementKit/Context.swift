// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Synchronization

/// One reference to a `GstContext`: what elements of a pipeline share. Thread-safe, as nothing changes it once it is
/// made.
public final class Context: @unchecked Sendable {
    // SAFETY: contexts that others hold too are immutable; the reference count is atomic. The pointer is good while
    // the object is, and Swift ends an object after its last use: hence `withPointer`.
    private let pointer: OpaquePointer

    /// Takes a reference of its own; the caller keeps its one.
    public init(sharing pointer: OpaquePointer) {
        gst_mini_object_ref(UnsafeMutableRawPointer(pointer).assumingMemoryBound(to: GstMiniObject.self))
        self.pointer = pointer
    }

    /// A new context with the fields of `other`, where there is one. `fill` may add to its structure.
    public init?(type: String, persistent: Bool, copying other: Context? = nil) {
        GStreamer.initialize()
        guard let pointer = gst_context_new(type, persistent ? 1 : 0) else { return nil }
        self.pointer = pointer
        other?.withPointer { other in
            let source = gst_context_get_structure(other)
            let target = gst_context_writable_structure(pointer)
            for index in 0..<gst_structure_n_fields(source) {
                guard let name = gst_structure_nth_field_name(source, guint(index)),
                    let value = gst_structure_get_value(source, name)
                else { continue }
                gst_structure_set_value(target, name, value)
            }
        }
    }

    deinit { ek_mini_object_unref(UnsafeMutableRawPointer(pointer)) }

    /// Lends the C pointer for the time of the call.
    public func withPointer<Result>(_ body: (OpaquePointer) -> Result) -> Result {
        withExtendedLifetime(self) { body(pointer) }
    }
    /// The context type, such as `gst.soup.session`.
    public var type: String { withPointer { String(cString: gst_context_get_context_type($0)) } }

    /// A string field.
    public func string(_ field: String) -> String? {
        withPointer { context in
            gst_structure_get_string(gst_context_get_structure(context), field).map { String(cString: $0) }
        }
    }

    /// An unsigned field, also where it was set as a signed one or as text.
    public func uint(_ field: String) -> UInt32? {
        withPointer { context in
            let structure = gst_context_get_structure(context)
            var unsigned: guint = 0
            if gst_structure_get_uint(structure, field, &unsigned) != 0 { return unsigned }
            var signed: gint = 0
            if gst_structure_get_int(structure, field, &signed) != 0 { return UInt32(exactly: signed) }
            return string(field).flatMap { UInt32($0) }
        }
    }

    /// The Swift object that `set(_:_:of:)` stored under the same type.
    public func object<Object: AnyObject>(_ field: String, of type: SharedObjectType<Object>) -> Object? {
        withPointer { context in
            guard let value = gst_structure_get_value(gst_context_get_structure(context), field),
                ek_value_holds(value, type.type) != 0, let boxed = g_value_get_boxed(value)
            else { return nil }
            return Unmanaged<Object>.fromOpaque(boxed).takeUnretainedValue()
        }
    }

    /// Stores a Swift object. Only before the context is shown to any other code.
    public func set<Object: AnyObject>(_ field: String, _ object: Object, of type: SharedObjectType<Object>) {
        var value = GValue()
        ek_value_init(&value, type.type)
        g_value_take_boxed(&value, Unmanaged.passRetained(object).toOpaque())
        withPointer { gst_structure_take_value(gst_context_writable_structure($0), field, &value) }
    }
}

/// A boxed GType for references to Swift objects of one class.
///
/// The type belongs to this copy of the library: where an application and a plug-in each have one, neither takes the
/// other's objects for its own.
public struct SharedObjectType<Object: AnyObject>: Sendable {
    let type: GType

    /// Make one for each class, once, and keep it.
    public init(_ name: String) {
        let marker = UInt(
            bitPattern: unsafeBitCast(retainBoxed as @convention(c) (gpointer?) -> gpointer?, to: Int.self))
        type = g_boxed_type_register_static("\(name)\(String(marker, radix: 16))", retainBoxed, releaseBoxed)
    }
}

private func retainBoxed(_ object: gpointer?) -> gpointer? {
    // SAFETY: the boxed types of this file hold retained Swift objects only.
    object.map { Unmanaged.passRetained(Unmanaged<AnyObject>.fromOpaque($0).takeUnretainedValue()).toOpaque() }
}

private func releaseBoxed(_ object: gpointer?) {
    if let object { Unmanaged<AnyObject>.fromOpaque(object).release() }
}

extension ElementReference {
    /// Asks the application and the bins around the element for a context; an answer comes through
    /// `Element.contextDidChange` before this returns.
    public func requestContext(type: String) {
        gst_element_post_message(pointer, gst_message_new_need_context(ek_as_object(pointer), type))
    }

    /// The context of that type that was set on the element, if any.
    public func context(type: String) -> Context? {
        guard let context = gst_element_get_context(pointer, type) else { return nil }
        let shared = Context(sharing: context)
        ek_mini_object_unref(UnsafeMutableRawPointer(context))
        return shared
    }

    /// Sets the context on this element; a bin passes it on to what is inside, now and later.
    public func set(_ context: Context) {
        context.withPointer { gst_element_set_context(pointer, $0) }
    }

    /// Sets the context on this element and sends it to the bins and the application.
    public func publish(_ context: Context) {
        context.withPointer { context in
            gst_element_set_context(pointer, context)
            // The message takes over one reference.
            gst_mini_object_ref(UnsafeMutableRawPointer(context).assumingMemoryBound(to: GstMiniObject.self))
            gst_element_post_message(pointer, gst_message_new_have_context(ek_as_object(pointer), context))
        }
    }

    /// The object that all elements of one pipeline share under `name`, made by the first that asks.
    ///
    /// It hangs on the outermost bin and lives as long, or until `isCurrent` says no and another one is made.
    /// Thread-safe: two elements that ask at once get the same.
    public func sharedInPipeline<Object: AnyObject>(
        _ name: String, while isCurrent: (Object) -> Bool = { _ in true }, make: () -> Object
    ) -> Object {
        withTopLevel { sharedObject(of: $0, name, while: isCurrent, make: make) }
    }

    /// The same for this element alone.
    public func ownObject<Object: AnyObject>(_ name: String, make: () -> Object) -> Object {
        sharedObject(
            of: UnsafeMutableRawPointer(pointer).assumingMemoryBound(to: GObject.self), name, while: { _ in true },
            make: make)
    }
}

private func sharedObject<Object: AnyObject>(
    of owner: UnsafeMutablePointer<GObject>, _ name: String, while isCurrent: (Object) -> Bool, make: () -> Object
) -> Object {
    sharedObjects.withLock { _ in
        let quark = g_quark_from_string(name)
        // SAFETY: only this function writes under the name; the value is a retained Object.
        if let known = g_object_get_qdata(owner, quark),
            let object = Unmanaged<AnyObject>.fromOpaque(known).takeUnretainedValue() as? Object, isCurrent(object)
        {
            return SharedBox(object)
        }
        let object = make()
        g_object_set_qdata_full(owner, quark, Unmanaged.passRetained(object as AnyObject).toOpaque()) {
            if let data = $0 { Unmanaged<AnyObject>.fromOpaque(data).release() }
        }
        return SharedBox(object)
    }.object
}

private let sharedObjects = Mutex(())

private struct SharedBox<Object: AnyObject>: @unchecked Sendable {
    // SAFETY: carries the reference out of the lock on the same thread.
    let object: Object
    init(_ object: Object) { self.object = object }
}
