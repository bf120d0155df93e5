// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyProtection

/// The way into secure memory: encrypted bytes are read from ordinary memory, and the platform's decryptor writes the
/// clear ones.
extension SampleDecryptor {
    /// How long to wait between two looks for a free buffer, in microseconds.
    private static let poolPollInterval: Int64 = 2000

    /// Decrypts a sample; without a key it is clear, and goes into secure memory as it is.
    func decryptSecurely(
        _ buffer: consuming Buffer, _ plan: SamplePlan, _ keyID: KeyID?, _ key: ContentKey?, _ secure: SecureOutput
    ) -> Prepared {
        let size = buffer.size
        guard size > 0 else { return .ready(buffer) }
        guard let decryptor = secure.decryptor else { return .failed(.secureMemory(nil)) }
        do throws(DecryptionError) {
            try plan.checkSubsamples(coverAll: size)
        } catch {
            return .failed(.cipher("\(error)", keyID))
        }
        let start = MonotonicTime.now
        let output: Buffer
        switch makeSecureBuffer(size, decryptor) {
        case .ready(let made): output = made
        case .failed(let failure): return .failed(failure)
        default: return .nothing
        }
        var failure: DecryptorFailure?
        let mapped: Void? = output.withPointer { pointer in
            guard let destination = ek_buffer_only_memory(pointer) else {
                failure = .secureDecryptor(secure.name, "a buffer of the decoder has several memories", keyID)
                return
            }
            guard gst_memory_get_sizes(destination, nil, nil) >= gsize(size) else {
                failure = .secureDecryptor(secure.name, "a buffer of the decoder is too small for the sample", keyID)
                return
            }
            return buffer.withBytes { source in
                do throws(SecureDecryptionError) {
                    try decryptor.decrypt(
                        SecureSample(plan: plan, keyID: keyID, key: key, source: source, destination: destination))
                } catch {
                    failure = .secureDecryptor(secure.name, error.description, keyID)
                }
            }
        }
        if let failure { return .failed(failure) }
        guard mapped != nil else { return .failed(.notMappable) }
        // A meta that is gone need not be copied.
        buffer.removeProtectionInfo()
        output.copyMetadata(from: buffer)
        output.removeProtectionInfo()
        if key != nil { countDecrypted(size, since: start) }
        return .ready(output)
    }

    /// The plan of a sample that is clear; nil for more than a sample can have.
    static func clearPlan(_ size: Int) -> SamplePlan? {
        UInt32(exactly: size).map {
            SamplePlan(
                scheme: .cenc, initializationVector: InitializationVector(high: 0, low: 0),
                subsamples: [Subsample(clear: $0, protected: 0)])
        }
    }

    /// `nothing` where a flush or a stop came while all buffers of the decoder were in use.
    private func makeSecureBuffer(_ size: Int, _ decryptor: any SecureStreamDecryptor) -> Prepared {
        while true {
            do throws(OutputMemory.Failure) {
                return .ready(try stream.output.makeSecureBuffer(size: size))
            } catch {
                guard error == .exhausted else {
                    guard let memory = decryptor.makeMemory(size: size) else { return .failed(.noSecureMemory) }
                    return .ready(Buffer(owningMemory: memory))
                }
            }
            let goesOn = monitor.withLock { !flow.isFlushing && waitForChange(microseconds: Self.poolPollInterval) }
            guard goesOn else { return .nothing }
        }
    }
}
