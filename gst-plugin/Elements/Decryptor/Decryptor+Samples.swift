// SPDX-License-Identifier: MPL-2.0

import ElementKit
import ProtectionModel
import SampleDecryption

extension Decryptor {
    /// What became of a sample.
    enum Prepared: ~Copyable {
        case ready(Buffer)
        case missingKey(Buffer, KeyID?)
        case failed(DecryptorFailure)
    }

    /// Decrypts the sample where it is encrypted and the key is there. Runs on the stream's thread.
    func prepare(_ buffer: consuming Buffer) -> Prepared {
        guard let format = stream.format else { return .ready(buffer) }
        let keyID: KeyID?
        switch stream.protection.read(buffer, format: format) {
        case .clear:
            count { $0.samplesClear &+= 1 }
            return .ready(cleared(buffer))
        case .malformed(let reason):
            return .failed(.malformedSample(reason, nil))
        case .encrypted(let identifier):
            keyID = identifier
        }
        switch stream.keys?.cipher(for: keyID) ?? .missing {
        case .usable(let cipher):
            return decrypt(buffer, with: cipher, keyID)
        case .failed(let failure):
            return .failed(failure)
        case .missing:
            demandKey(keyID)
            return .missingKey(buffer, keyID)
        }
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

    private func countDecrypted(_ size: Int, since start: UInt64) {
        let elapsed = MonotonicTime.now &- start
        count {
            $0.samplesDecrypted &+= 1
            $0.bytesDecrypted &+= UInt64(size)
            $0.decryptTime &+= elapsed
        }
    }

    private func decryptInPlace(_ buffer: borrowing Buffer, _ cipher: SampleCipher, _ keyID: KeyID?) -> Attempt {
        let start = MonotonicTime.now
        var failure: DecryptorFailure?
        let mapped: Void? = buffer.withMutableBytes { bytes in
            do {
                try cipher.decrypt(stream.protection.plan, in: bytes)
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
                try cipher.decrypt(stream.protection.plan, from: source, into: target)
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
}
