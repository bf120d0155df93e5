// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyContainers
import LatchkeyProtection

/// Pull mode: the demuxer reads through this element. Its own thread waits for keys here, and a flush or a stop ends the
/// wait, as in push mode. Where upstream cannot be pulled, the bytes come from a window (`ISODecryptor+Window`).
extension ISODecryptor {
    /// The largest range that is read for the demuxer, in bytes.
    private static let largestRange = 256 << 20

    func activatePull(_ isActive: Bool) -> Bool {
        guard isActive else {
            beginFlush()
            if closeWindow() { return true }
            monitor.withLock { intake.isPulled = false }
            return sinkPad.activatePull(false)
        }
        guard startUnlessStarted() else { return false }
        if let size = windowSize {
            guard openWindow(size) else { return false }
        } else {
            guard sinkPad.activatePull(true) else { return false }
            monitor.withLock { intake.isPulled = true }
        }
        sourceActivation(true)
        return true
    }

    func sourceEvent(_ event: consuming Event) -> Bool {
        let isWindowed = isWindowed
        let kind = event.kind
        switch kind {
        case .flushStart: beginFlush()
        case .flushStop:
            if isWindowed { restartWindow() }
            sourceActivation(true)
        default: return sourcePad.forward(event)
        }
        // A flush of what is behind is not upstream's, which pushes.
        if isWindowed { return true }
        return sourcePad.forward(event)
    }

    func range(_ offset: UInt64, _ size: Int) -> PulledRange {
        guard size > 0 else { return encryptedBytes(offset, size) }
        let (end, overflow) = offset.addingReportingOverflow(UInt64(size))
        guard !overflow else { return .failed(.endOfStream) }
        if let flow = keepEndBack(offset..<end) { return .failed(flow) }
        if let failed = prepare(offset..<end) { return .failed(failed) }
        if let failed = waitForKeys() { return .failed(failed) }
        let extent = file.extent
        guard extent.count <= Self.largestRange else {
            return fail(.malformedStream("a range of \(extent.count) bytes is read at once"))
        }
        switch encryptedBytes(extent.lowerBound, extent.count) {
        case .failed(let flow): return .failed(flow)
        case .buffer(let buffer):
            guard file.changesExtent else { return .buffer(buffer) }
            return decrypted(buffer, asked: offset, size)
        }
    }

    /// Nil, or why not.
    private func prepare(_ range: Range<UInt64>) -> FlowResult? {
        var failed: FlowResult?
        do throws(FormatError) {
            try file.prepare(range) { offset, count in
                switch encryptedBytes(offset, count) {
                case .buffer(let buffer): return buffer.copyBytes()
                case .failed(.endOfStream): return []
                case .failed(let flow):
                    failed = flow
                    return nil
                }
            }
        } catch {
            // What could not be read is upstream's to report.
            if let failed { return failed }
            guard error.isSameKind(as: .otherFormat("")) else {
                return report(.malformedStream(error.description))
            }
            var start: [UInt8] = []
            if case .buffer(let buffer) = encryptedBytes(0, Self.bytesForType) { start = buffer.copyBytes() }
            return report(.otherMedia(TypeFinder.mediaType(of: start)))
        }
        tellProtections(file.takeProtections())
        return failed
    }

    /// Nil when all keys of the extent are there, or why not.
    private func waitForKeys() -> FlowResult? {
        for key in file.keys {
            let keyID = key.keyID
            var wait: KeyWait?
            looking: while true {
                switch stream.keys?.cipher(for: keyID, of: key.media) ?? .missing {
                case .usable: break looking
                case .failed(let failure): return report(failure)
                case .missing: break
                }
                demandKey(keyID)
                if let flow = waitUntilPaused() { return flow }
                var current = wait ?? KeyWait(keyID: keyID, startedAt: MonotonicTime.now)
                switch waitForKeyEvent(&current) {
                case .flushing: return .flushing
                case .failed(let failure): return report(failure)
                case nil: wait = current
                }
            }
        }
        return nil
    }

    /// The demuxer may read before this element's state changes, when it still looks as if it were being stopped.
    private func waitUntilPaused() -> FlowResult? {
        monitor.lock()
        defer { monitor.unlock() }
        while !hasPaused {
            if flow.isFlushing { return .flushing }
            monitor.wait(microseconds: 50_000)
        }
        return flow.isFlushing ? .flushing : nil
    }

    private func decrypted(_ buffer: consuming Buffer, asked offset: UInt64, _ size: Int) -> PulledRange {
        let output: Buffer
        if buffer.isMemoryWritable {
            output = buffer
        } else {
            do {
                output = try stream.output.makeBuffer(size: buffer.size)
            } catch {
                return fail(error == .notMappable ? .secureMemory(nil) : .outOfMemory)
            }
            let copied: Void? = output.withMutableBytes(from: buffer) { $1.copyMemory(from: $0) }
            guard copied != nil else { return fail(.notMappable) }
            output.copyMetadata(from: buffer)
        }
        let start = MonotonicTime.now
        var bytesDecrypted = 0
        var outcome = Result<Int, DecryptorFailure>.failure(.notMappable)
        var wrongKeys: [KeyID?] = []
        _ = output.withMutableBytes { bytes in
            outcome = decrypt(bytes, &bytesDecrypted, &wrongKeys)
        }
        for keyID in wrongKeys { tellWrongKey(keyID) }
        switch outcome {
        case .failure(let failure): return fail(failure)
        case .success(let usable):
            if bytesDecrypted > 0 { countDecrypted(bytesDecrypted, since: start) }
            let front = Int(offset - file.extent.lowerBound)
            let count = min(size, max(0, usable - front))
            guard count > 0 else { return .failed(.endOfStream) }
            output.keep(count, from: front)
            output.setOffset(offset)
            return .buffer(output)
        }
    }

    private func decrypt(
        _ bytes: UnsafeMutableRawBufferPointer, _ size: inout Int, _ wrongKeys: inout [KeyID?]
    ) -> Result<Int, DecryptorFailure> {
        do throws(DecryptorFailure) {
            let result = try file.decrypt(bytes) { plan, key, sample throws(DecryptorFailure) in
                guard case .usable(let cipher) = stream.keys?.cipher(for: key.keyID, of: key.media) ?? .missing else {
                    // Withdrawn since it was looked at.
                    throw .key(key.keyID, .cancelled("the key was withdrawn"))
                }
                do throws(DecryptionError) {
                    try cipher.decrypt(plan, in: sample)
                } catch {
                    throw .cipher("\(error)", key.keyID)
                }
                size += sample.count
                if stream.doubt.isConfirmed(by: sample, plan, key) { wrongKeys.append(key.keyID) }
            }
            return result.mapError { .malformedStream($0.description) }
        } catch {
            return .failure(error)
        }
    }

    func fail(_ failure: DecryptorFailure) -> PulledRange {
        .failed(report(failure))
    }
}
