// SPDX-License-Identifier: MPL-2.0

import CLatchkeyExpat
import LatchkeyContainers

/// An element of an XML document, with all that it holds. Comments and processing instructions are left out.
///
/// XML 1.0 with namespaces (W3C). A plain value: it knows neither its parent nor the document. Names are looked up by
/// their local part where the reader is to be lenient, because services do not agree on namespaces.
public struct XMLElement: Hashable, Sendable {
    /// What stands in an element, in order.
    public enum Node: Hashable, Sendable {
        /// An element within.
        case element(XMLElement)
        /// Text with entities and CDATA undone. Neighbours are one node.
        case text(String)
    }

    /// `prefix:localName="value"`. Namespace declarations are none of these.
    public struct Attribute: Hashable, Sendable {
        /// Empty for an attribute without one.
        public var prefix: String
        /// Without the prefix.
        public var localName: String
        /// Empty for an attribute without a prefix.
        public var namespace: String
        /// With entities undone.
        public var value: String

        /// The prefix is not looked up: `namespace` says what it stands for.
        public init(_ localName: String, _ value: String, prefix: String = "", namespace: String = "") {
            self.prefix = prefix
            self.localName = localName
            self.namespace = namespace
            self.value = value
        }
    }

    /// `xmlns:prefix="uri"`, or `xmlns="uri"` where the prefix is empty.
    public struct NamespaceDeclaration: Hashable, Sendable {
        /// Empty for the default namespace.
        public var prefix: String
        /// The namespace's name. Empty takes the default namespace back.
        public var uri: String

        /// Checks nothing.
        public init(prefix: String = "", uri: String) {
            self.prefix = prefix
            self.uri = uri
        }
    }

    /// Empty for none. `canonicalText` writes it; lookups leave it alone.
    public var prefix: String
    /// Without the prefix.
    public var localName: String
    /// Empty for none.
    public var namespace: String
    /// Those that this element declares itself.
    public var declarations: [NamespaceDeclaration]
    /// In the order of the document, without namespace declarations.
    public var attributes: [Attribute]
    /// In the order of the document.
    public var nodes: [Node]

    /// `prefix` has to be declared here or above for the text to be well-formed; nothing is checked.
    public init(
        _ localName: String, prefix: String = "", namespace: String = "", declarations: [NamespaceDeclaration] = [],
        attributes: [Attribute] = [], nodes: [Node] = []
    ) {
        self.prefix = prefix
        self.localName = localName
        self.namespace = namespace
        self.declarations = declarations
        self.attributes = attributes
        self.nodes = nodes
    }

    /// The elements within, in order.
    public var children: [XMLElement] {
        nodes.compactMap { if case .element(let element) = $0 { element } else { nil } }
    }

    /// The text that stands directly in this element, in one piece.
    public var text: String {
        nodes.reduce(into: "") { if case .text(let text) = $1 { $0 += text } }
    }

    /// `text` without white space at either end.
    public var trimmedText: String { Self.trimmed(text) }

    static func trimmed(_ text: String) -> String {
        let space: Set<Unicode.Scalar> = [" ", "\t", "\n", "\r"]
        let scalars = text.unicodeScalars
        guard let start = scalars.firstIndex(where: { !space.contains($0) }),
            let end = scalars.lastIndex(where: { !space.contains($0) })
        else { return "" }
        return String(scalars[start...end])
    }

    /// The first child with this local name.
    public func child(_ localName: String) -> XMLElement? { children.first { $0.localName == localName } }

    /// The element at the end of a path of local names, each the first of its name.
    public func descendant(_ path: String...) -> XMLElement? {
        path.reduce(self as XMLElement?) { $0?.child($1) }
    }

    /// This element or the first below it, in document order, with this local name.
    public func first(_ localName: String) -> XMLElement? {
        if self.localName == localName { return self }
        for child in children {
            if let match = child.first(localName) { return match }
        }
        return nil
    }

    /// The value of the attribute with this local name that has no namespace.
    public subscript(attribute localName: String) -> String? {
        attributes.first { $0.localName == localName && $0.namespace.isEmpty }?.value
    }
}

extension XMLElement {
    /// The element in the form of "Canonical XML Version 1.0" without comments (<https://www.w3.org/TR/xml-c14n>), as
    /// the root of a document: end tags written out, namespaces before attributes, both in order, one way to escape.
    ///
    /// Namespaces that a parent declared and this element uses are not added.
    public var canonicalText: String {
        var text = ""
        write(to: &text, inScope: [:])
        return text
    }

    private func write(to text: inout String, inScope outer: [String: String]) {
        let name = prefix.isEmpty ? localName : "\(prefix):\(localName)"
        var inScope = outer
        text += "<\(name)"
        for declaration in declarations.sorted(by: { Self.isOrdered($0.prefix, $1.prefix) })
        where outer[declaration.prefix, default: ""] != declaration.uri {
            inScope[declaration.prefix] = declaration.uri
            text += declaration.prefix.isEmpty ? " xmlns=\"" : " xmlns:\(declaration.prefix)=\""
            text += "\(Self.escaped(attribute: declaration.uri))\""
        }
        let ordered = attributes.sorted { left, right in
            left.namespace == right.namespace
                ? Self.isOrdered(left.localName, right.localName) : Self.isOrdered(left.namespace, right.namespace)
        }
        for attribute in ordered {
            let name = attribute.prefix.isEmpty ? attribute.localName : "\(attribute.prefix):\(attribute.localName)"
            text += " \(name)=\"\(Self.escaped(attribute: attribute.value))\""
        }
        text += ">"
        for node in nodes {
            switch node {
            case .text(let content): text += Self.escaped(content)
            case .element(let element): element.write(to: &text, inScope: inScope)
            }
        }
        text += "</\(name)>"
    }

    /// By code point, as the specification orders names.
    private static func isOrdered(_ left: String, _ right: String) -> Bool {
        left.unicodeScalars.lexicographicallyPrecedes(right.unicodeScalars)
    }

    /// The text as it stands between tags of canonical XML: `&`, `<`, `>` and the carriage return are replaced.
    public static func escaped(_ text: String) -> String {
        escape(text) {
            switch $0 {
            case "&": "&amp;"
            case "<": "&lt;"
            case ">": "&gt;"
            case "\r": "&#xD;"
            default: nil
            }
        }
    }

    /// The value of an attribute in double quotes.
    public static func escaped(attribute text: String) -> String {
        escape(text) {
            switch $0 {
            case "&": "&amp;"
            case "<": "&lt;"
            case "\"": "&quot;"
            case "\t": "&#x9;"
            case "\n": "&#xA;"
            case "\r": "&#xD;"
            default: nil
            }
        }
    }

    private static func escape(_ text: String, _ replacement: (Unicode.Scalar) -> String?) -> String {
        var result = ""
        for scalar in text.unicodeScalars {
            if let replaced = replacement(scalar) { result += replaced } else { result.unicodeScalars.append(scalar) }
        }
        return result
    }
}

extension XMLElement {
    /// Reads a whole document in UTF-8 or UTF-16, with or without a byte order mark; what an XML declaration says of the
    /// encoding is not looked at. Zeros at the end are padding. Gives its root element.
    ///
    /// With `limits.isLenient`, a prefix that is declared nowhere stands for itself as a namespace, a document that is
    /// neither and says so is read as ISO 8859-1, and the first zero ends the document, as it does for libxml2. A document
    /// type without declarations of its own is stepped over, and so are references to entities that it might declare elsewhere.
    ///
    /// No other document type is allowed, so there are no entities but the five of XML itself, nothing is loaded from a file
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
        var root = try XMLTreeBuilder(limits: limits, readsNamespaces: true).parse(document)
        if root == nil { root = try XMLTreeBuilder(limits: limits, readsNamespaces: false).parse(document) }
        guard let root else { throw .malformed("XML: a prefix that is declared nowhere") }
        self = root
    }

    private static func tooLarge(_ size: Int, _ limits: XMLLimits) -> FormatError {
        .tooLarge("XML of \(size) bytes; \(limits.size) are read")
    }

    /// The document in UTF-8, without a byte order mark.
    private static func utf8(_ bytes: some Collection<UInt8>, _ limits: XMLLimits) throws(FormatError) -> [UInt8] {
        let all = Array(bytes)
        func document(_ bytes: [UInt8]) -> [UInt8] {
            limits.isLenient ? Array(bytes.prefix { $0 != 0 }) : bytes
        }
        if let text = UTF16Text.decode(all) { return document(Array(text.utf8)) }
        var bytes = document(all)
        if bytes.starts(with: [0xEF, 0xBB, 0xBF]) { bytes.removeFirst(3) }
        guard String(validating: bytes, as: UTF8.self) != nil else {
            try XMLTagScan.checkUnread(bytes, limits: limits)
            if limits.isLenient, saysLatin1(bytes) {
                return Array(String(String.UnicodeScalarView(bytes.map { Unicode.Scalar($0) })).utf8)
            }
            throw .malformed("XML: neither UTF-8 nor UTF-16")
        }
        return bytes
    }

    /// Whether an XML declaration in front names ISO 8859-1, or the encoding that has more characters in the place of its
    /// control characters.
    private static func saysLatin1(_ bytes: [UInt8]) -> Bool {
        guard bytes.starts(with: "<?xml".utf8) else { return false }
        let declaration = String(decoding: bytes.prefix(256).prefix { $0 != UInt8(ascii: ">") }, as: UTF8.self)
        return ["iso-8859-1", "latin1", "windows-1252"].contains { declaration.lowercased().contains($0) }
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
    /// What the prefixes that each open element declares stand for. Nil where Expat reads namespaces.
    private var scopes: [[String: String]]?

    /// Between the parts of Expat's names. XML has no such character.
    fileprivate static let separator: XML_Char = 1
    /// In bytes. Expat copies the namespace for each attribute with a prefix.
    private static let namespaceLimit = 256

    /// Expat reads namespaces, and takes no prefix that is declared nowhere. `readsNamespaces`: it does.
    init(limits: XMLLimits, readsNamespaces: Bool) throws(FormatError) {
        let made = readsNamespaces ? XML_ParserCreateNS("UTF-8", Self.separator) : XML_ParserCreate("UTF-8")
        guard let parser = made else { throw .unsupported("XML: no memory for a parser") }
        self.limits = limits
        self.parser = parser
        scopes = readsNamespaces ? nil : []
    }

    deinit { XML_ParserFree(parser) }

    /// Nil where a prefix is declared nowhere, and the limits say that such a document is to be read.
    func parse(_ document: [UInt8]) throws(FormatError) -> XMLElement? {
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
        if limits.isLenient, XML_GetErrorCode(parser) == XML_ERROR_UNBOUND_PREFIX { return nil }
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
        if limits.isLenient {
            // It comes before any declaration of the type is read. What stands elsewhere is not loaded.
            XML_SetStartDoctypeDeclHandler(parser) { pointer, _, _, _, hasDeclarations in
                if hasDeclarations != 0 { builder(pointer)?.refuseDocumentType() }
            }
            return
        }
        // It gets what the others do not, token by token: a document type before any of it is read.
        XML_SetDefaultHandler(parser) {
            let token = UnsafeRawBufferPointer(start: $1, count: Int(max($2, 0)))
            if token.starts(with: "<!DOCTYPE".utf8) { builder($0)?.refuseDocumentType() }
        }
    }

    func refuseDocumentType() { fail(.unsupported("XML with a document type")) }

    /// Comes before the `start` of the element that has the declaration.
    private func declare(prefix: UnsafePointer<XML_Char>?, uri: UnsafePointer<XML_Char>?) {
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
        // SAFETY: name and value of each attribute, and a null pointer behind the last.
        var pairs: [(key: UnsafePointer<XML_Char>, value: UnsafePointer<XML_Char>?)] = []
        var next = attributes
        while let pair = next, let key = pair[0] {
            if !declares(key, pair[1]) { pairs.append((key, pair[1])) }
            next = pair + 2
        }
        scopes?.append(Dictionary(pendingDeclarations.map { ($0.prefix, $0.uri) }) { $1 })
        let name = readName(qualified, isAttribute: false)
        var element = XMLElement(
            name.local, prefix: name.prefix, namespace: name.namespace, declarations: pendingDeclarations)
        pendingDeclarations.removeAll()
        for pair in pairs {
            let name = readName(pair.key, isAttribute: true)
            element.attributes.append(
                .init(name.local, text(pair.value), prefix: name.prefix, namespace: name.namespace))
        }
        open.append(element)
    }

    /// Where Expat reads no namespaces: whether the attribute declares one, which is noted.
    private func declares(_ key: UnsafePointer<XML_Char>, _ value: UnsafePointer<XML_Char>?) -> Bool {
        guard scopes != nil else { return false }
        let name = text(key)
        guard name == "xmlns" || name.hasPrefix("xmlns:") else { return false }
        let prefix = String(name.dropFirst("xmlns:".utf8.count))
        if let value { prefix.withCString { declare(prefix: $0, uri: value) } }
        return true
    }

    /// What a prefix stands for where Expat reads no namespaces. Nil: it is declared nowhere.
    private func namespace(of prefix: String) -> String? {
        if prefix == "xml" { return "http://www.w3.org/XML/1998/namespace" }
        guard let scopes else { return nil }
        for scope in scopes.reversed() {
            if let uri = scope[prefix] { return uri }
        }
        return nil
    }

    func end() {
        guard failure == nil, !open.isEmpty else { return }
        flushText()
        scopes?.removeLast()
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
    private func readName(
        _ name: UnsafePointer<XML_Char>, isAttribute: Bool
    ) -> (local: String, prefix: String, namespace: String) {
        if scopes != nil {
            let parts = text(name).split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
            guard parts.count == 2 else { return (text(name), "", isAttribute ? "" : namespace(of: "") ?? "") }
            let prefix = String(parts[0])
            return (String(parts[1]), prefix, namespace(of: prefix) ?? prefix)
        }
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

/// Text in UTF-16, as PlayReady objects hold it.
package enum UTF16Text {
    /// The text of `bytes`, where they look like markup in UTF-16 of either byte order: a byte order mark, or every
    /// other of the first four bytes zero. Nil for other bytes, an odd number of them, or a surrogate without its other
    /// half. The byte order mark is left out.
    package static func decode(_ bytes: [UInt8]) -> String? {
        guard bytes.count >= 4, bytes.count % 2 == 0 else { return nil }
        let isLittleEndian: Bool
        var start = 0
        switch (bytes[0], bytes[1], bytes[2], bytes[3]) {
        case (0xFF, 0xFE, _, _): (isLittleEndian, start) = (true, 2)
        case (0xFE, 0xFF, _, _): (isLittleEndian, start) = (false, 2)
        case (1..., 0, 1..., 0): isLittleEndian = true
        case (0, 1..., 0, 1...): isLittleEndian = false
        default: return nil
        }
        let units = stride(from: start, to: bytes.count, by: 2).map { position in
            let (first, second) = (UInt16(bytes[position]), UInt16(bytes[position + 1]))
            return isLittleEndian ? second << 8 | first : first << 8 | second
        }
        return String(validating: units, as: UTF16.self)
    }

    /// Little-endian, without a byte order mark.
    package static func encode(_ text: String) -> [UInt8] {
        text.utf16.flatMap { [UInt8(truncatingIfNeeded: $0), UInt8(truncatingIfNeeded: $0 >> 8)] }
    }
}
