// SPDX-License-Identifier: MPL-2.0

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
    public var trimmedText: String {
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
