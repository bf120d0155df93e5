// SPDX-License-Identifier: MPL-2.0

/// The keys that an item needs in playback without the network.
extension ItemStore {
    /// Keeps a key, sealed; nil: it is needed and cannot be kept.
    func keep(_ key: [UInt8]?, from url: String) throws(CacheError) {
        guard let index, let keySeal else { return }
        try becomeWriter()
        let sealed = try key.map { key throws(CacheError) in try keySeal.seal(key, from: url) } ?? []
        try index.write(key: sealed, from: url)
        tables.keys[url] = sealed
        missing = nil
    }

    /// Takes note of the keys that the content needs: at URLs, and those that key servers give, by URI. Those that nobody
    /// has kept, or asked for to be stored, count as missing.
    func needKeys(_ urls: [String], ofServers uris: [String]) throws(CacheError) {
        let new = urls.filter { tables.keys[$0] == nil }
        let newURIs = uris.filter { tables.refusals[$0] == nil }
        guard !new.isEmpty || !newURIs.isEmpty else { return }
        if let index, writer != nil {
            try index.transaction { () throws(CacheError) in
                for url in new { try index.write(key: [], from: url) }
                for uri in newURIs { try index.write(serverKey: uri, refusal: Self.unasked) }
            }
        } else {
            isPlanUnstored = true
        }
        for url in new { tables.keys[url] = [] }
        for uri in newURIs { tables.refusals[uri] = Self.unasked }
        missing = nil
    }

    /// Forgets what the content does not name any more: all but the keys at these URLs, and those that key servers give.
    func forgetKeys(otherThan urls: Set<String>, ofServers uris: Set<String>) throws(CacheError) {
        let (old, oldURIs) = (
            tables.keys.keys.filter { !urls.contains($0) },
            tables.refusals.keys.filter { !uris.contains($0) && $0 != Self.license }
        )
        guard let index, !old.isEmpty || !oldURIs.isEmpty else { return }
        try becomeWriter()
        try index.transaction { () throws(CacheError) in
            for url in old { try index.removeKey(from: url) }
            for uri in oldURIs { try index.removeServerKey(uri) }
        }
        for url in old { tables.keys[url] = nil }
        for uri in oldURIs { tables.refusals[uri] = nil }
        missing = nil
    }

    /// Forgets what has become of a key that playback does without.
    func forget(serverKey uri: String) throws(CacheError) {
        guard let index, tables.refusals[uri] != nil else { return }
        try becomeWriter()
        try index.removeServerKey(uri)
        tables.refusals[uri] = nil
    }

    /// Stands among the key URIs for what the content's licence says of all of its keys; no URI is empty.
    static let license = ""

    private static let unasked = "no download has asked for it"

    /// What has become of a key that a key server gives: stored, or why not.
    func note(serverKey uri: String, refusal: String?) throws(CacheError) {
        guard let index, tables.refusals[uri] != refusal ?? "" else { return }
        try becomeWriter()
        try index.write(serverKey: uri, refusal: refusal ?? "")
        tables.refusals[uri] = refusal ?? ""
    }

    /// The URLs of keys that cannot be used here: those that are not kept, and those that were sealed elsewhere.
    func missingKeys() -> [String] {
        if let missing { return missing }
        let found = tables.keys.filter { url, sealed in keySeal?.open(sealed, from: url) == nil }.keys.sorted()
        missing = found
        return found
    }

    /// Those that can be read here, by URL.
    func keptKeys() -> [String: [UInt8]] {
        var kept: [String: [UInt8]] = [:]
        for (url, sealed) in tables.keys { kept[url] = keySeal?.open(sealed, from: url) }
        return kept
    }
}
