// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization

/// The signed time service as the trusted clock asks it: Latchkey's own time messages (`PlayReadyTimeExchange`).
final class PlayReadyTimeService: SignedTimeSource, SignedTimeVerifier {
    typealias Device = @Sendable () async throws(KeyError) -> (PlayReadyDevice, PlayReadyProvisioning)

    private let url: String
    private let transport: any HTTPTransport
    private let device: Device
    private let clientTime: @Sendable () -> UInt32
    /// Questions that wait to be verified, by the clock's nonce. The exchange has a nonce of its own, in what is signed.
    private let exchanges = Mutex<[[UInt8]: PlayReadyTimeExchange]>([:])

    var name: String { HTTPRequest(url: url).printableURL }
    var service: SignedTimeService { SignedTimeService(source: self, verifier: self) }

    init(
        url: String, transport: any HTTPTransport,
        clientTime: @escaping @Sendable () -> UInt32, device: @escaping Device
    ) {
        self.url = url
        self.transport = transport
        self.clientTime = clientTime
        self.device = device
    }

    func response(toNonce nonce: [UInt8]) async throws(TrustedClockError) -> [UInt8] {
        do {
            let (device, provisioning) = try await device()
            let exchange = try ExitGate.pass {
                try PlayReadyTimeExchange(device: device, provisioning: provisioning, clientTime: clientTime())
            }
            let body = try await PlayReadyServiceRequest(
                .getTime, url: url, headers: [], challenge: exchange.request, timeout: nil, transport: transport
            ).send()
            exchanges.withLock { exchanges in
                // An answer that is never verified leaves its question behind.
                if exchanges.count > 16 { exchanges.removeAll() }
                exchanges[nonce] = exchange
            }
            return body
        } catch {
            throw .serviceFailed("\(name): \(error)")
        }
    }

    func time(in response: [UInt8], nonce: [UInt8]) throws(TrustedClockError) -> UnixTime {
        guard let exchange = exchanges.withLock({ $0.removeValue(forKey: nonce) }) else {
            throw .notGenuine("\(name) was not asked this")
        }
        do throws(PlayReadyError) {
            let time = try ExitGate.pass { () throws(PlayReadyError) in try exchange.time(response: response) }
            return UnixTime(seconds: Int64(time))
        } catch {
            throw .notGenuine("\(name): \(error)")
        }
    }
}
