// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyGStreamer
import LatchkeyElementKit
public import LatchkeyProtection
import Synchronization

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

/// The secure decryptors of the process. Thread-safe.
public enum SecureDecryptors {
    private static let registered = Mutex<[any SecureDecryptor]>([])

    /// Adds one behind those that are there. Streams whose caps come from now on may get it; those of HLS, if the demuxer starts
    /// from now on.
    public static func register(_ decryptor: any SecureDecryptor) { registered.withLock { $0.append(decryptor) } }

    /// Gives it to no stream whose caps come from now on; those that have it keep it. False where it is not registered.
    @discardableResult
    public static func unregister(_ decryptor: any SecureDecryptor) -> Bool {
        // The caller has a reference: it does not go under the lock.
        registered.withLock { registered in
            guard let index = registered.firstIndex(where: { $0 === decryptor }) else { return false }
            registered.remove(at: index)
            return true
        }
    }

    /// Whether one is registered.
    static var areThere: Bool { registered.withLock { !$0.isEmpty } }

    /// The first that takes the stream. They are asked without the lock.
    static func first(for stream: SecureStream) -> (any SecureDecryptor)? {
        registered.withLock(\.self).first { $0.takes(stream) }
    }
}

/// What a decryptor does with the clear samples of one stream, as far as secure memory is concerned. Belongs to the
/// stream's thread.
struct SecureOutput {
    /// The caps to announce.
    let caps: Caps
    /// Nil where none takes the stream: ordinary memory, or none at all.
    let decryptor: (any SecureStreamDecryptor)?
    let name: String
    /// Why the stream cannot go on: what is behind takes no other memory.
    let refusal: DecryptorFailure?
    /// The caps name secure memory: every sample goes there.
    private let isAnnounced: Bool

    /// Looks what the other side of `pad` takes. `clear` are the caps of the media, whatever memory they name.
    init(_ clear: Caps, on pad: Pad) {
        let stream = SecureStream(clear)
        let chosen = SecureDecryptors.first(for: stream)
        let taken = pad.peerCaps()
        let foreign = Self.foreignMemory(in: taken, for: clear)
        var caps = clear
        var refusal: DecryptorFailure?
        if let chosen {
            if let feature = chosen.memoryFeature {
                let secure = clear.settingMemory(feature)
                // Inside a player nothing is linked yet when the caps come: it plugs what the caps ask for.
                let isTaken = taken.isAny ? ElementFactories.hasDecoder(for: secure) : secure.canIntersect(taken)
                if isTaken { caps = secure }
            } else if let foreign {
                caps = clear.settingMemory(foreign)
            }
        }
        if !taken.isAny, !caps.canIntersect(taken), let foreign { refusal = .secureMemory(foreign) }
        isAnnounced = chosen != nil && caps.memoryFeature() != nil
        self.caps = caps
        name = chosen?.name ?? ""
        do throws(SecureDecryptionError) {
            decryptor = try chosen?.makeStreamDecryptor(for: SecureStream(caps))
        } catch {
            decryptor = nil
            refusal = .secureDecryptor(name, error.description, nil)
        }
        self.refusal = refusal
    }

    /// The memory that the other side wants for this media, where it does not take it in ordinary memory.
    private static func foreignMemory(in taken: Caps, for clear: Caps) -> String? {
        guard !taken.isAny, !clear.canIntersect(taken) else { return nil }
        return (0..<taken.count).lazy.compactMap { taken.memoryFeature(at: $0) }
            .first { clear.settingMemory($0).canIntersect(taken) }
    }

    /// Whether samples go into secure memory.
    func isUsed(for output: OutputMemory) -> Bool {
        decryptor != nil && (isAnnounced || !output.isMappable)
    }
}
