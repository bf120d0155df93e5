// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

/// The `EXT-X-KEY` tags that hold at one place of a playlist (draft-pantos-hls-rfc8216bis, 4.4.4.4).
///
/// A tag holds until the next one of the same KEYFORMAT, or until METHOD=NONE.
struct HLSKeyScope: Hashable, Sendable {
    /// The most KEYFORMATs that hold at a time.
    static let maximumCount = 16

    private struct Tag: Hashable, Sendable {
        var keyFormat: String
        var line: Int
        /// Nil for a tag that cannot be read.
        var key: HLSKey?
        var problem: FormatError?
    }

    private var tags: [Tag] = []

    /// Takes one tag. A tag that cannot be read is kept with its problem: another KEYFORMAT may do.
    mutating func apply(_ value: Substring, line: Int, base: URIReference) throws(FormatError) {
        let list = try HLSAttributeList(parsing: value)
        var tag = Tag(keyFormat: list["KEYFORMAT"] ?? HLSKeyFormat.identity.name, line: line)
        do throws(FormatError) {
            let key = try HLSKey(list)
            guard key.method != .none else {
                tags = []
                return
            }
            tag.key = key.resolved(against: base)
        } catch {
            tag.problem = error
        }
        if let index = tags.firstIndex(where: { $0.keyFormat == tag.keyFormat }) {
            tags[index] = tag
        } else {
            guard tags.count < Self.maximumCount else {
                throw .tooLarge("more than \(Self.maximumCount) KEYFORMATs for one segment")
            }
            tags.append(tag)
        }
    }

    /// The key to use: that of the first format of `formats` that is there and can be used. Nil where segments are clear.
    ///
    /// A whole-segment key that anybody can fetch (AES-128, `identity`) can always be used. Throws the problem of a
    /// tag, or `unsupported` with what the playlist has; both name lines.
    func key(formats: [HLSKeyFormat]) throws(FormatError) -> HLSKey? {
        guard !tags.isEmpty else { return nil }
        var problem: FormatError?
        for format in formats {
            guard let tag = tags.first(where: { $0.keyFormat == format.name }) else { continue }
            let found = Self.problem(of: tag, format: format)
            guard let found else { return tag.key }
            problem = problem ?? found.within("line \(tag.line)")
        }
        if let tag = tags.first(where: { $0.keyFormat == HLSKeyFormat.identity.name }) {
            let found = Self.problem(of: tag, format: .identity)
            if found == nil, tag.key?.method == .aes128 { return tag.key }
            if let found { problem = problem ?? found.within("line \(tag.line)") }
        }
        if let problem { throw problem }
        let offered = tags.map { "\($0.key?.method.name.prefix(40) ?? "?") with \($0.keyFormat.prefix(64))" }
        let known = formats.map(\.name).joined(separator: ", ")
        throw .unsupported(
            "line \(tags.last?.line ?? 0): no key format that can be used: the playlist has "
                + "\(offered.joined(separator: ", ")); set up are \(known.isEmpty ? "none" : known)")
    }

    private static func problem(of tag: Tag, format: HLSKeyFormat) -> FormatError? {
        guard let key = tag.key else { return tag.problem }
        switch key.method {
        case .aes128, .sampleAES, .sampleAESCTR: break
        case .none, .aes256GCM, .other: return .unsupported("METHOD \(key.method.name.prefix(40))")
        }
        guard !format.versions.isDisjoint(with: key.keyFormatVersions) else {
            let versions = key.keyFormatVersions.prefix(8).map(String.init).joined(separator: "/")
            return .unsupported("KEYFORMATVERSIONS \(versions) of \(key.keyFormat.prefix(64))")
        }
        return nil
    }
}
