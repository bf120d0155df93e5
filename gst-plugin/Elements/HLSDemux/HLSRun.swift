// SPDX-License-Identifier: MPL-2.0

import HTTP
import LicenseControl
import MediaFormats
import ProtectionModel
import Synchronization

/// What an HLS demuxer has from one start to the next stop. Thread-safe.
final class HLSRun: Sendable {
    let presentation: HLSPresentation
    let keys: HLSKeys
    let session: KeySession
    private let loader: IdentityKeyLoader
    private let observation = Mutex<KeyObservation?>(nil)

    init(shared: SharedSession, settings: HLSSettings) throws(KeyError) {
        session = shared.session
        let timeout = shared.settings.keyTimeout ?? .milliseconds(Int64(DecryptorSettings.defaultKeyTimeout))
        keys = HLSKeys(session: session, timeout: timeout > .zero ? timeout : .seconds(86_400))
        let origin = HLSOrigin(transport: CurlTransport.shared)
        presentation = HLSPresentation(
            origin: origin, keys: keys, keyFormats: settings.keyFormats(preferring: shared.settings.keySystem))
        loader = IdentityKeyLoader(origin: origin)
        session.addLoader(loader)
    }

    func observe(_ body: @escaping @Sendable (KeyEvent) -> Void) {
        let observation = session.observe(body)
        keys.setObserver(observation.id)
        self.observation.withLock { $0 = observation }
    }

    var observerID: UInt64? { observation.withLock { $0?.id } }

    func end() {
        presentation.close()
        observation.withLock { observation in
            defer { observation = nil }
            return observation
        }?.cancel()
        session.removeLoader(loader)
    }
}
