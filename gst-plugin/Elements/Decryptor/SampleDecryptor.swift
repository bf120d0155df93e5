// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyContainers
import LatchkeyElementKit
import LatchkeyProtection

/// The decryptor of samples that a demuxer has taken out of their container, behind four factories.
final class SampleDecryptor: Decryptor, @unchecked Sendable {
    // SAFETY: what is added here belongs to the stream's thread, as `stream` does.
    @exclusivity(unchecked) private(set) var format: EncryptedFormat?
    @exclusivity(unchecked) private var protection = SampleProtection()
    @exclusivity(unchecked) private var hasCaps = false
    @exclusivity(unchecked) private var hasWarned = false
    /// Nil where samples stay in ordinary memory, whatever lies behind.
    @exclusivity(unchecked) private var secure: SecureOutput?
    /// Why nothing may go on since the last caps.
    @exclusivity(unchecked) private var refusal: DecryptorFailure?
    /// The caps whose allocation is to be asked for again, at the next sample.
    @exclusivity(unchecked) private var unansweredCaps: Caps?

    /// More samples than a clear lead has: a minute of video, half a minute of sound.
    private static let longestClearLead = 1500

    override func resetStream() {
        super.resetStream()
        format = nil
        hasCaps = false
        hasWarned = false
        secure = nil
        refusal = nil
        unansweredCaps = nil
        protection = SampleProtection()
    }

    /// Takes new caps into use; nil where they name no media type inside.
    override func adopt(_ caps: Caps) -> Caps? {
        let clear = EncryptedFormat.clearCaps(of: caps)
        guard !clear.isEmpty else { return nil }
        format = EncryptedFormat(caps)
        hasCaps = true
        if let system = format?.system { stream.keys?.sources.setCapsSystem(system) }
        let secure = SecureOutput(clear, on: sourcePad)
        // Before the caps go on: while players put themselves together, what asks behind caps waits for the other tracks.
        if secure.decryptor != nil { sourcePad.takeReconfigure() }
        let isAnswered = stream.output.negotiate(secure.caps, on: sourcePad)
        refusal = secure.refusal
        self.secure = secure.decryptor == nil ? nil : secure
        unansweredCaps = isAnswered ? nil : secure.caps
        if let refusal {
            _ = report(refusal)
            return nil
        }
        return secure.caps
    }

    /// What lies behind may answer only once it has the caps, or be another decoder than before. Asked only where there
    /// is a secure decryptor: the answer may have to wait for what is queued behind.
    private func askAgainWhereNeeded(_ secure: SecureOutput) {
        if let caps = unansweredCaps.take() {
            sourcePad.takeReconfigure()
            stream.output.negotiate(caps, on: sourcePad)
        } else if sourcePad.needsReconfigure, sourcePad.takeReconfigure() {
            stream.output.negotiate(secure.caps, on: sourcePad)
        }
    }

    /// Decrypts the sample where it is encrypted and the key is there.
    override func prepare(_ buffer: consuming Buffer) -> Prepared {
        if let refusal { return .failed(refusal) }
        guard hasCaps else { return .failed(.notMedia) }
        var secureOutput: SecureOutput?
        if let secure {
            askAgainWhereNeeded(secure)
            if secure.isUsed(for: stream.output) { secureOutput = secure }
        }
        guard let format else { return passClear(buffer, secureOutput) }
        let keyID: KeyID?
        switch protection.read(buffer, format: format) {
        case .clear:
            count { $0.samplesClear &+= 1 }
            if protection.unexplainedCount > Self.longestClearLead { warnOfUnexplainedSamples() }
            return passClear(cleared(buffer), secureOutput)
        case .malformed(let reason):
            return .failed(.malformedSample(reason, nil))
        case .encrypted(let identifier):
            keyID = identifier
        }
        switch stream.keys?.cipher(for: keyID, of: format.media) ?? .missing {
        case .usable(let cipher):
            guard let secureOutput else { return decrypt(buffer, with: cipher, keyID) }
            return decryptSecurely(buffer, protection.plan, keyID, stream.keys?.key, secureOutput)
        case .failed(let failure):
            return .failed(failure)
        case .missing:
            demandKey(keyID, for: format.media)
            return .missingKey(buffer, keyID)
        }
    }

    override func complete(before event: borrowing Event) -> Prepared {
        if event.kind == .endOfStream, protection.unexplainedCount > 0 { warnOfUnexplainedSamples() }
        return .nothing
    }

    /// The caps say that the stream is encrypted, and no sample says how.
    private func warnOfUnexplainedSamples() {
        guard !protection.hasExplained, !hasWarned else { return }
        hasWarned = true
        reference.postWarning(
            GST_STREAM_ERROR_DECRYPT,
            "No sample of the encrypted stream says how it is encrypted. They go on as they are.",
            debug:
                "Either all are clear, or the demuxer has lost it, as GStreamer's qtdemux does with MP4 files that are "
                + "not fragmented. For those, put latchkeyisodec in front of the demuxer, or use playbin3, which does.")
    }

    private func passClear(_ buffer: consuming Buffer, _ secure: SecureOutput?) -> Prepared {
        guard let secure, let plan = Self.clearPlan(buffer.size) else { return .ready(buffer) }
        return decryptSecurely(buffer.writable(), plan, nil, nil, secure)
    }

    private func cleared(_ buffer: consuming Buffer) -> Buffer {
        guard buffer.withProtectionInfo({ _ in true }) == true else { return buffer }
        let writable = buffer.writable()
        writable.removeProtectionInfo()
        return writable
    }

    private func decrypt(_ buffer: consuming Buffer, with cipher: SampleCipher, _ keyID: KeyID?) -> Prepared {
        // Where downstream wants secure memory, no clear sample may lie in ordinary memory, the sample's own included.
        guard stream.output.isMappable else { return .failed(.secureMemory(nil)) }
        return switch decryptInPlace(buffer, cipher, keyID) {
        case .done: .ready(buffer)
        case .failed(let failure): .failed(failure)
        case .notWritable: intoNewMemory(buffer, cipher, keyID)
        }
    }

    private enum Attempt {
        case done
        case failed(DecryptorFailure)
        /// Others hold the buffer or its memory, or read it at this moment.
        case notWritable
    }

    private func decryptInPlace(_ buffer: borrowing Buffer, _ cipher: SampleCipher, _ keyID: KeyID?) -> Attempt {
        let start = MonotonicTime.now
        var failure: DecryptorFailure?
        var isWrong = false
        let mapped: Void? = buffer.withMutableBytes { bytes in
            do {
                let isSilent = looksClear(UnsafeRawBufferPointer(bytes), keyID)
                try cipher.decrypt(protection.plan, in: bytes)
                isWrong = isWrongKey(UnsafeRawBufferPointer(bytes), keyID, isSilent: isSilent)
            } catch {
                failure = .cipher("\(error)", keyID)
            }
        }
        if let failure { return .failed(failure) }
        guard mapped != nil else { return .notWritable }
        if isWrong { tellWrongKey(keyID) }
        buffer.removeProtectionInfo()
        countDecrypted(buffer.size, keyID, since: start)
        return .done
    }

    /// For samples whose memory others read too: adaptive demuxers hand out parts of a whole fragment.
    private func intoNewMemory(_ buffer: consuming Buffer, _ cipher: SampleCipher, _ keyID: KeyID?) -> Prepared {
        let start = MonotonicTime.now
        let output: Buffer
        do {
            output = try stream.output.makeBuffer(size: buffer.size)
        } catch {
            return .failed(error == .notMappable ? .secureMemory(nil) : .outOfMemory)
        }
        var failure: DecryptorFailure?
        var isWrong = false
        let mapped: Void? = output.withMutableBytes(from: buffer) { source, target in
            do {
                try cipher.decrypt(protection.plan, from: source, into: target)
                let isSilent = looksClear(source, keyID)
                isWrong = isWrongKey(UnsafeRawBufferPointer(target), keyID, isSilent: isSilent)
            } catch {
                failure = .cipher("\(error)", keyID)
            }
        }
        if let failure { return .failed(failure) }
        guard mapped != nil else { return .failed(.notMappable) }
        // A meta that is gone need not be copied.
        buffer.removeProtectionInfo()
        output.copyMetadata(from: buffer)
        output.removeProtectionInfo()
        countDecrypted(output.size, keyID, since: start)
        if isWrong { tellWrongKey(keyID) }
        return .ready(output)
    }

    /// Looks at a sample before it is decrypted. One that is as the codec writes it already says nothing of the key: qtdemux
    /// hands the clear sound in front of encrypted sound of `cbcs` on as encrypted, if it ignores the sample groups.
    private func looksClear(_ sample: UnsafeRawBufferPointer, _ keyID: KeyID?) -> Bool {
        guard let format, let codec = format.codec, stream.doubt.isOpen(for: keyID, codec) else { return false }
        if case .h264 = codec { return SampleSigns(sample, protection.plan, codec).wholeSlices > 0 }
        return !format.isNALVideo && SampleSigns(sample, protection.plan, codec).verdict == .plausible
    }

    /// Looks at a decrypted sample, if it may tell of a wrong key.
    private func isWrongKey(_ sample: UnsafeRawBufferPointer, _ keyID: KeyID?, isSilent: Bool) -> Bool {
        guard let codec = format?.codec else { return false }
        guard !isSilent else { return stream.doubt.isConfirmed(by: SampleSigns(), keyID, codec) }
        return stream.doubt.isConfirmed(by: sample, protection.plan, keyID, codec)
    }

    // MARK: Queries

    override func sinkQuery(_ query: borrowing Query) -> Bool? {
        switch query.kind {
        case .acceptCaps:
            guard let caps = query.capsToAccept else { return nil }
            query.answerAcceptCaps(accepts(caps))
            return true
        case .caps:
            let template = sinkPad.templateCaps
            let wanted = EncryptedFormat.encryptedCaps(for: sourcePad.peerCaps(), template: template)
            query.answer(caps: hasStarted ? .any : wanted)
            return true
        case .allocation:
            return answerAllocation(query)
        case .scheduling, .uri, .other:
            return nil
        }
    }

    /// Downstream is asked about the clear media; what it says of memory that the CPU can write is for upstream too, since
    /// samples are decrypted in place. The query is serialized: while samples wait for their key, it cannot pass them.
    private func answerAllocation(_ query: borrowing Query) -> Bool {
        guard let caps = query.capsToAllocate, monitor.withLock({ flow.queue.isEmpty && !flow.isTaskActive }) else {
            return false
        }
        let clear = EncryptedFormat.clearCaps(of: caps)
        guard !clear.isEmpty, secure?.isUsed(for: stream.output) != true else { return false }
        return query.answerAllocation(for: clear, by: sourcePad)
    }

    override func sourceQuery(_ query: borrowing Query) -> Bool? {
        guard query.kind == .caps else { return nil }
        let clear = sourcePad.currentCaps ?? EncryptedFormat.clearCaps(of: sinkPad.peerCaps())
        query.answer(caps: clear.isEmpty ? .any : clear)
        return true
    }

    /// Clear media is taken once the stream has started encrypted: a programme may end in a clear part. Before that
    /// it is refused, so that no decryptor is plugged for clear media.
    private func accepts(_ caps: Caps) -> Bool {
        caps.isSubset(of: sinkPad.templateCaps)
            || hasStarted && !EncryptedFormat.encryptedTypes.contains(caps.mediaType() ?? "")
    }
}

/// The way into secure memory: encrypted bytes are read from ordinary memory, and the platform's decryptor writes the
/// clear ones.
extension SampleDecryptor {
    /// How long to wait between two looks for a free buffer, in microseconds.
    private static let poolPollInterval: Int64 = 2000

    /// Decrypts a sample; without a key it is clear, and goes into secure memory as it is.
    private func decryptSecurely(
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
        if key != nil { countDecrypted(size, keyID, since: start) }
        return .ready(output)
    }

    /// The plan of a sample that is clear; nil for more than a sample can have.
    private static func clearPlan(_ size: Int) -> SamplePlan? {
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
