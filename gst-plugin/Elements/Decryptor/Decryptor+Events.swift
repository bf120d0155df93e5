// SPDX-License-Identifier: MPL-2.0

import ElementKit
import LicenseControl
import ProtectionModel

extension Decryptor {
    func sinkEvent(_ event: consuming Event) -> Bool {
        switch event.kind {
        case .flushStart: return flushStart(event)
        case .flushStop: return flushStop(event)
        case .protection:
            // Asked for at once, before the samples that need the key: they may wait in the queue.
            if let protection = event.protection { prefetchKeys(protection) }
            return true
        default:
            return event.isSerialized ? sendInOrder(event) : sourcePad.push(event)
        }
    }

    /// Passes an event on when its turn has come. Runs on the stream's thread.
    func pass(_ event: consuming Event) -> Bool {
        guard let caps = event.caps else { return sourcePad.push(event) }
        guard let clear = adopt(caps) else { return false }
        return sourcePad.push(Event(caps: clear))
    }

    /// Keeps a sticky event that a flush took out of the queue.
    func keep(_ event: consuming Event) {
        if let caps = event.caps {
            if let clear = adopt(caps) { sourcePad.store(Event(caps: clear)) }
        } else {
            sourcePad.store(event)
        }
    }

    /// Takes new caps into use; nil where they name no media type inside.
    private func adopt(_ caps: Caps) -> Caps? {
        let clear = EncryptedFormat.clearCaps(of: caps)
        guard !clear.isEmpty else { return nil }
        stream.format = EncryptedFormat(caps)
        if let system = stream.format?.system { stream.keys?.sources.setCapsSystem(system) }
        monitor.withLock { flow.hasCaps = true }
        stream.output.negotiate(clear, on: sourcePad)
        return clear
    }

    // MARK: Queries

    func sinkQuery(_ query: borrowing Query) -> Bool? {
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
        case .uri, .other:
            return nil
        }
    }

    func sourceQuery(_ query: borrowing Query) -> Bool? {
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

    private var hasStarted: Bool { monitor.withLock { flow.hasCaps } }
}
