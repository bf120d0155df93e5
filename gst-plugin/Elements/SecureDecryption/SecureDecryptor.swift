// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyGStreamer
import LatchkeyElementKit
public import LatchkeyProtection

/// Decrypts samples into memory that the CPU may not see: the way into a platform's trusted execution environment.
///
/// Register one with `Latchkey.register(_:)`. The decryptors behind a demuxer (`latchkeycencdec` and those that players
/// plug) then leave the decryption to it wherever what is behind them takes secure memory. They keep on asking for keys,
/// watching leases and reading what the container says of each sample. Called on streaming threads, several streams at
/// the same time.
public protocol SecureDecryptor: AnyObject, Sendable {
    /// For logs and error texts.
    var name: String { get }

    /// The caps feature of the memory, as `memory:SecMem`: the clear caps get it where the decoder takes it. Nil where
    /// the platform's decoders have none: then the memory that the decoder proposes tells.
    var memoryFeature: String? { get }

    /// Whether it decrypts such a stream.
    func takes(_ stream: SecureStream) -> Bool

    /// Makes what decrypts one stream, at its first caps and at each change of them.
    func makeStreamDecryptor(for stream: SecureStream) throws(SecureDecryptionError) -> any SecureStreamDecryptor
}

/// Decrypts the samples of one stream. One call at a time, on changing threads.
public protocol SecureStreamDecryptor: AnyObject {
    /// Decrypts one sample into its destination and returns when that is done. The clear bytes are nowhere else. Ends
    /// playback with what it throws.
    func decrypt(_ sample: borrowing SecureSample) throws(SecureDecryptionError)

    /// Memory of `size` bytes for a sample, with a reference for the caller, where the decoder proposed none. Nil:
    /// there is none.
    func makeMemory(size: Int) -> UnsafeMutablePointer<GstMemory>?
}

extension SecureStreamDecryptor {
    /// Memory comes from the decoder.
    public func makeMemory(size: Int) -> UnsafeMutablePointer<GstMemory>? { nil }
}

/// What a stream is, once decrypted.
public struct SecureStream: Sendable, Hashable {
    /// The media type, as `video/x-h264`.
    public let mediaType: String
    /// The whole caps, as GStreamer writes them.
    public let caps: String

    public init(mediaType: String, caps: String) {
        self.mediaType = mediaType
        self.caps = caps
    }

    init(_ caps: Caps) { self.init(mediaType: caps.mediaType() ?? "", caps: caps.description) }
}

/// One sample on its way into secure memory. Valid for the time of the call.
public struct SecureSample: ~Copyable {
    /// Scheme, IV, pattern and subsamples, checked: the subsamples cover `source` exactly. Empty subsamples: all of it
    /// is protected.
    public let plan: SamplePlan
    /// Nil where the media names none.
    public let keyID: KeyID?
    /// What the resource loader gave for the KID: the content key, or 16 bytes by which the platform knows it. Latchkey
    /// does not look at them. Nil: all of the sample is clear, and is to be copied.
    public let key: ContentKey?
    /// The encrypted bytes, in ordinary memory.
    public let source: UnsafeRawBufferPointer
    /// Where the clear bytes belong: at least as many bytes as `source` has. Not to be mapped for the CPU.
    public let destination: UnsafeMutablePointer<GstMemory>
}

/// Why secure decryption failed, in words for people. They go into the element's error; no secrets.
public struct SecureDecryptionError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The words.
    public let description: String

    public init(_ description: String) { self.description = description }
}
