// SPDX-License-Identifier: MPL-2.0

import HTTP
import KeySystems
import LicenseControl
import MediaFormats
import ProtectionModel

/// What an HLS demuxer has from one start to the next stop. Thread-safe.
final class HLSRun: AdaptiveRun {
    let presentation: HLSPresentation
    let keys: HLSKeys
    let session: KeySession
    private let loader: IdentityKeyLoader
    let observation = SessionObservation()

    /// `onFetch` hears of segments and of what fails, where they are relayed.
    init(
        shared: SharedSession, settings: HLSSettings,
        onFetch: @escaping @Sendable (SegmentRelay.Notice) -> Void = { _ in }
    ) {
        session = shared.session
        let timeout = shared.settings.keyTimeout ?? .milliseconds(Int64(DecryptorSettings.defaultKeyTimeout))
        keys = HLSKeys(session: session, timeout: timeout > .zero ? timeout : .seconds(86_400))
        let origin = HLSOrigin(transport: CurlTransport.shared)
        let provisioned: [KeySystem?] = [
            shared.settings.fairPlay.map { _ in .fairPlay }, shared.settings.playReady.map { _ in .playReady },
        ]
        let limit = Duration.milliseconds(Int64(settings.outageMilliseconds))
        let relay = limit > .zero ? SegmentRelay(origin, limit: limit, tell: onFetch) : nil
        presentation = HLSPresentation(
            origin: origin, keys: keys,
            keyFormats: settings.keyFormats(
                preferring: shared.settings.keySystem, provisioned: provisioned.compactMap(\.self)),
            relay: relay,
            outputLevel: { [session] in session.outputLevel })
        loader = IdentityKeyLoader(origin: origin)
        session.addLoader(loader)
    }

    func didObserve() { if let id = observation.id { keys.setObserver(id) } }

    func end() {
        presentation.close()
        observation.end()
        session.removeLoader(loader)
    }
}
