// SPDX-License-Identifier: MPL-2.0

public import LatchkeyContainers
public import LatchkeyProtection

extension LatchkeyEnvelope {
    /// The envelope of a whole segment, for a packager. The counter block starts with 8 random bytes and a counter of 0.
    ///
    /// `object` names the key. Throws `internalError` where OpenSSL refuses, and `malformedRequest` where the object
    /// cannot be written.
    public static func seal(
        _ segment: [UInt8], object: PlayReadyObject, key: ContentKey, random: RandomSource = .system
    ) throws(PlayReadyError) -> [UInt8] {
        do {
            let counter = try random.bytes(8) + [UInt8](repeating: 0, count: 8)
            let front = try serialized(playReadyObject: object, initialCounter: counter)
            return front + (try AES.counter(key: key, initial: counter, segment))
        } catch let error as FormatError {
            throw .malformedRequest(error.description)
        } catch {
            throw .internalError("no envelope can be made")
        }
    }

    /// The segment in an envelope whose header was read with `header(of:)`. Nothing says whether the key was the right
    /// one: the envelope has no code for it.
    ///
    /// Throws `malformedResponse` where the header is that of a longer file, and `internalError` where OpenSSL refuses.
    public static func open(
        _ envelope: [UInt8], header: EnvelopeHeader, key: ContentKey
    ) throws(PlayReadyError) -> [UInt8] {
        guard (0...envelope.count).contains(header.payloadOffset) else {
            throw .malformedResponse("the envelope ends within its header")
        }
        do throws(CryptoError) {
            return try AES.counter(key: key, initial: header.initialCounter, Array(envelope[header.payloadOffset...]))
        } catch {
            throw .internalError("the envelope cannot be opened")
        }
    }
}
