// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyProtection
import Synchronization

/// Keys that belong together in a manifest: one request.
package struct ManifestKeyGroup: Hashable, Sendable {
    package var system: ProtectionSystem
    package var keyIDs: [KeyID]
    /// What the manifest has for the system.
    package var boxes: [PSSHBox]
    /// As the manifest spells it.
    package var licenseURL: String?
    /// Further ones, for what is not to be had there.
    package var otherURLs: [String]
    /// What the keys are for; nil where that is not told.
    package var media: OutputPolicy.Media?

    package init(
        system: ProtectionSystem, keyIDs: [KeyID], boxes: [PSSHBox], licenseURL: String? = nil,
        otherURLs: [String] = [], media: OutputPolicy.Media? = nil
    ) {
        self.system = system
        self.keyIDs = keyIDs
        self.boxes = boxes
        self.licenseURL = licenseURL
        self.otherURLs = otherURLs
        self.media = media
    }
}

/// Asks for the keys that a manifest names, as soon as it names them. Thread-safe.
package final class ManifestKeys: Sendable {
    let session: KeySession
    private let keySystem: KeySystem?
    private let playback: KeyPlayback?
    private let startGeneration: UInt64
    private let observer = Atomic<UInt64>(0)
    /// The most KIDs of one request, and of all versions of a manifest together. Beyond these numbers keys are asked for
    /// when a sample needs them.
    static let limit = 4096
    /// The most license services of one request.
    static let serviceLimit = 4
    private static let totalLimit = 65_536
    private let known = Mutex<Set<KeyID>>([])

    /// `keySystem` is the configured one; nil: any. `playback`: of the pipeline.
    init(session: KeySession, keySystem: KeySystem?, playback: KeyPlayback? = nil) {
        self.session = session
        self.keySystem = keySystem
        self.playback = playback
        startGeneration = session.generation
    }

    /// Whose requests these are: the id of the demuxer's observation.
    func setObserver(_ id: UInt64) { observer.store(id, ordering: .releasing) }

    /// Which of several systems is asked: the configured one; without one the first that has an exchange here; else the
    /// first. Nil where the configured one is not among them.
    func choose(among systems: [ProtectionSystem]) -> ProtectionSystem? {
        Self.choose(among: systems, preferring: keySystem)
    }

    /// The same, for `keySystem` as the configured one.
    package static func choose(
        among systems: [ProtectionSystem], preferring keySystem: KeySystem?
    ) -> ProtectionSystem? {
        guard let keySystem else { return systems.first { KeySystem($0) != nil } ?? systems.first }
        return systems.first { KeySystem($0) == keySystem }
    }

    /// Remembers what the manifest's PlayReady headers say of the keys, whichever system is asked.
    func noteChecksums(in groups: [ManifestKeyGroup]) {
        session.noteChecksums(
            of: groups.flatMap(\.boxes).compactMap { box in
                box.serialized().map { InitializationData(system: box.system, bytes: $0, origin: "manifest") }
            })
    }

    /// Starts the requests, unless they run or the keys are there. What an earlier version of the manifest named is not
    /// asked for again. KIDs that the manifest does not name are asked for when media has them, at the URL of the group, if
    /// its system has an exchange here. `origin` is where the data is from, as GStreamer's protection events say it, and
    /// `mediaURL` where the manifest came from, with those cookies.
    func demand(_ groups: [ManifestKeyGroup], origin: String, mediaURL: String, cookies: CookieStore? = nil) {
        for group in groups {
            let system = keySystem ?? KeySystem(group.system)
            let licenseURL = group.licenseURL.map { URIReference.resolve($0, against: URIReference(mediaURL)) }
            let otherURLs = group.otherURLs.map { URIReference.resolve($0, against: URIReference(mediaURL)) }
            if let licenseURL, let system, let playback {
                playback.note(
                    LicensePlace(keySystem: system, url: licenseURL, others: otherURLs, media: group.media))
            }
            let isNew = known.withLock { known -> Bool in
                guard known.count + group.keyIDs.count <= Self.totalLimit else { return false }
                let count = known.count
                known.formUnion(group.keyIDs)
                return known.count > count
            }
            guard isNew else { continue }
            session.noteUse(of: group.keyIDs)
            var demand = KeyDemand(
                keyIDs: group.keyIDs, keySystem: system,
                initializationData: group.boxes.compactMap { box in
                    box.serialized().map { InitializationData(system: box.system, bytes: $0, origin: origin) }
                },
                suggestedURL: licenseURL, mediaURL: mediaURL, retryFailuresUpTo: startGeneration,
                origin: observer.load(ordering: .acquiring))
            demand.otherURLs = otherURLs
            demand.cookies = cookies
            session.demand(demand)
        }
    }

    /// The same for keys of which nothing but their KIDs is known, unless they were asked for.
    func demand(_ keyIDs: [KeyID], mediaURL: String, cookies: CookieStore) {
        let new = known.withLock { known in
            known.count < Self.totalLimit ? keyIDs.filter { known.insert($0).inserted } : []
        }
        guard !new.isEmpty else { return }
        session.noteUse(of: new)
        var demand = KeyDemand(
            keyIDs: new, keySystem: keySystem, mediaURL: mediaURL, retryFailuresUpTo: startGeneration,
            origin: observer.load(ordering: .acquiring))
        demand.cookies = cookies
        session.demand(demand)
    }
}
