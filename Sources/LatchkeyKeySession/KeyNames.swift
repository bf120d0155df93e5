// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization

/// Which KID stands for a key that a playlist names by URI.
///
/// Pipelines know keys by KID, HLS playlists by URI. The KIDs of HLS media may be zero, repeated for different keys, or
/// not there at all. Packagers also give the tracks of one presentation keys of their own under one URI: then each KID of
/// the media stands for the URI.
struct KeyNames {
    /// URIs that are remembered. Above this, the oldest are forgotten: a live playlist rotates its keys for ever.
    static let limit = 16_384
    /// Bytes of all that is remembered, more than the largest playlist has. Above this, the oldest URIs are forgotten, too.
    static let sizeLimit = 32 << 20

    struct Answer: Equatable {
        var keyID: KeyID
        /// The KID that stood for the URI until now.
        var replaced: KeyID?
    }

    private struct Name {
        var keyID: KeyID
        /// Whether the media has this KID itself.
        var isOfMedia: Bool
        /// Further KIDs that media has beside this URI.
        var others: [KeyID] = []
        /// The made KID that media may still have, although one of its own has replaced it.
        var replaced: KeyID?

        /// With its places in the tables.
        var size: Int { 256 + 64 * others.count }
    }

    private struct Description {
        var keySystem: KeySystem?
        var initializationData: [InitializationData]
        var mediaURL: String?
        var cookies: CookieStore?

        var size: Int { initializationData.reduce(mediaURL?.utf8.count ?? 0) { $0 + $1.bytes.count } }
    }

    /// Further KIDs of one URI that are remembered.
    static let otherLimit = 64

    private var byURI: [String: Name] = [:]
    private var byKeyID: [KeyID: String] = [:]
    /// The URIs of made KIDs that were replaced.
    private var byReplacedKeyID: [KeyID: String] = [:]
    /// What the last demand for a key said of it, by the KID that it was asked for by.
    private var descriptions: [KeyID: Description] = [:]
    private var order: [String] = []
    private(set) var size = 0

    /// By any name of the key.
    func uri(of keyID: KeyID) -> String? { byKeyID[keyID] ?? byReplacedKeyID[keyID] }

    /// Whether the KID was made for a URI, so that it means nothing outside the session.
    func isMade(_ keyID: KeyID) -> Bool {
        if byReplacedKeyID[keyID] != nil { return true }
        guard let name = byKeyID[keyID].flatMap({ byURI[$0] }) else { return false }
        return name.keyID == keyID && !name.isOfMedia
    }

    /// Media may say nothing of a key that a playlist describes. So a demand for one key that does is remembered, and says
    /// it for those that do not.
    mutating func complete(_ demand: inout KeyDemand) {
        guard demand.keyIDs.count == 1, let keyID = demand.keyIDs.first, byKeyID[keyID] != nil else { return }
        if demand.keySystem != nil || !demand.initializationData.isEmpty {
            makeRoom()
            guard byKeyID[keyID] != nil else { return }
            let description = Description(
                keySystem: demand.keySystem, initializationData: demand.initializationData, mediaURL: demand.mediaURL,
                cookies: demand.cookies)
            describe(keyID, description)
        } else if let known = descriptions[keyID] {
            (demand.keySystem, demand.initializationData) = (known.keySystem, known.initializationData)
            (demand.mediaURL, demand.cookies) = (known.mediaURL, known.cookies)
        }
    }

    /// `mediaKeyID` is the KID that the media has beside this URI, as far as known. It is taken unless it is zero or
    /// stands for another URI; `makeKeyID` gives one where none can be taken. Without a `mediaKeyID` the answer is the
    /// first KID of the URI.
    mutating func keyID(forURI uri: String, mediaKeyID: KeyID?, makeKeyID: () -> KeyID) -> Answer {
        if let mediaKeyID, byKeyID[mediaKeyID] == uri { return Answer(keyID: mediaKeyID) }
        let candidate = mediaKeyID.flatMap { $0.isZero || byKeyID[$0] != nil ? nil : $0 }
        guard let present = byURI[uri] else {
            let name = Name(keyID: candidate ?? makeKeyID(), isOfMedia: candidate != nil)
            set(uri, name)
            return Answer(keyID: name.keyID)
        }
        guard let candidate else { return Answer(keyID: present.keyID) }
        guard !present.isOfMedia else {
            guard present.others.count < Self.otherLimit else { return Answer(keyID: present.keyID) }
            size -= present.size
            byURI[uri]?.others.append(candidate)
            size += byURI[uri]?.size ?? 0
            byKeyID[candidate] = uri
            describe(candidate, descriptions[present.keyID])
            return Answer(keyID: candidate)
        }
        byKeyID[present.keyID] = nil
        byReplacedKeyID[present.keyID] = uri
        byURI[uri] = Name(keyID: candidate, isOfMedia: true, replaced: present.keyID)
        byKeyID[candidate] = uri
        describe(candidate, descriptions[present.keyID])
        describe(present.keyID, nil)
        return Answer(keyID: candidate, replaced: present.keyID)
    }

    /// What to ask for if a group of samples has `mediaKeyID`, and the sample entry `keyID`. If the latter stands for a URI, the
    /// key is the one of that URI, and so is a KID that stands for another one. `newURI`: for which `mediaKeyID` does not stand
    /// yet.
    func keyID(ofGroup mediaKeyID: KeyID, inTrackOf keyID: KeyID) -> (keyID: KeyID, newURI: String?) {
        guard let uri = byKeyID[keyID] ?? byReplacedKeyID[keyID], let name = byURI[uri] else {
            return (mediaKeyID, nil)
        }
        if let known = byKeyID[mediaKeyID] { return (known == uri ? mediaKeyID : name.keyID, nil) }
        guard !mediaKeyID.isZero else { return (name.keyID, nil) }
        let hasRoom = !name.isOfMedia || name.others.count < Self.otherLimit
        return (mediaKeyID, hasRoom ? uri : nil)
    }

    private mutating func set(_ uri: String, _ name: Name) {
        makeRoom(for: 1)
        byURI[uri] = name
        byKeyID[name.keyID] = uri
        order.append(uri)
        size += uri.utf8.count + name.size
    }

    private mutating func describe(_ keyID: KeyID, _ description: Description?) {
        size += (description?.size ?? 0) - (descriptions[keyID]?.size ?? 0)
        descriptions[keyID] = description
    }

    /// Forgets the oldest half, of the URIs or of the bytes.
    private mutating func makeRoom(for count: Int = 0) {
        let least = order.count + count > Self.limit ? Self.limit / 2 : 0
        let most = size > Self.sizeLimit ? Self.sizeLimit / 2 : size
        var forgotten = 0
        while forgotten < order.count, forgotten < least || size > most {
            let uri = order[forgotten]
            forgotten += 1
            guard let name = byURI.removeValue(forKey: uri) else { continue }
            size -= uri.utf8.count + name.size
            if let replaced = name.replaced { byReplacedKeyID[replaced] = nil }
            for keyID in [name.keyID] + name.others {
                byKeyID[keyID] = nil
                describe(keyID, nil)
            }
        }
        order.removeFirst(forgotten)
    }
}

extension KeySession {
    /// With what the name of a key begins that stands in the playlist itself, in a `data:` URI.
    package static let keyInURI = "data:,"

    /// These KIDs, and all others that stand for the same keys, or did so before: a loader may have answered under one of them.
    package func names(of keyIDs: [KeyID]) -> [KeyID] {
        core.withLock { core in
            let current = Set(keyIDs.compactMap { core.state.current($0) })
            let names = current.union(core.state.secondNames.filter { current.contains($0.value) }.map(\.key))
            return keyIDs + names.subtracting(keyIDs)
        }
    }

    /// What to ask for if a group of samples has `mediaKeyID`, and the sample entry `keyID`: if the latter stands for a key that
    /// a playlist names, the group's KID does too, unless something else was asked for or is there under it.
    package func keyID(ofGroup mediaKeyID: KeyID, inTrackOf keyID: KeyID) -> KeyID {
        let (found, newURI) = core.withLock { core -> (KeyID, String?) in
            let (found, newURI) = core.names.keyID(ofGroup: mediaKeyID, inTrackOf: keyID)
            return (found, core.state.entries[mediaKeyID] == nil ? newURI : nil)
        }
        return newURI.map { self.keyID(forURI: $0, mediaKeyID: mediaKeyID) } ?? found
    }
}
