// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection

/// The application's answer to a `latchkey-key-request` message.
enum KeyResponse {
    /// `key-response (request-id, answer, error) -> taken`. `session` is where the element's requests are.
    static func signal(_ session: @escaping @Sendable (Element) -> KeySession?) -> ActionSignal {
        ActionSignal("key-response", arguments: [.uint64, .bytes, .string]) { element, arguments in
            guard let session = session(element), case .uint64(let id) = arguments.first else { return false }
            if arguments.count > 2, case .string(let reason?) = arguments[2], !reason.isEmpty {
                return session.respond(toRequest: id, with: .failure(.denied("the application says: \(reason)")))
            }
            guard arguments.count > 1, case .bytes(var answer?) = arguments[1] else { return false }
            // It may be a key: this is the only copy that is ours, and it goes.
            arguments[1] = .none
            defer { wipe(&answer) }
            do throws(KeyError) {
                return session.respond(toRequest: id, with: .success(try ApplicationAnswer.read(answer)))
            } catch {
                return session.respond(toRequest: id, with: .failure(error))
            }
        }
    }
}

extension ElementReference {
    /// Posts `latchkey-key-request`: what an application needs to answer with the `key-response` signal.
    /// `licenseURL` is the configured one, for requests that name none.
    func post(keyRequest request: KeyLoadingRequest, licenseURL: String? = nil) {
        post(
            "latchkey-key-request",
            [
                ("request-id", .uint64(request.id)), ("key-system", .string(request.keySystem?.rawValue ?? "unknown")),
                ("key-ids", .strings(request.keyIDs.map(\.description))), ("key-uri", .string(request.keyURI ?? "")),
                ("init-data", .bytes(request.initializationData.first?.bytes ?? [])),
                ("init-data-origin", .string(request.initializationData.first?.origin ?? "")),
                ("suggested-url", .string(request.suggestedURL ?? licenseURL ?? "")),
                ("challenge", .bytes(request.challenge)), ("renewal", .boolean(request.isRenewal)),
            ])
    }

    /// Posts `latchkey-key-not-stored`.
    func post(notStored request: KeyLoadingRequest, _ error: KeyError) {
        post(
            "latchkey-key-not-stored",
            [
                ("request-id", .uint64(request.id)), ("key-ids", .strings(request.keyIDs.map(\.description))),
                ("reason", .string(error.description)),
            ])
    }
}
