// SPDX-License-Identifier: MPL-2.0

public import LatchkeyKeySystems
import Synchronization

/// The envelopes that are recognized: those that an application adds, and Latchkey's own where the settings ask for it
/// (`ControlSettings.readsEnvelopes`). Without any, segments are not looked at. Thread-safe.
public struct EnvelopeParsers: Sendable {
    private static let added = Mutex<[any EnvelopeParser]>([])

    private let parsers: [any EnvelopeParser]

    /// What was added up to now. With `includesOwn`, `LatchkeyEnvelope` is asked after that.
    public init(includesOwn: Bool = false) {
        parsers = Self.added.withLock { $0 } + (includesOwn ? [LatchkeyEnvelope()] : [])
    }

    /// Adds a parser, which is asked before those that are there. Do it before media is opened; it stays until the
    /// process ends.
    public static func add(_ parser: any EnvelopeParser) { added.withLock { $0.insert(parser, at: 0) } }

    /// Whether no envelope is recognized.
    public var isEmpty: Bool { parsers.isEmpty }

    /// The parser of a file that starts with `bytes`; nil where it is in no envelope that is known.
    public func parser(of bytes: [UInt8]) -> (any EnvelopeParser)? { parsers.first { $0.isEnvelope(bytes) } }
}
