// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// One object of a licence, or a container of objects.
///
/// ```
/// UInt16 flags, UInt16 type, UInt32 length (this header of 8 bytes included), body
/// ```
///
/// All integers are big-endian. The layout follows open implementations of the client (playready-rs, MIT) and a licence
/// that Microsoft's documentation prints.
public struct XMRObject: Hashable, Sendable {
    /// Bits that say how a reader treats the object.
    public struct Flags: OptionSet, Hashable, Sendable {
        /// 16 bits of the header, big-endian.
        public var rawValue: UInt16
        /// Takes any bits and keeps those that are not known.
        public init(rawValue: UInt16) { self.rawValue = rawValue }

        /// A reader that does not know the type has to refuse the licence.
        public static let mustUnderstand = Flags(rawValue: 1)
        /// The body is made of objects. Written for readers that want it; here the type decides (`Kind.isContainer`).
        public static let container = Flags(rawValue: 2)
    }

    /// What stands behind the header of 8 bytes.
    public enum Body: Hashable, Sendable {
        /// The bytes of an object that is no container. May hold a wrapped key.
        case data([UInt8])
        /// In the order of the container.
        case objects([XMRObject])
    }

    /// How far containers may be nested.
    static let maximumDepth = 8
    static let headerSize = 8

    /// Known or not.
    public var type: Kind
    /// As they came. Those of a new object have to be understood unless the caller says otherwise.
    public var flags: Flags
    /// Should fit `Kind.isContainer`; an object where it does not is read back as something else.
    public var body: Body

    /// An object that is no container.
    public init(_ type: Kind, _ data: [UInt8], flags: Flags = .mustUnderstand) {
        self.type = type
        self.flags = flags
        body = .data(data)
    }

    /// A container.
    public init(_ type: Kind, flags: Flags = [.mustUnderstand, .container], _ objects: [XMRObject]) {
        self.type = type
        self.flags = flags
        body = .objects(objects)
    }

    /// Empty for an object that is no container.
    public var objects: [XMRObject] { if case .objects(let objects) = body { objects } else { [] } }

    /// Empty for a container.
    public var data: [UInt8] { if case .data(let data) = body { data } else { [] } }

    /// The first object of a type directly within.
    public func first(_ type: Kind) -> XMRObject? { objects.first { $0.type == type } }

    /// In bytes, with the header.
    public var size: Int {
        switch body {
        case .data(let data): Self.headerSize + data.count
        case .objects(let objects): objects.reduce(Self.headerSize) { $0 + $1.size }
        }
    }

    /// The bytes of the object. Sizes beyond 32 bits cannot come up: no reader takes them, and no licence is that long.
    public var serialized: [UInt8] {
        var bytes = bigEndian(flags.rawValue) + bigEndian(type.rawValue) + bigEndian(UInt32(clamping: size))
        switch body {
        case .data(let data): bytes += data
        case .objects(let objects): for object in objects { bytes += object.serialized }
        }
        return bytes
    }

    init(reading reader: inout ByteReader, depth: Int = 0) throws(FormatError) {
        let place = reader.place
        guard depth < Self.maximumDepth else { throw .tooLarge("\(place): containers within containers") }
        flags = Flags(rawValue: try reader.readUInt16())
        type = Kind(rawValue: try reader.readUInt16())
        let length = try reader.readUInt32()
        guard length >= Self.headerSize else { throw .malformed("\(place): XMR object of \(length) bytes") }
        guard let bodyLength = Int(exactly: length - 8) else { throw .truncated(place) }
        var content = try reader.readStructure(bodyLength, "XMR \(type)")
        guard type.isContainer else {
            body = .data(Array(content.rest))
            return
        }
        var objects: [XMRObject] = []
        while !content.isAtEnd { objects.append(try XMRObject(reading: &content, depth: depth + 1)) }
        body = .objects(objects)
    }
}

extension XMRObject: CustomStringConvertible, CustomReflectable {
    /// Without the body, which may be a wrapped key.
    public var description: String { "\(type), \(size) bytes" }
    /// Type and size; the body may be a wrapped key.
    public var customMirror: Mirror { Mirror(self, children: ["type": type, "size": size]) }
}
