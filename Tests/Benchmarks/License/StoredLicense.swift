// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection

/// A start with a license in the store, as a new process has it: opening the store, finding the license, judging it,
/// unwrapping its key, and handing it to a session.
enum StoredLicense {
    private static let runs = 200
    private static let warmUp = 5
    private static let keyBytes: [UInt8] = Array(0x20...0x2F)

    /// A license service in this process.
    private struct Service: HTTPTransport {
        let server: PlayReadyLicenseServer
        let key: ContentKey

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            let answer = server.respond(to: request.body, now: 1_700_000_000) { _ in key }
            return HTTPResponse(status: answer.status, body: answer.body, url: request.url)
        }
    }

    static func measure(in folder: String) async throws -> Row {
        guard let keyID = KeyID(hex: "00112233445566778899aabbccddeeff"), let key = ContentKey(keyBytes)
        else { throw BenchmarkFailure(text: "no key") }
        let authority = try PlayReadyTestAuthority.generate()
        let configuration = PlayReadyClient.Configuration(
            provisioning: try authority.provisioning(), store: FullStore.configuration(folder))
        let transport = Service(server: PlayReadyLicenseServer(authority: authority), key: key)
        let header = try WRMHeader(
            version: .v4_2, keys: [.init(keyID)], details: .init(licenseAcquisitionURL: "https://example.com/"))
        let object = try PlayReadyObject(header: header).serialized()
        try await PlayReadyClient(configuration: configuration, transport: transport).acquireLicense(for: object)

        var row = Row("stored-license start, store opened")
        for run in 0..<warmUp + runs {
            let start = ContinuousClock().now
            let client = PlayReadyClient(configuration: configuration, transport: transport)
            let session = KeySession(loaders: [PlayReadyLoader(client: client, acquires: false)])
            let (ends, end) = AsyncStream<Void>.makeStream()
            let observation = session.observe { event in
                switch event {
                case .usable, .failed: end.yield()
                default: break
                }
            }
            session.demand(
                KeyDemand(
                    keyIDs: [keyID], keySystem: .playReady,
                    initializationData: [
                        InitializationData(system: .playReady, bytes: object, origin: "benchmark")
                    ]))
            for await _ in ends { break }
            let time = ContinuousClock().now - start
            guard case .usable(let opened) = session.status(of: keyID),
                opened.withBytes({ $0.elementsEqual(keyBytes) })
            else { throw BenchmarkFailure(text: "not the key of run \(run)") }
            withExtendedLifetime(observation) {}
            if run >= warmUp { row.times.append(time) }
        }
        return row
    }
}
