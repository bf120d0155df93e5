// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import LatchkeyHTTP
import LatchkeyProtection
import Synchronization

@testable import LatchkeyKeySystems
@testable import LatchkeyKeySession

/// A key server in this process: the reference exchange behind a transport, in the form of any service.
final class FairPlayServer: HTTPTransport {
    static let authority = Result { try FairPlayTestAuthority.generate(.v1) }
    static let otherAuthority = Result { try FairPlayTestAuthority.generate(.v1) }

    private struct State {
        var requests: [HTTPRequest] = []
        var opened: [FairPlayServerRequest] = []
        var terms = FairPlayTerms()
        var certificate: [UInt8]
        var failures: [HTTPError] = []
        var mediaKeyIDs: [KeyID?] = []
        var knownKeyIDs: Set<KeyID>?
        var leavesOutCode = false
        var turns: [(asked: Signal<Bool>, answer: Signal<Bool>)] = []
    }

    let authority: FairPlayTestAuthority
    private let server: FairPlayKeyServer
    private let state: Mutex<State>
    private let now: @Sendable () -> Duration
    private let unwrap: @Sendable (HTTPRequest) -> [UInt8]
    private let wrap: @Sendable ([UInt8]) -> [UInt8]

    /// `unwrap` takes the SPC out of a request, `wrap` puts the CKC into an answer.
    init(
        _ authority: FairPlayTestAuthority, now: @escaping @Sendable () -> Duration = { .zero },
        unwrap: @escaping @Sendable (HTTPRequest) -> [UInt8] = { $0.body },
        wrap: @escaping @Sendable ([UInt8]) -> [UInt8] = { $0 }
    ) {
        self.authority = authority
        self.now = now
        self.unwrap = unwrap
        self.wrap = wrap
        server = FairPlayKeyServer(authorities: [authority])
        state = Mutex(State(certificate: authority.certificate))
    }

    /// Key 1 with IV 0…0F for every identifier but "unknown".
    static let vector = InitializationVector((0..<16).map { UInt8($0) })!

    var requests: [HTTPRequest] { state.withLock(\.requests) }
    var posts: [HTTPRequest] { requests.filter { $0.method == "POST" } }
    var opened: [FairPlayServerRequest] { state.withLock(\.opened) }

    /// The KIDs of the media in all SPCs, also in those that were refused.
    var mediaKeyIDs: [KeyID?] { state.withLock(\.mediaKeyIDs) }

    /// Has keys for these KIDs alone, whatever the identifier.
    func setKnownKeyIDs(_ keyIDs: Set<KeyID>) { state.withLock { $0.knownKeyIDs = keyIDs } }
    /// The next SPC gives one signal, and is answered at another.
    func hold(asked: Signal<Bool>, answer: Signal<Bool>) { state.withLock { $0.turns.append((asked, answer)) } }
    /// As a man in the middle who removed the code would have it.
    func setLeavesOutCode(_ leavesOutCode: Bool) { state.withLock { $0.leavesOutCode = leavesOutCode } }
    func setTerms(_ terms: FairPlayTerms) { state.withLock { $0.terms = terms } }
    /// What `GET` answers.
    func setCertificate(_ certificate: [UInt8]) { state.withLock { $0.certificate = certificate } }
    /// The next requests fail so.
    func fail(_ errors: HTTPError...) { state.withLock { $0.failures += errors } }

    func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
        let (terms, certificate, failure) = state.withLock { state in
            state.requests.append(request)
            return (state.terms, state.certificate, state.failures.isEmpty ? nil : state.failures.removeFirst())
        }
        if let failure { throw failure }
        guard request.method == "POST" else { return HTTPResponse(status: 200, body: certificate, url: request.url) }
        do throws(FairPlayServerError) {
            let answer = try server.respond(to: unwrap(request), now: now(), terms: { _ in terms }) { opened in
                isKnown(opened) ? FairPlayKeyServer.Key(key: contentKey(1), initializationVector: Self.vector) : nil
            }
            let leavesOutCode = state.withLock { state in
                state.opened.append(answer.request)
                return state.leavesOutCode
            }
            await waitForTurn()
            let ckc = leavesOutCode ? (try? Self.withoutCode(answer)) ?? [] : answer.ckc
            return HTTPResponse(status: 200, body: wrap(ckc), url: request.url)
        } catch {
            await waitForTurn()
            let body = #"{"error":"refused","code":\#(error.code)}"#
            return HTTPResponse(status: 400, body: Array(body.utf8), url: request.url)
        }
    }

    private static func withoutCode(_ answer: FairPlayKeyServer.Answer) throws -> [UInt8] {
        let container = try CKCContainer(reading: answer.ckc)
        let (key, vector) = (answer.request.responseKey, container.initializationVector)
        let payload = try TLLVPayload(reading: try AES.cbc(.decrypt, key: key, iv: vector, container.payload))
        let rest = try TLLVPayload(payload.blocks.filter { $0.tag != .responseIntegrity })
        return try CKCContainer(
            version: container.version, initializationVector: vector,
            payload: try AES.cbc(.encrypt, key: key, iv: vector, rest.serialized())
        ).serialized()
    }

    private func isKnown(_ request: FairPlayServerRequest) -> Bool {
        state.withLock { state in
            state.mediaKeyIDs.append(request.mediaKeyID)
            if let known = state.knownKeyIDs { return request.mediaKeyID.map(known.contains) ?? false }
            return request.assetIdentifier != Array("unknown".utf8)
        }
    }

    private func waitForTurn() async {
        guard let turn = state.withLock({ $0.turns.isEmpty ? nil : $0.turns.removeFirst() }) else { return }
        turn.asked.send(true)
        _ = await turn.answer.wait()
    }
}
