// SPDX-License-Identifier: MPL-2.0

import CLatchkeyAgent
import LatchkeyKeySystems
import Latchkey
import LatchkeyProtection

/// A `LatchkeyRights`.
final class RightsHandle: OpaqueReference, Sendable {
    let rights: RightsStatus
    let reason: CMemory

    init(_ rights: RightsStatus) {
        self.rights = rights
        reason = CMemory(text: rights.reason)
    }
}

/// A `LatchkeyContentInfo`, with what belongs to it.
final class ContentInfoHandle: OpaqueReference, Sendable {
    let isProtected: Bool
    let rights: RightsHandle
    let keySystems: [CMemory]
    let keyIDs: [CMemory]
    let audioTrackNames: [CMemory]
    let licenseURLs: [CMemory]
    let tracks: [TrackHandle]
    let keyNeeds: [KeyNeedHandle]

    init(_ info: ContentInfo) {
        isProtected = info.isProtected
        rights = RightsHandle(info.rights)
        keySystems = info.keySystems.map { CMemory(text: $0.rawValue) }
        keyIDs = info.keyIDs.map { CMemory($0.bytes) }
        audioTrackNames = info.audioTrackNames.map { CMemory(text: $0) }
        licenseURLs = info.licenseURLs.map { CMemory(text: $0) }
        tracks = info.tracks.map(TrackHandle.init)
        keyNeeds = info.keyNeeds.map(KeyNeedHandle.init)
    }
}

/// A `LatchkeyTrack`.
final class TrackHandle: OpaqueReference, Sendable {
    let track: ContentTrack
    let name: CMemory?
    let language: CMemory?
    let codecs: CMemory?
    let keyPeriods: [KeyPeriodHandle]

    init(_ track: ContentTrack) {
        self.track = track
        name = track.name.map { CMemory(text: $0) }
        language = track.language.map { CMemory(text: $0) }
        codecs = track.codecs.map { CMemory(text: $0) }
        keyPeriods = track.keyPeriods.map(KeyPeriodHandle.init)
    }
}

/// A `LatchkeyKeyPeriod`.
final class KeyPeriodHandle: OpaqueReference, Sendable {
    let start: Double?
    let end: Double?
    let method: CMemory?
    let keyFormat: CMemory?
    let keyURI: CMemory?
    let keyIDs: [CMemory]

    init(_ period: KeyPeriod) {
        start = period.start
        end = period.end
        method = period.method.map { CMemory(text: $0) }
        keyFormat = period.keyFormat.map { CMemory(text: $0) }
        keyURI = period.keyURI.map { CMemory(text: $0) }
        keyIDs = period.keyIDs.map { CMemory($0.bytes) }
    }
}

/// A `LatchkeyKeyNeed`.
final class KeyNeedHandle: OpaqueReference, Sendable {
    let keySystem: CMemory?
    let keyURI: CMemory?
    let keyIDs: [CMemory]
    let source: CMemory?

    init(_ need: ContentKeyNeed) {
        keySystem = need.keySystem.map { CMemory(text: $0.rawValue) }
        keyURI = need.keyURI.map { CMemory(text: $0) }
        keyIDs = need.keyIDs.map { CMemory($0.bytes) }
        source = need.source.map { CMemory(text: $0) }
    }
}

extension LatchkeyRightsStatus {
    static let known: [(code: LatchkeyRightsStatus, kind: RightsStatus.Kind)] = [
        (LATCHKEY_RIGHTS_NONE, .none), (LATCHKEY_RIGHTS_VALID, .valid), (LATCHKEY_RIGHTS_FUTURE, .future),
        (LATCHKEY_RIGHTS_EXPIRED, .expired), (LATCHKEY_RIGHTS_UNTRUSTED_TIME, .untrustedTime),
    ]
}

extension LatchkeyContentType {
    static let known: [(code: LatchkeyContentType, type: ContentType)] = [
        (LATCHKEY_CONTENT_HLS, .hls), (LATCHKEY_CONTENT_SMOOTH_STREAMING, .smoothStreaming),
        (LATCHKEY_CONTENT_PIFF, .piff), (LATCHKEY_CONTENT_DASH, .dash), (LATCHKEY_CONTENT_MP4, .mp4),
    ]
}

extension Array {
    /// C can ask for any index.
    subscript(at index: Int) -> Element? { indices.contains(index) ? self[index] : nil }
}
