// SPDX-License-Identifier: MPL-2.0

import CLibXML2

extension XMLElement {
    /// Reads a whole document in UTF-8 or UTF-16, with or without a byte order mark; what an XML declaration says of the
    /// encoding is not looked at. Gives its root element.
    ///
    /// No document type is allowed, so there are no entities but the five of XML itself, nothing is loaded from a file
    /// or the network, and memory stays within a small multiple of the limits. Throws `tooLarge` for a document beyond
    /// `limits`, `unsupported` for a document type, and `malformed` for everything that is not well-formed.
    public init(reading bytes: some Collection<UInt8>, limits: XMLLimits) throws(FormatError) {
        guard bytes.count <= 2 * limits.size else { throw Self.tooLarge(bytes.count, limits) }
        let document = try Self.utf8(bytes, limits)
        guard document.count <= limits.size else { throw Self.tooLarge(document.count, limits) }
        try XMLTagScan.check(document, limits: limits)
        let builder = XMLTreeBuilder(limits: limits, try .shared())
        try builder.parse(document)
        guard let root = builder.root else { throw .malformed("XML: no element") }
        self = root
    }

    private static func tooLarge(_ size: Int, _ limits: XMLLimits) -> FormatError {
        .tooLarge("XML of \(size) bytes; \(limits.size) are read")
    }

    /// The document in UTF-8, without a byte order mark.
    private static func utf8(_ bytes: some Collection<UInt8>, _ limits: XMLLimits) throws(FormatError) -> [UInt8] {
        var bytes = Array(bytes)
        if let text = UTF16Text.decode(bytes) { return Array(text.utf8) }
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes.removeFirst(3) }
        guard String(validating: bytes, as: UTF8.self) != nil else {
            try XMLTagScan.checkUnread(bytes, limits: limits)
            throw .malformed("XML: neither UTF-8 nor UTF-16")
        }
        return bytes
    }
}

/// Takes libxml2's events and makes a tree of them. Used once, by one thread.
private final class XMLTreeBuilder {
    private(set) var root: XMLElement?
    private let limits: XMLLimits
    private let xml: UnsafePointer<latchkey_xml>
    private var open: [XMLElement] = []
    private var pendingText: [UInt8] = []
    private var elementCount = 0
    private var failure: FormatError?
    private var context: xmlParserCtxtPtr?

    init(limits: XMLLimits, _ library: XMLLibrary) {
        self.limits = limits
        xml = library.functions
    }

    func parse(_ document: [UInt8]) throws(FormatError) {
        guard let size = Int32(exactly: document.count), size > 0 else { throw .malformed("XML: no element") }
        let line: Int? = withExtendedLifetime(self) {
            document.withUnsafeBytes { bytes in
                // SAFETY: libxml2 copies the `size` bytes, or reads them until the context is freed, which is below.
                guard let context = xml.pointee.CreateMemoryParserCtxt(bytes.baseAddress, size) else { return 0 }
                defer { xml.pointee.FreeParserCtxt(context) }
                self.context = context
                defer { self.context = nil }
                // NOENT makes `&amp;` in an attribute come out as one character. It can add nothing else: a document
                // type, which is where entities are declared, ends the parsing.
                _ = xml.pointee.CtxtUseOptions(
                    context,
                    Int32(
                        XML_PARSE_NONET.rawValue | XML_PARSE_NOENT.rawValue | XML_PARSE_IGNORE_ENC.rawValue
                            | XML_PARSE_NOERROR.rawValue | XML_PARSE_NOWARNING.rawValue))
                context.pointee.sax.pointee = handler
                // SAFETY: `self` outlives the parsing; the callbacks do not keep the pointer.
                context.pointee.userData = Unmanaged.passUnretained(self).toOpaque()
                let result = xml.pointee.ParseDocument(context)
                let isRead = result == 0 && context.pointee.wellFormed == 1 && context.pointee.nsWellFormed == 1
                return isRead ? nil : context.pointee.input.map { Int($0.pointee.line) } ?? 0
            }
        }
        if let failure { throw failure }
        if let line { throw .malformed("XML: not well-formed, line \(line)") }
    }

    func start(_ element: @autoclosure () -> XMLElement) {
        guard failure == nil else { return }
        elementCount += 1
        guard open.count < limits.depth else { return fail(.tooLarge("XML nested deeper than \(limits.depth)")) }
        guard elementCount <= limits.elements else {
            return fail(.tooLarge("XML of more than \(limits.elements) elements"))
        }
        flushText()
        open.append(element())
    }

    func end() {
        guard failure == nil, !open.isEmpty else { return }
        flushText()
        let element = open.removeLast()
        if open.isEmpty { root = element } else { open[open.count - 1].nodes.append(.element(element)) }
    }

    func append(_ bytes: UnsafeBufferPointer<UInt8>) {
        guard failure == nil, !open.isEmpty else { return }
        pendingText += bytes
    }

    func fail(_ error: FormatError) {
        failure = failure ?? error
        if let context { xml.pointee.StopParser(context) }
    }

    private func flushText() {
        guard !pendingText.isEmpty, !open.isEmpty else { return }
        open[open.count - 1].nodes.append(.text(String(decoding: pendingText, as: UTF8.self)))
        pendingText.removeAll(keepingCapacity: true)
    }
}

private func builder(_ pointer: UnsafeMutableRawPointer?) -> XMLTreeBuilder? {
    // SAFETY: libxml2 hands back the builder that `parse` gave it, which is alive until the parsing is over.
    pointer.map { Unmanaged<XMLTreeBuilder>.fromOpaque($0).takeUnretainedValue() }
}

private func text(_ characters: UnsafePointer<xmlChar>?) -> String {
    // SAFETY: names and URIs of libxml2 end with a zero.
    characters.map { String(cString: $0) } ?? ""
}

/// Those events that make a tree. Everything that is not set does nothing.
private var handler: xmlSAXHandler {
    var handler = xmlSAXHandler()
    handler.initialized = XML_SAX2_MAGIC
    handler.internalSubset = { pointer, _, _, _ in
        builder(pointer)?.fail(.unsupported("XML with a document type"))
    }
    handler.startElementNs = { pointer, name, prefix, uri, namespaceCount, namespaces, attributeCount, _, attributes in
        builder(pointer)?.start(
            XMLElement(
                text(name), prefix: text(prefix), namespace: text(uri),
                declarations: declarations(namespaces, Int(namespaceCount)),
                attributes: readAttributes(attributes, Int(attributeCount))))
    }
    handler.endElementNs = { pointer, _, _, _ in builder(pointer)?.end() }
    handler.characters = { pointer, characters, count in
        // SAFETY: libxml2 gives the bytes with their number.
        builder(pointer)?.append(UnsafeBufferPointer(start: characters, count: Int(max(count, 0))))
    }
    handler.ignorableWhitespace = handler.characters
    handler.cdataBlock = handler.characters
    // Without it, libxml2 would print errors.
    handler.serror = { _, _ in }
    return handler
}

private func declarations(
    _ pointers: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?, _ count: Int
) -> [XMLElement.NamespaceDeclaration] {
    guard let pointers else { return [] }
    // SAFETY: two pointers for each, prefix and URI.
    return (0..<count).map { .init(prefix: text(pointers[2 * $0]), uri: text(pointers[2 * $0 + 1])) }
}

private func readAttributes(
    _ pointers: UnsafeMutablePointer<UnsafePointer<xmlChar>?>?, _ count: Int
) -> [XMLElement.Attribute] {
    guard let pointers else { return [] }
    return (0..<count).map { index in
        // SAFETY: five pointers for each: local name, prefix, URI, and where the value starts and ends.
        let item = pointers + 5 * index
        var value = ""
        if let start = item[3], let end = item[4] {
            value = String(decoding: UnsafeBufferPointer(start: start, count: end - start), as: UTF8.self)
        }
        return .init(text(item[0]), value, prefix: text(item[1]), namespace: text(item[2]))
    }
}
