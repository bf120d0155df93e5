// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection

/// What the content itself says, without the rights that are installed. A value.
struct InspectedContent: Sendable {
    /// What a license is asked for with.
    struct Need: Hashable, Sendable {
        var system: ProtectionSystem
        var keyIDs: [KeyID]
        var data: [InitializationData]
        var suggestedURL: String?
        var otherURLs: [String] = []
        /// Where the content that says so came from.
        var mediaURL: String?
        /// A key that a playlist names by URI.
        var key: HLSKey?
    }

    /// Where it came from.
    var url: String?
    /// What servers set while it was looked at; nil: it was not fetched.
    var cookies: CookieStore?
    var isProtected = false
    private(set) var distinctSystems = DistinctValues<ProtectionSystem>()
    private(set) var distinctKeyIDs = DistinctValues<KeyID>()
    /// It is protected, and neither it nor its media will say which keys it needs: no license can be asked for.
    var lacksKeyIDs = false
    var audioTrackNames: [String] = []
    /// The `track_ID` of each of `audioTrackNames`, in a file; empty in other content.
    var audioTrackIDs: [UInt32] = []
    private(set) var distinctLicenseURLs = DistinctValues<String>()
    /// In the order of the content.
    private(set) var tracks: [ContentTrack] = []
    /// Where the first track is that is the same but for its times.
    private(set) var trackPlaces: [ContentTrack: Int] = [:]
    /// Each asks for other keys. Empty where keys come without a license, or where the content says nothing.
    var needs: [Need] = []

    /// The most keys and names that are kept: content is not trusted.
    static let limit = 4096

    var systems: [ProtectionSystem] { distinctSystems.values }
    var keyIDs: [KeyID] { distinctKeyIDs.values }
    var licenseURLs: [String] { distinctLicenseURLs.values }

    /// Adds what is not there yet.
    mutating func add(_ system: ProtectionSystem) { distinctSystems.add([system], limit: Self.limit) }
    mutating func add(keyIDs new: [KeyID]) { distinctKeyIDs.add(new, limit: Self.limit) }
    mutating func add(licenseURLs new: [String]) { distinctLicenseURLs.add(new, limit: Self.limit) }
    mutating func add(_ need: Need) {
        var need = need
        need.mediaURL = url
        if needs.count < 64, !needs.contains(need) { needs.append(need) }
    }

    /// A track that goes on, as in the next Period, gets the new times. Times without a change of key are one.
    mutating func add(_ track: ContentTrack) {
        if let index = trackPlaces[track.withoutTimes] {
            for period in track.keyPeriods { tracks[index].add(period) }
        } else if tracks.count < Self.limit {
            append(track)
        }
    }

    /// A track of its own, also if another one is the same.
    mutating func append(_ track: ContentTrack) {
        let name = track.withoutTimes
        if trackPlaces[name] == nil { trackPlaces[name] = tracks.count }
        tracks.append(track)
    }

    /// A name that is there already gets a number, so that each can be chosen.
    mutating func add(audioTrack name: String) {
        guard audioTrackNames.count < 256 else { return }
        var unique = name
        var number = 2
        while audioTrackNames.contains(unique) {
            unique = "\(name) \(number)"
            number += 1
        }
        audioTrackNames.append(unique)
    }

    var keySystems: [KeySystem] {
        var found: [KeySystem] = []
        for system in systems {
            if let known = KeySystem(system), !found.contains(known) { found.append(known) }
        }
        return found
    }

    /// What the initialization data of a system say beside the KIDs.
    mutating func note(_ box: PSSHBox) {
        add(box.system)
        add(keyIDs: box.keyIDs)
        guard box.system == .playReady else { return }
        guard let header = try? PlayReadyObject(initializationData: box.data).header() else { return }
        if header.details.isOnDemand != true { add(keyIDs: header.keys.map(\.keyID)) }
        add(licenseURLs: [header.details.licenseAcquisitionURL].compactMap(\.self))
    }
}

/// Values in the order in which they came, each once. A value.
struct DistinctValues<Value: Hashable & Sendable>: Sendable {
    private(set) var values: [Value] = []
    private var known: Set<Value> = []

    /// Nothing yet.
    init() {}

    /// Adds what is not there yet, until there are `limit` values.
    mutating func add(_ new: [Value], limit: Int) {
        for value in new where values.count < limit && known.insert(value).inserted { values.append(value) }
    }
}

extension ContentTrack {
    /// Behind the others; one that goes on is made longer.
    mutating func add(_ period: KeyPeriod) {
        if let last = keyPeriods.last, last.end != nil, last.end == period.start {
            var longer = period
            longer.start = last.start
            var same = last
            same.end = period.end
            if longer == same {
                keyPeriods[keyPeriods.count - 1] = longer
                return
            }
        }
        if keyPeriods.count < InspectedContent.limit { keyPeriods.append(period) }
    }
}
