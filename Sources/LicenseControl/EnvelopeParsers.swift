// SPDX-License-Identifier: MPL-2.0

public import MediaFormats
import Synchronization

/// The envelopes that are recognised: Latchkey's own, and what an application adds. Thread-safe.
public enum EnvelopeParsers {
    private static let added = Mutex<[any EnvelopeParser]>([])

    /// Adds a parser, which is asked before those that are there. Do it before media is opened; it stays until the
    /// process ends.
    public static func add(_ parser: any EnvelopeParser) { added.withLock { $0.insert(parser, at: 0) } }

    /// The parser of a file that starts with `bytes`; nil where it is in no envelope that is known.
    public static func parser(of bytes: [UInt8]) -> (any EnvelopeParser)? {
        let parsers = added.withLock { $0 } + [LatchkeyEnvelope()]
        return parsers.first { $0.isEnvelope(bytes) }
    }
}
