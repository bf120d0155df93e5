// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import LatchkeyProtection

/// A JSON text as a value.
indirect enum SessionJSON: Decodable {
    case object([String: SessionJSON])
    case array([SessionJSON])
    case string(String)
    case number(Double)
    case other

    /// Nil where the bytes are no JSON text, or one that nests too deep.
    init?(_ bytes: [UInt8]) {
        guard JSONNesting.isBounded(bytes), let json = try? JSONDecoder().decode(Self.self, from: Data(bytes)) else {
            return nil
        }
        self = json
    }

    init(from decoder: any Decoder) throws {
        if let text = try? decoder.singleValueContainer().decode(String.self) {
            self = .string(text)
        } else if let number = try? decoder.singleValueContainer().decode(Double.self) {
            self = .number(number)
        } else if var list = try? decoder.unkeyedContainer() {
            var items: [SessionJSON] = []
            while !list.isAtEnd { items.append(try list.decode(SessionJSON.self)) }
            self = .array(items)
        } else if let object = try? decoder.container(keyedBy: Name.self) {
            var members: [String: SessionJSON] = [:]
            for name in object.allKeys { members[name.stringValue] = try object.decode(SessionJSON.self, forKey: name) }
            self = .object(members)
        } else {
            self = .other
        }
    }

    /// What the members lead to. Of a list on the way, the first item.
    func value(at path: ArraySlice<Substring>) -> SessionJSON? {
        guard let name = path.first else { return self }
        switch self {
        case .object(let members): return members[String(name)]?.value(at: path.dropFirst())
        case .array(let items): return items.first?.value(at: path)
        case .string, .number, .other: return nil
        }
    }

    /// A text, or a whole number as text.
    var text: String? {
        switch self {
        case .string(let text): text
        case .number(let number): Int64(exactly: number).map { "\($0)" }
        case .object, .array, .other: nil
        }
    }

    var number: Double? {
        switch self {
        case .number(let number): number
        case .string(let text): Double(text)
        case .object, .array, .other: nil
        }
    }

    /// RFC 8259, 7.
    static func quote(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case _ where scalar.value < 0x20:
                let digits = String(scalar.value, radix: 16)
                quoted += "\\u" + String(repeating: "0", count: 4 - digits.count) + digits
            default: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}
