// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials

/// A JSON text of which only objects, lists and texts count.
indirect enum LicenseJSON: Decodable {
    case object([String: LicenseJSON])
    case array([LicenseJSON])
    case string(String)
    case number(Int)
    case other

    init(from decoder: any Decoder) throws {
        if let text = try? decoder.singleValueContainer().decode(String.self) {
            self = .string(text)
        } else if let number = try? decoder.singleValueContainer().decode(Int.self) {
            self = .number(number)
        } else if var list = try? decoder.unkeyedContainer() {
            var items: [LicenseJSON] = []
            while !list.isAtEnd { items.append(try list.decode(LicenseJSON.self)) }
            self = .array(items)
        } else if let object = try? decoder.container(keyedBy: Name.self) {
            var members: [String: LicenseJSON] = [:]
            for name in object.allKeys { members[name.stringValue] = try object.decode(LicenseJSON.self, forKey: name) }
            self = .object(members)
        } else {
            self = .other
        }
    }

    /// The text that the members lead to. Of a list, the item whose `uri` is `keyURI`, else the first.
    func text(at path: ArraySlice<String>, keyURI: String?) -> String? {
        switch self {
        case .string(let text): return path.isEmpty ? text : nil
        case .object(let members):
            guard let name = path.first else { return nil }
            return members[name]?.text(at: path.dropFirst(), keyURI: keyURI)
        case .array(let items):
            let named = items.first { item in
                guard let keyURI, case .object(let members) = item, case .string(keyURI) = members["uri"] else {
                    return false
                }
                return true
            }
            return (named ?? items.first)?.text(at: path, keyURI: keyURI)
        case .number, .other: return nil
        }
    }

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}
