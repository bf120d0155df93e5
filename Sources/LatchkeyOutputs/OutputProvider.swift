// SPDX-License-Identifier: MPL-2.0

/// Where the facts come from.
public protocol OutputProvider: AnyObject, Sendable {
    /// Reads all outputs anew. Never waits for a link; may be called on any thread, on one at a time.
    func read() -> OutputFacts
    /// A descriptor that is readable when there may be news, or nil. A hint: who watches reads now and then, too.
    var hintDescriptor: Int32? { get }
    /// Takes the hints away, so that the descriptor is not readable any more.
    func takeHints()
}

extension OutputProvider {
    public var hintDescriptor: Int32? { nil }
    public func takeHints() {}
}
