// SPDX-License-Identifier: MPL-2.0

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
