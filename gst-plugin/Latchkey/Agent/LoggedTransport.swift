// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization

/// Tells of each request for keys and licenses, with its URL as it may be shown.
struct LoggedTransport: HTTPTransport {
    private let base: any HTTPTransport
    private let log: @Sendable (String) -> Void

    init(_ base: any HTTPTransport, _ log: @escaping @Sendable (String) -> Void) {
        self.base = base
        self.log = log
    }

    func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        let name = "license request: \(request.method) \(request.printableURL)"
        let start = ContinuousClock.now
        do throws(HTTPError) {
            let response = try await base.send(request)
            log("\(name): HTTP status \(response.status) after \((ContinuousClock.now - start).milliseconds) ms")
            return response
        } catch {
            log("\(name): \(error)")
            throw error
        }
    }
}

/// Tells when the first sample of each key is decrypted for playing. Takes no request.
final class DecryptionLog: StoredKeyLoader {
    let name = "log"
    let keySystems: Set<KeySystem>? = []
    private let log: @Sendable (String) -> Void
    private let seen = Mutex<Set<KeyID?>>([])

    init(_ log: @escaping @Sendable (String) -> Void) { self.log = log }

    func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool { false }

    func didStartPlaying(_ keyID: KeyID?, in session: KeySession) {
        guard seen.withLock({ $0.insert(keyID).inserted }) else { return }
        log("decryption begins: \(keyID.map { "KID \($0)" } ?? "a key without a KID")")
    }
}
