// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import CLatchkeyExpat

extension XMLElement {
    /// Reads a whole document in UTF-8 or UTF-16, with or without a byte order mark; what an XML declaration says of the
    /// encoding is not looked at. Zeros at the end are padding. Gives its root element.
    ///
    /// No document type is allowed, so there are no entities but the five of XML itself, nothing is loaded from a file
    /// or the network, and memory stays within a small multiple of the limits. Throws `tooLarge` for a document beyond
    /// `limits`, `unsupported` for a document type, and `malformed` for everything that is not well-formed.
    public init(reading bytes: some Collection<UInt8>, limits: XMLLimits) throws(FormatError) {
        guard bytes.count <= 2 * limits.size else { throw Self.tooLarge(bytes.count, limits) }
        var document = try Self.utf8(bytes, limits)
        guard document.count <= limits.size else { throw Self.tooLarge(document.count, limits) }
        while document.last == 0 { document.removeLast() }
        try XMLTagScan.check(document, limits: limits)
        // Expat takes such a document for UTF-16, whatever encoding it is told.
        guard !document.prefix(2).contains(0) else { throw .malformed("XML: neither UTF-8 nor UTF-16") }
        self = try XMLTreeBuilder(limits: limits).parse(document)
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

/// Takes Expat's events and makes a tree of them. Used once, by one thread.
private final class XMLTreeBuilder {
    private let limits: XMLLimits
    private let parser: XML_Parser
    private var root: XMLElement?
    private var open: [XMLElement] = []
    private var pendingText: [UInt8] = []
    private var pendingDeclarations: [XMLElement.NamespaceDeclaration] = []
    /// One string for each name, however many elements have it.
    private var namespaces: [[UInt8]: String] = [:]
    private var elementCount = 0
    private var failure: FormatError?

    /// Between the parts of Expat's names. XML has no such character.
    fileprivate static let separator: XML_Char = 1
    /// In bytes. Expat copies the namespace for each attribute with a prefix.
    private static let namespaceLimit = 256

    init(limits: XMLLimits) throws(FormatError) {
        guard let parser = XML_ParserCreateNS("UTF-8", Self.separator) else {
            throw .unsupported("XML: no memory for a parser")
        }
        self.limits = limits
        self.parser = parser
    }

    deinit { XML_ParserFree(parser) }

    func parse(_ document: [UInt8]) throws(FormatError) -> XMLElement {
        guard let size = Int32(exactly: document.count) else { throw .tooLarge("XML of \(document.count) bytes") }
        XML_SetReturnNSTriplet(parser, 1)
        setHandlers()
        let status = withExtendedLifetime(self) {
            // SAFETY: `self` outlives the parsing, and no handler runs after it.
            XML_SetUserData(parser, Unmanaged.passUnretained(self).toOpaque())
            return document.withUnsafeBytes { bytes in
                // SAFETY: Expat reads the `size` bytes during the call only.
                XML_Parse(parser, bytes.baseAddress?.assumingMemoryBound(to: CChar.self), size, 1)
            }
        }
        if let failure { throw failure }
        guard status == XML_STATUS_OK, let root else { throw notWellFormed }
        return root
    }

    private var notWellFormed: FormatError {
        let code = XML_GetErrorCode(parser)
        let reason =
            switch code {
            case XML_ERROR_NO_ELEMENTS: open.isEmpty ? "no element" : "the document ends inside an element"
            case XML_ERROR_INVALID_TOKEN: "invalid token"
            // SAFETY: Expat's texts end with a zero and are constants.
            default: XML_ErrorString(code).map { String(cString: $0) } ?? "error \(code.rawValue)"
            }
        let (line, column) = (XML_GetCurrentLineNumber(parser), XML_GetCurrentColumnNumber(parser) + 1)
        return .malformed("XML: not well-formed, line \(line), column \(column): \(reason)")
    }

    /// Everything that has no handler is left out.
    private func setHandlers() {
        XML_SetElementHandler(
            parser, { builder($0)?.start($1, $2) }, { pointer, _ in builder(pointer)?.end() })
        XML_SetStartNamespaceDeclHandler(parser) { builder($0)?.declare(prefix: $1, uri: $2) }
        // SAFETY: Expat gives the bytes with their number, here and below.
        XML_SetCharacterDataHandler(parser) {
            builder($0)?.append(UnsafeRawBufferPointer(start: $1, count: Int(max($2, 0))))
        }
        // It gets what the others do not, token by token: a document type before any of it is read.
        XML_SetDefaultHandler(parser) {
            let token = UnsafeRawBufferPointer(start: $1, count: Int(max($2, 0)))
            if token.starts(with: "<!DOCTYPE".utf8) { builder($0)?.fail(.unsupported("XML with a document type")) }
        }
    }

    /// Comes before the `start` of the element that has the declaration.
    func declare(prefix: UnsafePointer<XML_Char>?, uri: UnsafePointer<XML_Char>?) {
        guard failure == nil else { return }
        let (prefix, uri) = (text(prefix), text(uri))
        guard uri.utf8.count <= Self.namespaceLimit else {
            return fail(.tooLarge("XML with a namespace of more than \(Self.namespaceLimit) bytes"))
        }
        // That of `xml` is always there: a declaration says nothing new.
        if prefix != "xml" { pendingDeclarations.append(.init(prefix: prefix, uri: shared(Array(uri.utf8)))) }
    }

    func start(
        _ qualified: UnsafePointer<XML_Char>?, _ attributes: UnsafeMutablePointer<UnsafePointer<XML_Char>?>?
    ) {
        guard failure == nil, let qualified else { return }
        elementCount += 1
        guard open.count < limits.depth else { return fail(.tooLarge("XML nested deeper than \(limits.depth)")) }
        guard elementCount <= limits.elements else {
            return fail(.tooLarge("XML of more than \(limits.elements) elements"))
        }
        flushText()
        let name = readName(qualified)
        var element = XMLElement(
            name.local, prefix: name.prefix, namespace: name.namespace, declarations: pendingDeclarations)
        pendingDeclarations.removeAll()
        // SAFETY: name and value of each attribute, and a null pointer behind the last.
        var next = attributes
        while let pair = next, let key = pair[0] {
            let name = readName(key)
            element.attributes.append(
                .init(name.local, text(pair[1]), prefix: name.prefix, namespace: name.namespace))
            next = pair + 2
        }
        open.append(element)
    }

    func end() {
        guard failure == nil, !open.isEmpty else { return }
        flushText()
        let element = open.removeLast()
        if open.isEmpty { root = element } else { open[open.count - 1].nodes.append(.element(element)) }
    }

    func append(_ bytes: UnsafeRawBufferPointer) {
        guard failure == nil, !open.isEmpty else { return }
        pendingText += bytes
    }

    func fail(_ error: FormatError) {
        failure = failure ?? error
        _ = XML_StopParser(parser, 0)
    }

    private func flushText() {
        guard !pendingText.isEmpty, !open.isEmpty else { return }
        open[open.count - 1].nodes.append(.text(String(decoding: pendingText, as: UTF8.self)))
        pendingText.removeAll(keepingCapacity: true)
    }

    /// Expat gives namespace, local name and prefix, as far as there are any: the local name alone, the first two or all.
    private func readName(_ name: UnsafePointer<XML_Char>) -> (local: String, prefix: String, namespace: String) {
        // SAFETY: the whole name ends with a zero, and each part of it with the separator or that zero.
        let first = part(name)
        guard name[first.count] != 0 else { return (String(decoding: first, as: UTF8.self), "", "") }
        let local = part(name + first.count + 1)
        let end = name + first.count + 1 + local.count
        return (
            String(decoding: local, as: UTF8.self), end.pointee == 0 ? "" : text(end + 1), shared(Array(first))
        )
    }

    private func shared(_ namespace: [UInt8]) -> String {
        if let known = namespaces[namespace] { return known }
        let text = String(decoding: namespace, as: UTF8.self)
        namespaces[namespace] = text
        return text
    }
}

/// Up to the separator or the end.
private func part(_ start: UnsafePointer<XML_Char>) -> UnsafeRawBufferPointer {
    var count = 0
    // SAFETY: a name ends with a zero.
    while start[count] != 0, start[count] != XMLTreeBuilder.separator { count += 1 }
    return UnsafeRawBufferPointer(start: start, count: count)
}

private func builder(_ pointer: UnsafeMutableRawPointer?) -> XMLTreeBuilder? {
    // SAFETY: Expat hands back the builder that `parse` gave it, which is alive until the parsing is over.
    pointer.map { Unmanaged<XMLTreeBuilder>.fromOpaque($0).takeUnretainedValue() }
}

private func text(_ characters: UnsafePointer<XML_Char>?) -> String {
    // SAFETY: names, values and URIs of Expat end with a zero.
    characters.map { String(cString: $0) } ?? ""
}
