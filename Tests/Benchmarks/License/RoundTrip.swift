// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyKeySystems
import LatchkeyProtection

/// What a PlayReady-style license takes on the client: making the challenge, then checking the answer and unwrapping the
/// content key.
enum RoundTrip {
    private static let runs = 1000
    private static let warmUp = 50
    private static let keyBytes: [UInt8] = Array(0x60...0x6F)
    private static let now: UInt32 = 1_700_000_000

    static func measure() throws -> [Row] {
        guard let keyID = KeyID(hex: "00112233445566778899aabbccddeeff"), let key = ContentKey(keyBytes)
        else { throw BenchmarkFailure(text: "no key") }
        let authority = try PlayReadyTestAuthority.generate()
        let provisioning = try authority.provisioning()
        let keyring = PlayReadyKeyring(device: try provisioning.makeDevice())
        let server = PlayReadyLicenseServer(authority: authority)
        let header = try WRMHeader(
            version: .v4_2, keys: [.init(keyID)], details: .init(licenseAcquisitionURL: "https://example.com/"))

        let clock = ContinuousClock()
        var (challenges, answers) = (Row("challenge"), Row("verify and unwrap"))
        var trips = Row("license round trip without network")
        for run in 0..<warmUp + runs {
            let start = clock.now
            let exchange = try PlayReadyExchange(
                header: header, keyring: keyring, provisioning: provisioning, clientTime: now)
            let challenged = clock.now
            // The server's own work is not the client's.
            let body = server.respond(to: exchange.request, now: now) { $0 == keyID ? key : nil }.body
            let answered = clock.now
            let answer = try exchange.open(response: body, now: now)
            let end = clock.now
            let opened = answer.licenses.first?.contentKey
            guard opened?.withBytes({ $0.elementsEqual(keyBytes) }) == true else {
                throw BenchmarkFailure(text: "not the key of run \(run)")
            }
            guard run >= warmUp else { continue }
            challenges.times.append(challenged - start)
            answers.times.append(end - answered)
            trips.times.append(challenged - start + (end - answered))
        }
        return [challenges, answers, trips]
    }
}
