// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// The tags of an XML document, found without parsing it: where they stand and how many attributes they have. Linear.
///
/// For limits that hold before any parser reads the document, and for signatures, which cover the bytes of an element.
struct XMLTagScan: Sequence, IteratorProtocol {
    struct Tag {
        enum Kind {
            case start, end, empty
            /// A comment, a CDATA section, a processing instruction, a document type.
            case other
        }

        var kind: Kind
        var range: Range<Int>
        /// As it stands there, with its prefix.
        var name: ArraySlice<UInt8> = []
        /// Also that of namespace declarations.
        var attributeCount = 0

        var localName: ArraySlice<UInt8> {
            name.firstIndex(of: UInt8(ascii: ":")).map { name[($0 + 1)...] } ?? name
        }
    }

    private let document: [UInt8]
    private var position = 0

    init(_ document: [UInt8]) { self.document = document }

    mutating func next() -> Tag? {
        guard let start = document[position...].firstIndex(of: UInt8(ascii: "<")) else { return nil }
        let rest = document[start...]
        let tag: Tag
        if rest.starts(with: "<!--".utf8) {
            tag = Tag(kind: .other, range: start..<end(after: start + 4, "-->"))
        } else if rest.starts(with: "<![CDATA[".utf8) {
            tag = Tag(kind: .other, range: start..<end(after: start + 9, "]]>"))
        } else if rest.starts(with: "<?".utf8) {
            tag = Tag(kind: .other, range: start..<end(after: start + 2, "?>"))
        } else {
            tag = element(at: start)
        }
        position = tag.range.upperBound
        return tag
    }

    private func element(at start: Int) -> Tag {
        var (quote, attributeCount, end) = (UInt8(0), 0, document.count)
        for position in (start + 1)..<document.count {
            let byte = document[position]
            if quote != 0 {
                if byte == quote { quote = 0 }
            } else if byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "'") {
                quote = byte
            } else if byte == UInt8(ascii: "=") {
                attributeCount += 1
            } else if byte == UInt8(ascii: ">") {
                end = position + 1
                break
            }
        }
        let isEnd = start + 1 < end && document[start + 1] == UInt8(ascii: "/")
        let isEmpty = end - 2 > start && document[end - 2] == UInt8(ascii: "/")
        let isDeclaration = start + 1 < end && document[start + 1] == UInt8(ascii: "!")
        let name = document[..<end].dropFirst(isEnd ? start + 2 : start + 1).prefix {
            $0 > 0x20 && $0 != UInt8(ascii: ">") && $0 != UInt8(ascii: "/")
        }
        return Tag(
            kind: isDeclaration ? .other : isEnd ? .end : isEmpty ? .empty : .start, range: start..<end, name: name,
            attributeCount: attributeCount)
    }

    private func end(after start: Int, _ mark: String) -> Int {
        let mark = Array(mark.utf8)
        var position = Swift.min(start, document.count)
        while position + mark.count <= document.count {
            if document[position..<position + mark.count].elementsEqual(mark) { return position + mark.count }
            position += 1
        }
        return document.count
    }
}

extension XMLTagScan {
    /// Throws `tooLarge` where a tag has more attributes, or the document more of everything, than the limits allow.
    static func check(_ document: [UInt8], limits: XMLLimits) throws(FormatError) {
        var markup = 0
        for tag in XMLTagScan(document) {
            guard tag.attributeCount <= limits.attributes else {
                throw .tooLarge("XML with a tag of more than \(limits.attributes) attributes")
            }
            markup += tag.kind == .end ? 0 : 1 + tag.attributeCount
            guard markup <= limits.markup else {
                throw .tooLarge("XML of more than \(limits.markup) tags and attributes")
            }
        }
    }

    /// The same of a document whose characters cannot be read: bytes that would start a tag count.
    static func checkUnread(_ document: [UInt8], limits: XMLLimits) throws(FormatError) {
        guard document.count(where: { $0 == UInt8(ascii: "<") || $0 == UInt8(ascii: "=") }) <= limits.markup else {
            throw .tooLarge("XML of more than \(limits.markup) tags and attributes")
        }
    }
}

extension XMLElement {
    /// The exact bytes, tags included, of the one element of `document` with this local name. For signatures over the
    /// bytes on the wire.
    ///
    /// The document is not parsed: parse what comes back, alone, and believe nothing else of the document. Throws
    /// `malformed` where there is no such element, `duplicate` where there is another one, even within the first.
    public static func bytes(
        ofElement localName: String, in document: [UInt8]
    ) throws(FormatError) -> ArraySlice<UInt8> {
        var found: Range<Int>?
        var start: Int?
        var depth = 0
        for tag in XMLTagScan(document) {
            if (tag.kind == .start || tag.kind == .empty) && tag.localName.elementsEqual(localName.utf8) {
                guard start == nil, found == nil else {
                    throw .duplicate("XML: element \(localName) stands there twice")
                }
                if tag.kind == .empty { found = tag.range } else { start = tag.range.lowerBound }
            }
            guard let first = start else { continue }
            if tag.kind == .start { depth += 1 }
            if tag.kind == .end { depth -= 1 }
            if depth == 0 {
                found = first..<tag.range.upperBound
                start = nil
            }
        }
        guard let found else { throw .malformed("XML: no element \(localName)") }
        return document[found]
    }
}

/// What an XML document may ask for before it is refused.
public struct XMLLimits: Hashable, Sendable {
    /// In bytes, of the document.
    public var size: Int
    /// How far elements may be nested.
    public var depth: Int
    /// How many elements the whole document may have.
    public var elements: Int
    /// In one tag, namespace declarations included. GStreamer's demuxers compare each with each.
    public var attributes: Int
    /// Tags, comments, processing instructions and attributes of the whole document together: each costs a reader that
    /// keeps the document a hundred bytes and more, however short it is.
    public var markup: Int
    /// Whether documents are read that are not quite well-formed, as GStreamer's demuxers do: see
    /// `XMLElement.init(reading:limits:)`.
    public var isLenient: Bool

    /// Sizes in bytes, the others are counts. The defaults are enough for a header and for a license exchange.
    public init(
        size: Int, depth: Int = 32, elements: Int = 4096, attributes: Int = 64, markup: Int = 1 << 19,
        isLenient: Bool = false
    ) {
        self.size = size
        self.depth = depth
        self.elements = elements
        self.attributes = attributes
        self.markup = markup
        self.isLenient = isLenient
    }

    /// For a WRMHEADER, which a PlayReady object limits to 64 KiB of UTF-16.
    public static let header = XMLLimits(size: 64 * 1024)
    /// For a request to a license service and its answer.
    public static let exchange = XMLLimits(size: 2 * 1024 * 1024)
}
