// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer

/// Everything that GStreamer's registry knows of one element factory.
public struct ElementDescription: Sendable {
    /// The factory name, as in gst-launch. At least three characters; also makes up the GType's name.
    public var factory: String
    /// In words, for gst-inspect.
    public var longName: String
    /// The klass, such as `Filter/Video` or `Decryptor`.
    public var classification: String
    /// What the element does, in a sentence.
    public var summary: String
    /// Who wrote it, with an address where that is wanted.
    public var author: String
    /// Whether players plug it by themselves, and in which order.
    public var rank: Rank
    /// The pads that every element has, and those that may come.
    public var padTemplates: [PadTemplate]
    /// In the order of gst-inspect.
    public var properties: [Property]
    /// What applications can ask an element to do.
    public var signals: [ActionSignal]
    /// The Swift class of the element.
    public var implementation: Element.Type

    /// A description; nothing is registered yet. Texts are copied and kept when it is.
    public init(
        factory: String, longName: String, classification: String, summary: String, author: String,
        rank: Rank = .none, padTemplates: [PadTemplate], properties: [Property] = [], signals: [ActionSignal] = [],
        implementation: Element.Type
    ) {
        self.factory = factory
        self.longName = longName
        self.classification = classification
        self.summary = summary
        self.author = author
        self.rank = rank
        self.padTemplates = padTemplates
        self.properties = properties
        self.signals = signals
        self.implementation = implementation
    }
}

/// What autoplugging tries first: the highest.
public struct Rank: Hashable, Sendable {
    /// GStreamer's number, `GST_RANK_…`.
    public let value: UInt32

    /// A rank between the named ones.
    public init(_ value: UInt32) { self.value = value }
    /// Never plugged by players.
    public static let none = Rank(0)
    /// Tried when nothing else fits.
    public static let marginal = Rank(64)
    /// Tried behind the primary ones.
    public static let secondary = Rank(128)
    /// Tried first.
    public static let primary = Rank(256)
}

/// A pad that every element of a factory has, or may get.
public struct PadTemplate: Sendable {
    /// Where media goes: into the element, or out of it.
    public enum Direction: Sendable { case sink, source }

    /// For pads that come later, a pattern such as `video_%02u`.
    public var name: String
    /// Into the element, or out of it.
    public var direction: Direction
    /// Every element has the pad from the start.
    public var isAlways = true
    /// In the form that gst-launch uses; `ANY` for everything. Stored as it is, structure by structure.
    public var caps: String

    /// A sink pad that is always there; `caps` in GStreamer's syntax.
    public static func sink(_ caps: String) -> PadTemplate {
        PadTemplate(name: "sink", direction: .sink, caps: caps)
    }

    /// A source pad that is always there.
    public static func source(_ caps: String) -> PadTemplate {
        PadTemplate(name: "src", direction: .source, caps: caps)
    }

    /// Source pads that come while the element runs.
    public static func sometimesSource(_ name: String, _ caps: String) -> PadTemplate {
        PadTemplate(name: name, direction: .source, isAlways: false, caps: caps)
    }
}

/// A property of an element.
public struct Property: Sendable {
    /// The type of a property, with its default and its range.
    public enum Kind: Sendable {
        /// `gboolean`.
        case boolean(default: Bool)
        /// `guint`, 32 bits. GObject refuses a value outside of the range.
        case uint(default: UInt32, range: ClosedRange<UInt32>)
        /// `guint64`.
        case uint64(default: UInt64, range: ClosedRange<UInt64>)
        /// UTF-8, or NULL for nil.
        case string(default: String?)
        /// A GstStructure; for reading.
        case structure
    }

    /// When a property may be set.
    public enum Mutability: Sendable {
        /// In NULL and READY.
        case ready
        /// Always.
        case playing
    }
    /// In kebab case, as in gst-launch.
    public var name: String
    /// A short title.
    public var nick: String
    /// What it does, with units, for gst-inspect.
    public var blurb: String
    /// Its type, default and range.
    public var kind: Kind
    /// In which states it may be set.
    public var mutability: Mutability
    /// Nil for a property that cannot be read. Any thread may call it.
    public var get: (@Sendable (Element) -> FieldValue)?
    /// Nil for a property that cannot be set. Any thread may call it.
    public var set: (@Sendable (Element, FieldValue) -> Void)?

    /// Without `get` the property is write-only, without `set` read-only. The closures are kept for ever.
    public init(
        _ name: String, nick: String, blurb: String, kind: Kind, mutability: Mutability = .ready,
        get: (@Sendable (Element) -> FieldValue)? = nil, set: (@Sendable (Element, FieldValue) -> Void)? = nil
    ) {
        self.name = name
        self.nick = nick
        self.blurb = blurb
        self.kind = kind
        self.mutability = mutability
        self.get = get
        self.set = set
    }

    func makeSpecification() -> UnsafeMutablePointer<GParamSpec>? {
        var flags: Int32 = 0
        if get != nil { flags |= ek_param_readable() }
        if set != nil {
            flags |= ek_param_writable()
            flags |= mutability == .ready ? ek_param_mutable_ready() : ek_param_mutable_playing()
        }
        let parameterFlags = GParamFlags(rawValue: flags)
        let (name, nick, blurb) = (StaticText.keep(name), StaticText.keep(nick), StaticText.keep(blurb))
        return switch kind {
        case .boolean(let initial): g_param_spec_boolean(name, nick, blurb, initial ? 1 : 0, parameterFlags)
        case .uint(let initial, let range):
            g_param_spec_uint(name, nick, blurb, range.lowerBound, range.upperBound, initial, parameterFlags)
        case .uint64(let initial, let range):
            g_param_spec_uint64(
                name, nick, blurb, guint64(range.lowerBound), guint64(range.upperBound), guint64(initial),
                parameterFlags)
        case .string(let initial):
            g_param_spec_string(name, nick, blurb, initial.flatMap { StaticText.keep($0) }, parameterFlags)
        case .structure: g_param_spec_boxed(name, nick, blurb, ek_type_structure(), parameterFlags)
        }
    }
}

/// A signal that an application emits to make the element do something.
public struct ActionSignal: Sendable {
    /// The types that a signal can carry.
    public enum ArgumentType: Sendable {
        /// Those of `FieldValue` with the same name; `bytes` is `GBytes`.
        case boolean, uint, uint64, string, bytes

        var type: GType {
            switch self {
            case .boolean: ek_type_boolean()
            case .uint: ek_type_uint()
            case .uint64: ek_type_uint64()
            case .string: ek_type_string()
            case .bytes: ek_type_bytes()
            }
        }
    }
    /// In kebab case, for `g_signal_emit_by_name`.
    public var name: String
    /// The types of the arguments, in order.
    public var arguments: [ArgumentType]
    /// Returns a boolean to the application. Any thread may call it. The arguments are the handler's to take: what it
    /// takes out of them has no other copy of ours.
    public var handler: @Sendable (Element, inout [FieldValue]) -> Bool

    /// A signal; `handler` runs on the thread that emits it.
    public init(
        _ name: String, arguments: [ArgumentType], handler: @escaping @Sendable (Element, inout [FieldValue]) -> Bool
    ) {
        self.name = name
        self.arguments = arguments
        self.handler = handler
    }
}
