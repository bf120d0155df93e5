// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection

/// Fetches keys of the KEYFORMAT `identity`: the 16 bytes at the key's own URI (RFC 8216, 4.3.2.4). Asked after all other
/// loaders, so that an application can answer such requests too.
final class IdentityKeyLoader: ResourceLoader {
    let name = "key at its URI"
    private weak let origin: HLSOrigin?

    init(origin: HLSOrigin) { self.origin = origin }

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
        guard let origin, let key = Self.key(in: request), let uri = key.uri else { return false }
        if DataURI.isOne(uri) {
            // A good one is no matter of a request.
            request.finishLoading(
                with: .malformedResponse("the data: URI of the key in the playlist has no \(ContentKey.size) bytes"))
            return true
        }
        guard URIReference(uri).isHTTP else { return false }
        Task {
            do throws(HLSFailure) {
                var bytes = try await origin.bytes(.key, uri)
                let count = bytes.count
                let key = ContentKey(bytes)
                wipe(&bytes)
                guard let key else {
                    throw .media("key", at: uri, "it has \(count) bytes and not \(ContentKey.size)")
                }
                request.finishLoading(with: .key(key))
            } catch {
                request.finishLoading(with: Self.keyError(error))
            }
        }
        return true
    }

    private static func keyError(_ failure: HLSFailure) -> KeyError {
        // The texts of failures are sentences, and a reason stands within one.
        let text = failure.text.hasSuffix(".") ? String(failure.text.dropLast()) : failure.text
        return switch (failure.cause, failure.kind) {
        case (.status, _): .serverStatus(text)
        case (_, .format), (.webPage, _): .malformedResponse(text)
        default: .network(text)
        }
    }

    private static func key(in request: KeyLoadingRequest) -> HLSKey? {
        for data in request.initializationData {
            for box in PSSHBox.readableBoxes(in: data.bytes) {
                if let key = HLSKey.key(in: box), key.keyFormat == HLSKeyFormat.identity.name,
                    key.uri == request.keyURI
                {
                    return key
                }
            }
        }
        return nil
    }
}
