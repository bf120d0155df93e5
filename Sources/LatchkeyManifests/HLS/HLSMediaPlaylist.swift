// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
public import LatchkeyProtection

/// The media initialization section of segments (`EXT-X-MAP`; RFC 8216, 4.3.2.5).
public struct HLSMap: Hashable, Sendable {
    /// Where the section is at the origin; absolute.
    public var url: String
    /// Nil for the whole resource.
    public var byteRange: HLSByteRange?
    /// Set where the section is encrypted as a whole.
    public var decryption: HLSSegmentDecryption?

    /// What of the resource is needed; nil for all of it.
    var encryptedRange: HLSByteRange? { decryption.map { $0.encryptedRange(byteRange) } ?? byteRange }
}

/// What opens a resource that is encrypted as a whole: AES-128 in CBC mode with PKCS#7 padding (RFC 8216, 4.3.2.4 and
/// 5.2).
public struct HLSSegmentDecryption: Hashable, Sendable {
    /// Its method is `aes128`; its answer may bring the IV too.
    public var key: HLSKey {
        get { sharedKey.value }
        set { sharedKey = HLSShared(newValue) }
    }
    private var sharedKey: HLSShared<HLSKey>
    /// Nil where the answer to the key request brings it.
    public var initializationVector: InitializationVector?
    /// Whether a part is opened that is not encrypted by itself, as a key frame of `EXT-X-I-FRAMES-ONLY`: its byte range counts
    /// bytes in the clear, of a resource that is encrypted from its start (RFC 8216, 6.2.3 and 6.3.6).
    public var isPart: Bool

    /// A nil `initializationVector` leaves the IV to the answer of the key request.
    public init(key: HLSKey, initializationVector: InitializationVector?, isPart: Bool = false) {
        self.init(sharedKey: HLSShared(key), initializationVector: initializationVector, isPart: isPart)
    }

    /// For one of many segments with that key.
    init(sharedKey: HLSShared<HLSKey>, initializationVector: InitializationVector?, isPart: Bool) {
        self.sharedKey = sharedKey
        self.initializationVector = initializationVector
        self.isPart = isPart
    }

    /// The encrypted bytes that are needed for a byte range of the playlist, which has whole blocks unless it is that of a part. If
    /// it has the size in the clear, a block of padding may be behind it; nothing in the playlist tells, and its bytes do. So that
    /// block is asked for, and the resource may end in front of it.
    public func encryptedRange(_ range: HLSByteRange?) -> HLSByteRange? {
        isPart ? range?.cipherBlocks : range?.withBlockBehind
    }
}

/// A media playlist, read: its segments with the key and the map that hold for each.
struct HLSMediaPlaylist: Sendable {
    struct Segment: Sendable {
        /// Absolute. Nil for the parts of a segment that is not there yet.
        var url: String?
        var sequence: UInt64
        /// In seconds.
        var duration: Double
        var byteRange: HLSByteRange?
        var sharedKey: HLSShared<HLSKey>?
        var sharedMap: HLSShared<HLSMap>?
        /// See `HLSSegmentDecryption`.
        var isPart = false
        /// Indices of `lines`; the last is the URI.
        var lines: Range<Int>

        var key: HLSKey? { sharedKey?.value }
        var map: HLSMap? { sharedMap?.value }
        /// The key, if it encrypts samples.
        var sampleKey: HLSKey? { key.flatMap { $0.method.encryptsSamples ? $0 : nil } }
        /// What opens the segment, if it is encrypted as a whole.
        var decryption: HLSSegmentDecryption? {
            guard let sharedKey, sharedKey.value.method == .aes128 else { return nil }
            return HLSSegmentDecryption(
                sharedKey: sharedKey, initializationVector: sharedKey.value.initializationVector(forSegment: sequence),
                isPart: isPart)
        }
        /// What of the resource is needed; nil for all of it.
        var encryptedRange: HLSByteRange? { decryption.map { $0.encryptedRange(byteRange) } ?? byteRange }
    }

    /// Those of the playlist, with the variables filled in. Their definitions are empty lines.
    var lines: [HLSLine] = []
    var segments: [Segment] = []
    var targetDuration: Double?
    var mediaSequence: UInt64 = 0
    /// The number of the discontinuity in front of the first segment, without a tag of its own.
    var discontinuity: UInt64 = 0
    var isEnded = false
    /// Whether it leaves segments out that the player has seen.
    var isDelta = false
    /// What holds behind the last segment.
    var scope = HLSKeyScope()
    /// Where `scope` changes, with the number of the first segment.
    var scopeChanges: [(sequence: UInt64, scope: HLSKeyScope)] = []
    /// A key that is announced behind the last segment.
    var upcomingKey: HLSKey?
    var variables: [String: String] = [:]
}

extension HLSMediaPlaylist {
    /// In bytes, of all absolute URLs: a long playlist URL and many short references must not fill the memory.
    static let maximumURLSize = 32 * 1024 * 1024

    /// Reads `playlist`. `window` is what the last refresh left behind: a delta update goes on from there. `urlLimit`: see
    /// `maximumURLSize`.
    ///
    /// Throws with the number of the line.
    init(
        _ playlist: HLSPlaylist, base: URIBase, variables: HLSVariables, keyFormats: [HLSKeyFormat],
        window: HLSWindow, keyLimit: Int, urlLimit: Int = HLSMediaPlaylist.maximumURLSize
    ) throws(FormatError) {
        var reader = Reader(
            playlist.lines, base: base, keyFormats: keyFormats, window: window, keyLimit: keyLimit, urlLimit: urlLimit,
            variables: variables)
        for line in playlist.lines {
            do throws(FormatError) {
                try reader.read(line)
            } catch {
                // The problems of keys name their own lines.
                throw error.reason.hasPrefix("line ") ? error : error.within("line \(line.number)")
            }
        }
        self = try reader.finish()
    }
}

/// The state between two lines.
private struct Reader {
    let base: URIBase
    let keyFormats: [HLSKeyFormat]
    let window: HLSWindow
    let keyLimit: Int
    let urlLimit: Int
    var variables: HLSVariables
    private var result = HLSMediaPlaylist()
    private var sequence: UInt64 = 0
    private var map: HLSShared<HLSMap>?
    private var key: HLSShared<HLSKey>?
    private var isKeyKnown = false
    private var duration: Double?
    private var byteRange: Substring?
    private var hasParts = false
    private var isOfKeyFrames = false
    private var firstLine = 0
    /// Where the byte range of the segment in front ends; nil where that has none.
    private var previousEnd: UInt64?
    /// How many lines were read.
    private var lineCount = 0
    private var urlSize = 0
    private var keyCount = 0
    private var mapCount = 0

    /// `read` gets `lines` one after the other. As long as no variable changes one, there is no second copy of them.
    init(
        _ lines: [HLSLine], base: URIBase, keyFormats: [HLSKeyFormat], window: HLSWindow, keyLimit: Int, urlLimit: Int,
        variables: HLSVariables
    ) {
        result.lines = lines
        self.base = base
        self.keyFormats = keyFormats
        self.window = window
        self.keyLimit = keyLimit
        self.urlLimit = urlLimit
        self.variables = variables
        // All others are tags, comments or blank.
        let count = lines.reduce(0) { $1.text.utf8.first == UInt8(ascii: "#") ? $0 : $0 + 1 }
        result.segments.reserveCapacity(count)
    }

    mutating func read(_ line: HLSLine) throws(FormatError) {
        var line = line
        let index = lineCount
        lineCount += 1
        if variables.areUsed {
            line.text = try variables.substituting(line.text)
            result.lines[index].text = line.text
        }
        switch line.content {
        case .blank, .comment: break
        case .tag(let name, let value):
            if name == "EXT-X-DEFINE" {
                try variables.define(try HLSAttributeList(parsing: value ?? ""))
                result.lines[index].text = ""
                result.lines[index].ending = ""
            } else {
                try readTag(name, value ?? "", line: line.number)
            }
        case .uri(let reference):
            // Not a segment without EXTINF; the stock demuxer sees it that way too.
            if let duration { try readSegment(reference, duration: duration) }
        }
    }

    private mutating func readTag(_ name: Substring, _ value: Substring, line: Int) throws(FormatError) {
        switch name {
        case "EXTINF": duration = seconds(value.prefix { $0 != "," }) ?? 0
        case "EXT-X-BYTERANGE": byteRange = value
        case "EXT-X-PART": hasParts = true
        case "EXT-X-I-FRAMES-ONLY": isOfKeyFrames = true
        case "EXT-X-TARGETDURATION": result.targetDuration = seconds(value)
        case "EXT-X-ENDLIST": result.isEnded = true
        case "EXT-X-MEDIA-SEQUENCE":
            guard let number = hlsInteger(value) else { throw .malformed("EXT-X-MEDIA-SEQUENCE") }
            guard result.segments.isEmpty, !result.isDelta else { break }
            sequence = number
            result.mediaSequence = number
        case "EXT-X-DISCONTINUITY-SEQUENCE": result.discontinuity = hlsInteger(value) ?? 0
        case "EXT-X-KEY":
            keyCount += 1
            try checkCounts()
            let size = try result.scope.apply(value, line: line, base: base.reference)
            try count(urlOf: size)
            isKeyKnown = false
        case "EXT-X-MAP":
            mapCount += 1
            try checkCounts()
            map = HLSShared(try readMap(value))
        case "EXT-X-SKIP": try skip(value)
        default: break
        }
    }

    private func checkCounts() throws(FormatError) {
        for (count, name) in [(keyCount, "EXT-X-KEY"), (mapCount, "EXT-X-MAP")] where count > keyLimit {
            throw .tooLarge(
                "more than \(keyLimit) \(name) tags; playlist-keys in [latchkey] of the configuration file sets the limit"
            )
        }
        guard keyCount + mapCount <= HLSPlaylist.maximumKeysAndMaps else {
            throw .tooLarge("more than \(HLSPlaylist.maximumKeysAndMaps) EXT-X-KEY and EXT-X-MAP tags")
        }
    }

    private mutating func readSegment(_ reference: Substring, duration: Double) throws(FormatError) {
        let url = try absolute(reference)
        try findKey()
        var range: HLSByteRange?
        if let byteRange {
            // As for the stock demuxer, one without an offset goes on where the one in front ends, also if that is of another
            // URL: each URL of one file may have a token of its own. If it follows none, it starts with the resource.
            let found = try HLSByteRange(parsing: byteRange, previousEnd: previousEnd ?? 0)
            range = key?.value.method == .aes128 && !isOfKeyFrames ? found.wholeBlocks : found
        }
        previousEnd = range?.end
        try appendSegment(url: url, duration: duration, byteRange: range)
        let (next, overflow) = sequence.addingReportingOverflow(1)
        guard !overflow else { throw .malformed("a media sequence number above 2^64 - 1") }
        sequence = next
        (self.duration, byteRange, hasParts) = (nil, nil, false)
    }

    /// The key that holds for the next segment.
    private mutating func findKey() throws(FormatError) {
        guard !isKeyKnown else { return }
        key = try result.scope.key(formats: keyFormats).map { HLSShared($0) }
        isKeyKnown = true
        result.scope.beginSegment()
        result.scopeChanges.append((sequence, result.scope))
        if result.scopeChanges.count > 2 * HLSWindow.maximumScopes {
            result.scopeChanges.removeFirst(HLSWindow.maximumScopes)
        }
    }

    private mutating func appendSegment(url: String?, duration: Double, byteRange: HLSByteRange?) throws(FormatError) {
        try findKey()
        result.segments.append(
            HLSMediaPlaylist.Segment(
                url: url, sequence: sequence, duration: duration, byteRange: byteRange, sharedKey: key, sharedMap: map,
                isPart: isOfKeyFrames && byteRange != nil, lines: firstLine..<lineCount))
        firstLine = lineCount
    }

    private mutating func readMap(_ value: Substring) throws(FormatError) -> HLSMap {
        let list = try HLSAttributeList(parsing: value)
        guard let reference = list["URI"], !reference.isEmpty else { throw .malformed("EXT-X-MAP without a URI") }
        var map = HLSMap(url: try absolute(reference[...]))
        if let range = list["BYTERANGE"] {
            // Without an offset, the section starts with the resource.
            map.byteRange = try HLSByteRange(parsing: range, previousEnd: 0)
        }
        let holding = try? result.scope.key(formats: keyFormats)
        if let holding, holding.method == .aes128 {
            let isPart = isOfKeyFrames && map.byteRange != nil
            if !isPart { map.byteRange = map.byteRange?.wholeBlocks }
            // RFC 8216, 4.3.2.5 demands an IV; without one, players take zeros. With the number of a segment in the place of these,
            // only the last bytes of the first block would differ: the version of a brand.
            let vector = holding.initializationVector(forSegment: 0)
            map.decryption = HLSSegmentDecryption(key: holding, initializationVector: vector, isPart: isPart)
        }
        return map
    }

    /// A delta update (draft-pantos-hls-rfc8216bis, 4.4.5.2): what held for the segments left out holds on.
    private mutating func skip(_ value: Substring) throws(FormatError) {
        let list = try HLSAttributeList(parsing: value)
        guard let text = list["SKIPPED-SEGMENTS"], let count = hlsInteger(text) else {
            throw .malformed("EXT-X-SKIP without SKIPPED-SEGMENTS")
        }
        guard count > 0, result.segments.isEmpty else { return }
        let (next, overflow) = sequence.addingReportingOverflow(count)
        guard !overflow, let last = window.record(next &- 1), let scope = window.scope(next &- 1) else {
            throw .unsupported("a delta update that goes on from segments not seen; load the whole playlist")
        }
        sequence = next
        result.isDelta = true
        result.scope = scope
        isKeyKnown = false
        map = last.sharedMap
        previousEnd = last.byteRange?.end
    }

    mutating func finish() throws(FormatError) -> HLSMediaPlaylist {
        if hasParts { try appendSegment(url: nil, duration: 0, byteRange: nil) }
        if !isKeyKnown { result.upcomingKey = try? result.scope.key(formats: keyFormats) }
        result.variables = variables.values
        return result
    }

    private mutating func absolute(_ reference: Substring) throws(FormatError) -> String {
        let url = base.resolve(reference)
        guard url.utf8.count <= URIReference.maximumURLSize else {
            throw .tooLarge("a URL of \(url.utf8.count) bytes; \(URIReference.maximumURLSize) are read")
        }
        try count(urlOf: url.utf8.count)
        return url
    }

    /// Counts a URL of so many bytes.
    private mutating func count(urlOf size: Int) throws(FormatError) {
        urlSize += size
        guard urlSize <= urlLimit else {
            throw .tooLarge("more than \(urlLimit) bytes of absolute URLs")
        }
    }

    private func seconds(_ text: Substring) -> Double? {
        let digits = text.utf8.drop { $0 == 0x20 }.prefix { 0x30...0x39 ~= $0 || $0 == UInt8(ascii: ".") }
        guard digits.count <= 32, let value = Double(Substring(digits)), value.isFinite else { return nil }
        return value
    }
}

/// The `EXT-X-KEY` tags that hold at one place of a playlist (draft-pantos-hls-rfc8216bis, 4.4.4.4).
///
/// A tag holds until the next one of the same KEYFORMAT, or until METHOD=NONE. Tags that hold together have to give the same key
/// for the same segments. So a tag also ends those in front of an earlier segment that have another METHOD.
struct HLSKeyScope: Hashable, Sendable {
    /// The most KEYFORMATs that hold at a time.
    static let maximumCount = 16

    private struct Tag: Hashable, Sendable {
        var keyFormat: String
        var line: Int
        /// Nil for a tag that cannot be read.
        var key: HLSKey?
        var problem: FormatError?
        /// Whether a segment is behind it.
        var hasSegment = false
    }

    private var tags: [Tag] = []

    /// Takes one tag. A tag that cannot be read is kept with its problem: another KEYFORMAT may do. Returns how many bytes the
    /// key's URI has.
    @discardableResult
    mutating func apply(_ value: Substring, line: Int, base: URIReference) throws(FormatError) -> Int {
        let list = try HLSAttributeList(parsing: value)
        var tag = Tag(keyFormat: list["KEYFORMAT"] ?? HLSKeyFormat.identity.name, line: line)
        do throws(FormatError) {
            let key = try HLSKey(list)
            guard key.method != .none else {
                tags = []
                return 0
            }
            tag.key = key.resolved(against: base)
            tags.removeAll { old in old.hasSegment && old.key.map { $0.method != key.method } ?? false }
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
        return tag.key?.uri?.utf8.count ?? 0
    }

    /// A segment has the tags so far.
    mutating func beginSegment() {
        for index in tags.indices { tags[index].hasSegment = true }
    }

    /// The key to use: that of the first format of `formats` that is there and can be used. Nil if segments are clear.
    ///
    /// A whole-segment key that any client can fetch (AES-128, `identity`) can always be used. Throws the problem of a
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
