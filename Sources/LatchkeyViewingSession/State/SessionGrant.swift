// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection
import Glibc

/// What a server gives with a session and with each accepted heartbeat.
public struct SessionGrant: Equatable, Sendable {
    /// The token for the next request. Nil: the one that is there stays.
    public var token: SessionToken?
    /// The server's own name for the session, or its URL. Nil: the one that is there stays.
    public var reference: String?
    /// Time between heartbeats in milliseconds, where the server names it.
    public var interval: Int64?
    /// Where the answer has it, in words for errors.
    public var intervalPlace = "the answer"
    /// How many intervals the server waits, where it says so.
    public var missedBeats: Int64?

    /// What is not given stays as it is.
    public init(
        token: SessionToken? = nil, reference: String? = nil, interval: Int64? = nil, missedBeats: Int64? = nil
    ) {
        self.token = token
        self.reference = reference
        self.interval = interval
        self.missedBeats = missedBeats
    }
}

/// The secret by which a server knows a session. It prints as `<redacted>` and is wiped when the last copy goes.
///
/// What is sent is a copy that the transport owns, and that is not wiped.
public struct SessionToken: Sendable {
    private let storage: Storage

    /// Copies `text` into memory that is wiped; the caller's text is the caller's.
    public init(_ text: String) { storage = Storage(Array(text.utf8)) }

    /// The text, for a request.
    public var text: String { String(decoding: storage.bytes, as: UTF8.self) }

    private final class Storage: Sendable {
        // SAFETY: written once before it is shared, then only by `deinit`, when there is no other reference.
        nonisolated(unsafe) var bytes: [UInt8]

        init(_ bytes: [UInt8]) { self.bytes = bytes }

        deinit {
            // SAFETY: exactly the array's bytes.
            bytes.withUnsafeMutableBytes { if let address = $0.baseAddress { explicit_bzero(address, $0.count) } }
        }
    }
}

extension SessionToken: Equatable {
    /// Compares the texts. Not in constant time: both are the client's own.
    public static func == (left: Self, right: Self) -> Bool {
        left.storage === right.storage || left.storage.bytes == right.storage.bytes
    }
}

extension SessionToken: Redacted {}
