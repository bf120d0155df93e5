// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// A group of the configuration file and the keys that it may have.
///
/// Each part that reads settings names its groups; the reader adds them up and refuses every other group and key, so
/// that a misspelt one is not silent.
public struct ConfigurationGroup: Sendable, Hashable {
    /// The name of the group, as it stands in brackets.
    public let name: String
    /// Nil: the file chooses the names, as those of headers.
    public let keys: [String]?

    /// A nil for `keys` takes every key.
    public init(_ name: String, keys: [String]?) {
        self.name = name
        self.keys = keys
    }

    /// Throws `invalidConfiguration` with the group, the key and the known ones for the first key that is not known.
    public func check(_ names: [String]) throws(KeyError) {
        guard let keys, let unknown = names.first(where: { !keys.contains($0) }) else { return }
        throw .invalidConfiguration(
            "[\(name)] has \(Self.quoted(unknown, "unknown key")); known are \(keys.joined(separator: ", "))")
    }

    /// What looks like a misspelt name is quoted. Anything else may be a secret in a wrong place.
    private static func quoted(_ name: String, _ what: String) -> String {
        let isName = name.utf8.count <= 32 && name.utf8.allSatisfy { 0x61...0x7A ~= $0 || "-_[]".utf8.contains($0) }
        return isName ? "the \(what) “\(name)”" : "an \(what), which is not shown because it may be a secret"
    }

    /// What a setting that has a few words to choose from says; nil where it is not set. Throws `invalidConfiguration` with
    /// those words for any other.
    static func choice(
        _ name: String, _ values: [String: String], _ choices: [String: Bool]
    ) throws(KeyError) -> Bool? {
        guard let value = values[name] else { return nil }
        guard let choice = choices[value] else {
            throw .invalidConfiguration("\(name)=\(value) is none of \(choices.keys.sorted().joined(separator: ", "))")
        }
        return choice
    }

    /// The same for every group of a file, with its keys. A group that is not among `known` is refused too. Throws
    /// `invalidConfiguration`.
    public static func check(
        _ groups: [(name: String, keys: [String])], against known: [ConfigurationGroup]
    ) throws(KeyError) {
        for (name, keys) in groups {
            guard let group = known.first(where: { $0.name == name }) else {
                let names = known.map { "[\($0.name)]" }.joined(separator: ", ")
                throw .invalidConfiguration("there is \(quoted(name, "unknown group")); known are \(names)")
            }
            try group.check(keys)
        }
    }
}
