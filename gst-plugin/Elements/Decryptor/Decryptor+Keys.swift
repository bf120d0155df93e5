// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import KeySystems
import LicenseControl
import ProtectionModel

extension Decryptor {
    /// Starts the request for the key of a sample, unless one is under way. Runs on the stream's thread.
    func demandKey(_ keyID: KeyID?) {
        monitor.withLock { _ = flow.awaited.insert(keyID) }
        stream.keys?.sources.demand(keyID)
    }

    /// Starts the request for the keys that a protection event names, unless they are there or under way.
    func prefetchKeys(_ protection: Event.Protection) {
        currentSources?.prefetch(protection) { keyIDs in wake { $0.awaited.formUnion(keyIDs) } }
    }

    /// The session tells what happens to keys. Any thread.
    func keyEvent(_ event: KeyEvent) {
        switch event {
        case .requested(let request, let origin):
            if origin == observerID { post(request) }
        case .untaken:
            wake { _ in }
        case .usable(let requestID, let keyIDs, let elapsed):
            settle(
                keyIDs, as: "latchkey-key-usable",
                [
                    ("request-id", .uint64(requestID ?? 0)), ("key-ids", .strings(keyIDs.map(\.description))),
                    ("elapsed", .uint64(elapsed.nanoseconds)),
                ])
        case .failed(let requestID, let keyIDs, let error):
            settle(
                keyIDs, as: "latchkey-key-failed",
                [
                    ("request-id", .uint64(requestID)), ("key-ids", .strings(keyIDs.map(\.description))),
                    ("reason", .string(error.description)),
                ])
        case .renewalFailed:
            // The keys are usable still; the session tries again.
            break
        case .expired(let keyIDs, let error, let wasInUse):
            wake { _ in }
            guard wasInUse else { return }
            reference.post(
                "latchkey-key-expired",
                [("key-ids", .strings(keyIDs.map(\.description))), ("reason", .string(error.description))])
        case .closed:
            wake { _ in }
        }
    }

    /// Says so where this element asked, and only then lets the stream go on: an error that follows from it comes
    /// second.
    private func settle(
        _ keyIDs: [KeyID], as name: String, _ fields: [(String, FieldValue)]
    ) {
        let isMine = monitor.withLock { flow.stopAwaiting(keyIDs) }
        if isMine { reference.post(name, fields) }
        wake { _ in }
    }

    private func wake(_ body: (inout FlowState) -> Void) {
        monitor.withLock {
            flow.keyEvents &+= 1
            body(&flow)
            monitor.broadcast()
        }
    }

    private var observerID: UInt64? { facts.withLock { observation?.id } }

    private func post(_ request: KeyLoadingRequest) {
        reference.post(keyRequest: request, licenseURL: currentSources?.printableLicenseURL)
    }

    /// A sample waits for a key that no loader has.
    func warnAboutUntaken(_ keyID: KeyID?) {
        reference.postResourceWarning(
            GST_RESOURCE_ERROR_NOT_FOUND,
            "No key source has the key for \(DecryptorFailure.name(keyID)); waiting for the application.",
            debug: "Give the key with keys-file=, name a licence service with license-url= (and key-system=), or "
                + "answer the latchkey-key-request message with the key-response signal.")
    }

    static let keyResponse = KeyResponse.signal { ($0 as? Decryptor)?.currentSources?.session }
}

extension Decryptor.FlowState {
    /// Whether this element asked for one of the keys; it does not from now on.
    fileprivate mutating func stopAwaiting(_ keyIDs: [KeyID]) -> Bool {
        if keyIDs.isEmpty { return awaited.remove(nil) != nil }
        var wasAwaiting = false
        for keyID in keyIDs where awaited.remove(keyID) != nil { wasAwaiting = true }
        return wasAwaiting
    }
}
