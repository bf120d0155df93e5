// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Synchronization

/// Registers element factories.
public enum ElementType {
    /// Registers the factory with a plug-in, or statically where `plugin` is nil. False where GStreamer refuses.
    ///
    /// Registering the same factory again does nothing and succeeds. Thread-safe.
    @discardableResult
    public static func register(
        _ description: ElementDescription, with plugin: OpaquePointer? = nil
    ) -> Bool {
        if plugin == nil { GStreamer.initializeWholly() } else { GStreamer.initialize() }
        let name = description.factory.prefix(1).uppercased() + description.factory.dropFirst()
        let type = registered.withLock { registered -> GType in
            if let known = registered.types[name] { return known }
            let type = makeType(name, description)
            if type != 0 {
                registered.types[name] = type
                registered.classData[type] = description
            }
            return type
        }
        guard type != 0 else { return false }
        // Two threads that register a type at once leave its class with a factory that is freed.
        return turn.withLock { _ in
            gst_element_register(plugin, description.factory, description.rank.value, type) != 0
        }
    }

    static func isRegistered(_ type: GType) -> Bool { description(of: type) != nil }

    static func description(of type: GType) -> ElementDescription? {
        registered.withLock { $0.classData[type] }
    }

    private struct Registered {
        var types: [String: GType] = [:]
        var classData: [GType: ElementDescription] = [:]
    }

    private static let registered = Mutex(Registered())
    private static let turn = Mutex(())

    private static func makeType(_ name: String, _ description: ElementDescription) -> GType {
        let isBin = description.implementation is Bin.Type
        let parent = isBin ? ek_type_bin() : ek_type_element()
        let size = isBin ? MemoryLayout<ElementKitBinInstance>.size : MemoryLayout<ElementKitInstance>.size
        var query = GTypeQuery()
        g_type_query(parent, &query)
        // SAFETY: the box lives for ever, as the GType does.
        let data = Unmanaged.passRetained(DescriptionBox(description)).toOpaque()
        var information = GTypeInfo(
            class_size: guint16(query.class_size), base_init: nil, base_finalize: nil, class_init: initializeClass,
            class_finalize: nil, class_data: data, instance_size: guint16(size),
            n_preallocs: 0, instance_init: initializeInstance, value_table: nil)
        return g_type_register_static(parent, name, &information, GTypeFlags(rawValue: 0))
    }
}

private final class DescriptionBox: Sendable {
    let description: ElementDescription
    init(_ description: ElementDescription) { self.description = description }
}

private func initializeClass(_ classPointer: gpointer?, _ data: gpointer?) {
    guard let classPointer, let data else { return }
    // SAFETY: `data` is the box that makeType passed; the class struct is a GstElementClass.
    let description = Unmanaged<DescriptionBox>.fromOpaque(data).takeUnretainedValue().description
    guard let objectClass = ek_gobject_class(classPointer), let elementClass = ek_element_class(classPointer) else {
        return
    }
    objectClass.pointee.get_property = getProperty
    objectClass.pointee.set_property = setProperty
    objectClass.pointee.finalize = finalizeInstance
    for (index, property) in description.properties.enumerated() {
        g_object_class_install_property(objectClass, guint(index + 1), property.makeSpecification())
    }
    for signal in description.signals { installSignal(signal, on: classPointer, of: description) }
    gst_element_class_set_static_metadata(
        elementClass, StaticText.keep(description.longName), StaticText.keep(description.classification),
        StaticText.keep(description.summary), StaticText.keep(description.author))
    for template in description.padTemplates {
        (Caps(template.caps) ?? Caps.any).withPointer { caps in
            gst_element_class_add_pad_template(
                elementClass,
                gst_pad_template_new(
                    template.name, template.direction == .sink ? GST_PAD_SINK : GST_PAD_SRC,
                    template.isAlways ? GST_PAD_ALWAYS : GST_PAD_SOMETIMES, caps))
        }
    }
    elementClass.pointee.change_state = changeState
    elementClass.pointee.set_context = setContext
    if description.implementation is Bin.Type { Bin.initializeClass(classPointer) }
}

private func initializeInstance(_ instance: UnsafeMutablePointer<GTypeInstance>?, _ classPointer: gpointer?) {
    guard let instance, let classPointer else { return }
    // The class tells the type that is being made; the instance may still carry a parent's.
    let type = classPointer.assumingMemoryBound(to: GTypeClass.self).pointee.g_type
    guard let description = ElementType.description(of: type) else { return }
    let pointer = UnsafeMutableRawPointer(instance)
    let reference = ElementReference(pointer.assumingMemoryBound(to: GstElement.self))
    let element = description.implementation.init(reference, description)
    ek_swift_object(pointer).pointee = Unmanaged.passRetained(element).toOpaque()
}

/// The class of GStreamer's own type that the element derives from.
func parentClass(of object: UnsafeMutableRawPointer) -> gpointer? {
    g_type_class_peek(ek_is_bin(object) != 0 ? ek_type_bin() : ek_type_element())
}

private func finalizeInstance(_ object: UnsafeMutablePointer<GObject>?) {
    guard let object else { return }
    let pointer = UnsafeMutableRawPointer(object)
    let swiftObject = ek_swift_object(pointer).pointee
    if let parent = parentClass(of: pointer), let parentClass = ek_gobject_class(parent) {
        // GObject frees the instance here; the Swift object goes after it, so that its pads outlive the element's use.
        parentClass.pointee.finalize?(object)
    }
    if let swiftObject { Unmanaged<Element>.fromOpaque(swiftObject).release() }
}

private func getProperty(
    _ object: UnsafeMutablePointer<GObject>?, _ id: guint, _ value: UnsafeMutablePointer<GValue>?,
    _ specification: UnsafeMutablePointer<GParamSpec>?
) {
    guard let object, let value else { return }
    let element = Element.of(UnsafeMutableRawPointer(object))
    guard id >= 1, Int(id) <= element.description.properties.count else { return }
    element.description.properties[Int(id) - 1].get?(element).store(in: value)
}

private func setProperty(
    _ object: UnsafeMutablePointer<GObject>?, _ id: guint, _ value: UnsafePointer<GValue>?,
    _ specification: UnsafeMutablePointer<GParamSpec>?
) {
    guard let object, let value else { return }
    let element = Element.of(UnsafeMutableRawPointer(object))
    guard id >= 1, Int(id) <= element.description.properties.count else { return }
    element.description.properties[Int(id) - 1].set?(element, FieldValue(reading: value))
}

private func changeState(
    _ pointer: UnsafeMutablePointer<GstElement>?, _ change: GstStateChange
) -> GstStateChangeReturn {
    guard let pointer else { return GST_STATE_CHANGE_FAILURE }
    let element = Element.of(UnsafeMutableRawPointer(pointer))
    return element.changeState(StateChange(change)) {
        guard let parent = parentClass(of: UnsafeMutableRawPointer(pointer)),
            let parentClass = ek_element_class(parent),
            let parentChange = parentClass.pointee.change_state
        else { return .failure }
        return StateChangeResult(parentChange(pointer, change))
    }.value
}

private func setContext(_ pointer: UnsafeMutablePointer<GstElement>?, _ context: OpaquePointer?) {
    guard let pointer else { return }
    if let context {
        Element.of(UnsafeMutableRawPointer(pointer)).contextDidChange(Context(sharing: context))
    }
    if let parent = parentClass(of: UnsafeMutableRawPointer(pointer)), let parentClass = ek_element_class(parent) {
        parentClass.pointee.set_context?(pointer, context)
    }
}

private final class SignalBox: Sendable {
    let signal: ActionSignal
    init(_ signal: ActionSignal) { self.signal = signal }
}

private func installSignal(_ signal: ActionSignal, on classPointer: gpointer, of description: ElementDescription) {
    let type = classPointer.assumingMemoryBound(to: GTypeClass.self).pointee.g_type
    // SAFETY: the box lives for ever, as the class does; the marshaller finds it in the closure's data.
    let box = Unmanaged.passRetained(SignalBox(signal)).toOpaque()
    guard let closure = g_closure_new_simple(guint(MemoryLayout<GClosure>.size), box) else { return }
    g_closure_set_marshal(closure, runSignal)
    var types = signal.arguments.map(\.type)
    _ = types.withUnsafeMutableBufferPointer { types in
        g_signal_newv(
            signal.name, type, ek_signal_run_last_action(), closure, nil, nil,
            nil, ek_type_boolean(), guint(types.count), types.baseAddress)
    }
}

private func runSignal(
    _ closure: UnsafeMutablePointer<GClosure>?, _ result: UnsafeMutablePointer<GValue>?, _ count: guint,
    _ values: UnsafePointer<GValue>?, _ hint: gpointer?, _ data: gpointer?
) {
    guard let closure, let box = closure.pointee.data, let values, count >= 1,
        let object = g_value_get_object(values)
    else { return }
    let signal = Unmanaged<SignalBox>.fromOpaque(box).takeUnretainedValue().signal
    // SAFETY: GObject passes `count` values, the instance first.
    var arguments = (1..<Int(max(count, 1))).map { FieldValue(reading: values + $0) }
    let answer = signal.handler(Element.of(UnsafeMutableRawPointer(object)), &arguments)
    if let result { g_value_set_boolean(result, answer ? 1 : 0) }
}
