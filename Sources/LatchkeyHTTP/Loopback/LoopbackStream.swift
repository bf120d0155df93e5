// SPDX-License-Identifier: MPL-2.0

/// A body that comes piece by piece, as fast as the client takes it.
public struct LoopbackStream: Sendable {
    /// Something of the body is missing, and cannot be had.
    public struct Broken: Error {
        /// The only one there is.
        public init() {}
    }

    /// Gives the next piece, which is not empty; nil after the last one. Throws where the body breaks off: the connection is closed then, by
    /// which the client sees that something is missing.
    public typealias Next = @Sendable () async throws(Broken) -> [UInt8]?

    /// Of all pieces together, in bytes; nil where that is not known. The body goes out in chunks then (RFC 9112, section
    /// 7.1), and to a client of HTTP/1.0 as all that comes until the connection ends.
    public var length: UInt64?
    /// Nil before `length` counts as a body that breaks off.
    public var next: Next

    /// `next` is asked for a piece when the client has taken the one before, and not again after `length` bytes, nil or an
    /// error.
    public init(length: UInt64?, next: @escaping Next) {
        self.length = length
        self.next = next
    }
}
