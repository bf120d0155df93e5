// SPDX-License-Identifier: MPL-2.0

/// Holds secrets, and so prints only what it chooses: as text, in `dump` and in a debugger.
public protocol Redacted: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// What `dump` and a debugger show, each with its name. Nothing, unless a type says otherwise.
    var shown: KeyValuePairs<String, Any> { get }
}

extension Redacted {
    /// Empty.
    public var shown: KeyValuePairs<String, Any> { [:] }
    /// `<redacted>`, wherever the value is printed.
    public var description: String { "<redacted>" }
    /// The same as `description`.
    public var debugDescription: String { description }
    /// Has `shown` alone, and none of the stored properties.
    public var customMirror: Mirror { Mirror(self, children: shown.map { (label: $0.key, value: $0.value) }) }
}
