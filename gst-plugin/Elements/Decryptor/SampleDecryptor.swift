// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import ProtectionModel
import SampleDecryption

/// The decryptor of samples that a demuxer has taken out of their container, behind four factories.
final class SampleDecryptor: Decryptor, @unchecked Sendable {
    // SAFETY: what is added here belongs to the stream's thread, as `stream` does.
    @exclusivity(unchecked) private(set) var format: EncryptedFormat?
    @exclusivity(unchecked) private var protection = SampleProtection()
    @exclusivity(unchecked) private var hasCaps = false
    @exclusivity(unchecked) private var hasWarned = false

    /// More samples than a clear lead has: a minute of video, half a minute of sound.
    private static let longestClearLead = 1500

    override func resetStream() {
        super.resetStream()
        format = nil
        hasCaps = false
        hasWarned = false
        protection = SampleProtection()
    }

    /// Takes new caps into use; nil where they name no media type inside.
    override func adopt(_ caps: Caps) -> Caps? {
        let clear = EncryptedFormat.clearCaps(of: caps)
        guard !clear.isEmpty else { return nil }
        format = EncryptedFormat(caps)
        hasCaps = true
        if let system = format?.system { stream.keys?.sources.setCapsSystem(system) }
        stream.output.negotiate(clear, on: sourcePad)
        return clear
    }

    /// Decrypts the sample where it is encrypted and the key is there.
    override func prepare(_ buffer: consuming Buffer) -> Prepared {
        guard let format else { return hasCaps ? .ready(buffer) : .failed(.notMedia) }
        let keyID: KeyID?
        switch protection.read(buffer, format: format) {
        case .clear:
            count { $0.samplesClear &+= 1 }
            if protection.unexplainedCount > Self.longestClearLead { warnOfUnexplainedSamples() }
            return .ready(cleared(buffer))
        case .malformed(let reason):
            return .failed(.malformedSample(reason, nil))
        case .encrypted(let identifier):
            keyID = identifier
        }
        switch stream.keys?.cipher(for: keyID, of: format.media) ?? .missing {
        case .usable(let cipher):
            return decrypt(buffer, with: cipher, keyID)
        case .failed(let failure):
            return .failed(failure)
        case .missing:
            demandKey(keyID)
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

    private func cleared(_ buffer: consuming Buffer) -> Buffer {
        guard buffer.withProtectionInfo({ _ in true }) == true else { return buffer }
        let writable = buffer.writable()
        writable.removeProtectionInfo()
        return writable
    }

    private func decrypt(_ buffer: consuming Buffer, with cipher: SampleCipher, _ keyID: KeyID?) -> Prepared {
        // Where downstream wants secure memory, no clear sample may lie in ordinary memory, the sample's own included.
        guard stream.output.isMappable else { return .failed(.secureMemory) }
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
        let mapped: Void? = buffer.withMutableBytes { bytes in
            do {
                try cipher.decrypt(protection.plan, in: bytes)
            } catch {
                failure = .cipher("\(error)", keyID)
            }
        }
        if let failure { return .failed(failure) }
        guard mapped != nil else { return .notWritable }
        buffer.removeProtectionInfo()
        countDecrypted(buffer.size, since: start)
        return .done
    }

    /// For samples whose memory others read too: adaptive demuxers hand out parts of a whole fragment.
    private func intoNewMemory(_ buffer: consuming Buffer, _ cipher: SampleCipher, _ keyID: KeyID?) -> Prepared {
        let start = MonotonicTime.now
        let output: Buffer
        do {
            output = try stream.output.makeBuffer(size: buffer.size)
        } catch {
            return .failed(error == .notMappable ? .secureMemory : .outOfMemory)
        }
        var failure: DecryptorFailure?
        let mapped: Void? = output.withMutableBytes(from: buffer) { source, target in
            do {
                try cipher.decrypt(protection.plan, from: source, into: target)
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
        countDecrypted(output.size, since: start)
        return .ready(output)
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
            // What upstream fills is encrypted: memory that downstream wants for clear media is not for it.
            return false
        case .scheduling, .uri, .other:
            return nil
        }
    }

    override func sourceQuery(_ query: borrowing Query) -> Bool? {
        guard query.kind == .caps else { return nil }
        let clear = sourcePad.currentCaps ?? EncryptedFormat.clearCaps(of: sinkPad.peerCaps())
        query.answer(caps: clear.isEmpty ? .any : clear)
        return true
    }

    /// Clear media is taken once the stream has started encrypted: a programme may end in a clear part. Before that
    /// it is refused, so that nobody plugs a decryptor for clear media.
    private func accepts(_ caps: Caps) -> Bool {
        caps.isSubset(of: sinkPad.templateCaps)
            || hasStarted && !EncryptedFormat.encryptedTypes.contains(caps.mediaType() ?? "")
    }
}
