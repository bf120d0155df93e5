// SPDX-License-Identifier: MPL-2.0

/// Finds out which sound goes with each variant of a master playlist, while it is read.
struct HLSDefaultAudio {
    private struct Group {
        var first: String
        var isAlone = true
        /// The first with `DEFAULT=YES`.
        var preferred: String?
    }

    private var groups: [String: Group] = [:]
    private var variants: [(url: String, group: String)] = []
    /// The `AUDIO` of the variant whose URL comes next.
    private var pending: String?

    /// An `EXT-X-MEDIA` of the type AUDIO whose playlist is at `url`.
    mutating func add(_ list: HLSAttributeList, _ url: String) {
        guard let name = list["GROUP-ID"] else { return }
        var group = groups[name] ?? Group(first: url)
        if group.first != url { group.isAlone = false }
        if list["DEFAULT"] == "YES", group.preferred == nil { group.preferred = url }
        groups[name] = group
    }

    mutating func variantBegins(_ attributes: Substring) {
        pending = (try? HLSAttributeList(parsing: attributes))?["AUDIO"]
    }

    mutating func variantEnds(_ url: String) {
        if let pending { variants.append((url, pending)) }
        pending = nil
    }

    var byVariant: [String: String] {
        var found: [String: String] = [:]
        for (url, name) in variants where found[url] == nil {
            guard let group = groups[name] else { continue }
            found[url] = group.preferred ?? (group.isAlone ? group.first : nil)
        }
        return found
    }
}
