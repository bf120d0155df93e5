// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// What an envelope needs before it can be opened: the key, by way of the PlayReady object, and how the bytes are
/// encrypted.
public struct EnvelopeHeader: Hashable, Sendable {
    /// Names the keys, as a `pssh` box would.
    public var playReadyObject: PlayReadyObject
    /// The first counter block of AES-128-CTR, 16 bytes. The counter is the last 8 of them, big-endian.
    public var initialCounter: [UInt8]
    /// Where the ciphertext starts, in bytes from the start of the file. It goes to the end.
    public var payloadOffset: Int

    /// For parsers of other envelopes. `initialCounter` has 16 bytes; nothing is checked here.
    public init(playReadyObject: PlayReadyObject, initialCounter: [UInt8], payloadOffset: Int) {
        self.playReadyObject = playReadyObject
        self.initialCounter = initialCounter
        self.payloadOffset = payloadOffset
    }
}

/// Reads the front of a file that is encrypted as a whole.
///
/// How PlayReady's own envelope is laid out is not public. Latchkey comes with a container of its own
/// (`LatchkeyEnvelope`); whoever has the specification of another one plugs in a parser for it. Called from any thread.
public protocol EnvelopeParser: Sendable {
    /// How many bytes of a file `isEnvelope` wants to see.
    var probeSize: Int { get }

    /// Whether a file that starts with `bytes` is an envelope of this kind. With fewer than `probeSize` bytes the answer
    /// is no where it is open.
    func isEnvelope(_ bytes: [UInt8]) -> Bool

    /// Reads the header. Nil where it goes on behind `bytes`: ask again with more. Throws where it cannot be read.
    func header(of bytes: [UInt8]) throws(FormatError) -> EnvelopeHeader?
}
