// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection

/// What an HLS demuxer has from one start to the next stop. Thread-safe.
final class HLSRun: AdaptiveRun {
    let presentation: HLSPresentation
    let keys: HLSKeys
    let session: KeySession
    var watch: StillnessWatch { presentation.watch }
    private let loader: IdentityKeyLoader
    let observation = SessionObservation()

    /// `makeRelay` gives what fetches segments in the stock demuxer's place; nil: nothing does.
    init(
        shared: SharedSession, settings: HLSSettings,
        makeRelay: (PresentationOrigin) -> SegmentRelay? = { _ in nil }
    ) {
        session = shared.session
        let timeout = shared.settings.keyTimeout ?? .milliseconds(Int64(DecryptorSettings.defaultKeyTimeout))
        keys = HLSKeys(session: session, timeout: timeout > .zero ? timeout : .seconds(86_400))
        let origin = HLSOrigin(transport: CurlTransport.shared)
        let provisioned: [KeySystem?] = [
            shared.settings.fairPlay.map { _ in .fairPlay }, shared.settings.playReady.map { _ in .playReady },
        ]
        presentation = HLSPresentation(
            origin: origin, keys: keys,
            keyFormats: settings.keyFormats(
                preferring: shared.settings.keySystem, provisioned: provisioned.compactMap(\.self)),
            envelopes: EnvelopeParsers(includesOwn: shared.settings.readsLatchkeyEnvelopes), relay: makeRelay(origin),
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
