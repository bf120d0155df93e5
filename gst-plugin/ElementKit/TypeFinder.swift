// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import Synchronization

/// A function that detects the kind of a file from its first bytes.
public struct TypeFinder: Sendable {
    /// The finder's name, unique in the process.
    public var name: String
    /// Finders of a higher rank look first.
    public var rank: Rank
    /// Of file names, without the dot: such files are shown to this finder in front of those without.
    public var extensions: [String]
    /// What a file that is recognized is, in the form that gst-launch uses.
    public var caps: String
    /// Whether the file is such a one. Any thread may call it.
    public var recognizes: @Sendable (borrowing TypeFindSource) -> Bool

    /// `recognizes` is kept for ever once the finder is registered.
    public init(
        name: String, rank: Rank, extensions: [String], caps: String,
        recognizes: @escaping @Sendable (borrowing TypeFindSource) -> Bool
    ) {
        self.name = name
        self.rank = rank
        self.extensions = extensions
        self.caps = caps
        self.recognizes = recognizes
    }

    /// Registers the finder with a plug-in, or statically where `plugin` is nil. False where GStreamer refuses.
    /// Registering it again does nothing and succeeds.
    @discardableResult
    public func register(with plugin: OpaquePointer? = nil) -> Bool {
        guard let caps = Caps(caps) else { return false }
        let isNew = Self.registered.withLock { $0.insert(name).inserted }
        guard isNew || plugin != nil else { return true }
        // SAFETY: the box lives for ever, as the registration does.
        let data = Unmanaged.passRetained(TypeFinderBox(self)).toOpaque()
        return caps.withPointer { pointer in
            gst_type_find_register(
                plugin, name, rank.value, findType, extensions.joined(separator: ","), pointer, data, nil) != 0
        }
    }

    /// The media type, such as `text/plain`, that GStreamer's own finders and those of its plug-ins take a file for that
    /// starts with `bytes`; nil where none knows it. Any thread may call it.
    public static func mediaType(of bytes: [UInt8]) -> String? {
        GStreamer.initialize()
        // SAFETY: the bytes are read during the call only; the caps that come back are the caller's.
        return gst_type_find_helper_for_data(nil, bytes, gsize(bytes.count), nil).map { Caps(owning: $0) }?.mediaType()
    }

    private static let registered = Mutex(Set<String>())
}

/// The file whose type is wanted, while a finder looks at it.
public struct TypeFindSource: ~Copyable {
    // SAFETY: valid for the time of the finder's call, which is all that a borrow lasts.
    private let pointer: UnsafeMutablePointer<GstTypeFind>

    fileprivate init(_ pointer: UnsafeMutablePointer<GstTypeFind>) { self.pointer = pointer }

    /// Of the file, in bytes; nil if its end is out of reach, as that of bytes that come in order.
    public var size: UInt64? {
        let size = gst_type_find_get_length(pointer)
        return size > 0 ? UInt64(size) : nil
    }

    /// Bytes of the file; nil where not all of them are there, or not yet.
    public func bytes(at offset: UInt64, count: Int) -> [UInt8]? {
        guard let start = gint64(exactly: offset), let size = guint(exactly: count), count > 0 else { return nil }
        guard let bytes = gst_type_find_peek(pointer, start, size) else { return nil }
        // SAFETY: a peek that works gives `count` bytes.
        return Array(UnsafeBufferPointer(start: bytes, count: count))
    }

    /// The first `count` bytes of the file or, if not all of them are there, a half of them, a quarter, and so on. Nil below 64.
    package func start(_ count: Int) -> [UInt8]? {
        var count = count
        while count >= 64 {
            if let start = bytes(at: 0, count: count) { return start }
            count /= 2
        }
        return nil
    }
}

private final class TypeFinderBox: Sendable {
    let finder: TypeFinder
    init(_ finder: TypeFinder) { self.finder = finder }
}

private func findType(_ find: UnsafeMutablePointer<GstTypeFind>?, _ data: gpointer?) {
    guard let find, let data else { return }
    // SAFETY: `data` is the box that `register` passed.
    let finder = Unmanaged<TypeFinderBox>.fromOpaque(data).takeUnretainedValue().finder
    guard finder.recognizes(TypeFindSource(find)), let caps = Caps(finder.caps) else { return }
    caps.withPointer { gst_type_find_suggest(find, guint(GST_TYPE_FIND_MAXIMUM.rawValue), $0) }
}
