// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyKeySystems
public import LatchkeyProtection

/// What a reference license service grants: the query language of Microsoft's public test service.
///
/// ```
/// cfg=(persist:false,firstexp:60,ucvopl:270)            for every KID of the header
/// cfg=(kid:BASE64,sl:150),(kid:BASE64,errorcode:0x8004C605)
/// ```
///
/// | name | value |
/// |---|---|
/// | `kid` | Base64 in GUID order, or a UUID; `header` or nothing: all of the header |
/// | `contentkey`, `ck` | Base64, 16 bytes |
/// | `ckt` | `aesctr`, `aescbc` |
/// | `sl` | minimum security level |
/// | `persist` | `true` (default), `false` |
/// | `begindate`, `enddate`, `removaldate` | seconds since 1970, or `yyyymmdd` or `yyyymmddhhmmss` in UTC |
/// | `life` | seconds from the answer to the end |
/// | `firstexp` | seconds from the first play |
/// | `storeexp` | seconds from the moment that the license is stored |
/// | `realtime` | `true`, `false` |
/// | `grace` | seconds |
/// | `cvopl`, `ucvopl`, `avopl`, `caopl`, `ucaopl` | output levels: compressed and uncompressed video, analog video, compressed and uncompressed audio |
/// | `playenablers` | a GUID, in brackets or not |
/// | `domain` | a GUID: bind the license to this account |
/// | `rightsid` | a GUID: the rights id of each license of this group, in place of a random one |
/// | `tid` | transaction id, Base64: ask for an acknowledgement |
/// | `play` | `false` leaves the right to play out |
/// | `errorcode` | answer with this fault, `0x…` |
/// | `customdata` | for the client |
/// | `revoke` | a certificate of the test authority, `license-signer` say: send a revocation list that names it |
/// | `crl` | the version of that list, 1 without it; clients that have it get none |
/// | `redirect` | a URL, in place of licenses; `%3A` and `%2C` stand for colons and commas |
/// | `defect` | `signer`, `root`, `signature`, `nonce`, `license`: an answer that a client has to refuse |
///
/// `persist`, `begindate`, `firstexp`, `realtime`, `ucvopl`, `tid` and `errorcode` are the test service's
/// (<https://learn.microsoft.com/playready/advanced/testservers/playready-test-server-service>); the others are named in
/// its manner. A name that is not known is an error.
public struct PlayReadyServerPolicy: Sendable {
    /// What is granted for one KID, or for all.
    public struct Grant: Sendable {
        /// Nil for all KIDs of the header.
        public var keyID: KeyID?
        /// Nil for the service's own key.
        public var key: ContentKey?
        /// For what the key is; nil leaves that to the server.
        public var keyType: XMRTerms.KeyType?
        /// What the license says; the wrapped key and what it is bound to are added for each request.
        public var terms: XMRTerms
        /// Seconds from the answer to the license's end; nil: as the terms say.
        public var lifetime: UInt32?
        /// The account to bind the license to.
        public var domain: GUID?
        /// The rights id of its licenses; nil: a random one for each, and the request's nonce where it may not be stored.
        public var rightsID: GUID?

        /// Without `terms`: playback without limits.
        public init(keyID: KeyID? = nil, terms: XMRTerms? = nil) {
            self.keyID = keyID
            var standard = XMRTerms()
            standard.allowsPlayback = true
            self.terms = terms ?? standard
        }
    }

    /// What is wrong with an answer, for tests of clients.
    public enum Defect: String, Sendable, CaseIterable {
        /// Signed by somebody of the same root who may not sign licenses.
        case signer
        /// Signed under another root.
        case root
        /// Changed after it was signed.
        case signature
        /// Made for another request.
        case nonce
        /// The license in it was changed before the answer was signed.
        case license
    }

    /// The licenses of an answer.
    public var grants: [Grant]
    /// What is wrong with the answer, for tests; nil where nothing is.
    public var defect: Defect?
    /// Answer with this instead of licenses.
    public var fault: PlayReadyFault?
    /// What the client is told, as text.
    public var customData: String?
    /// Names the answer for an acknowledgement; nil names none.
    public var transactionID: [UInt8]?
    /// Certificates of the authority that clients are to be told of, by name.
    public var revoked: [String] = []
    /// Of the list with them; nil for no list.
    public var revocationListVersion: UInt32?
    /// Refuse clients whose clock differs by more seconds than this; nil takes any.
    public var maximumClockSkew: UInt32?

    /// Without arguments: every key of the header, for playback without limits.
    public init(grants: [Grant] = [Grant()]) { self.grants = grants }

    /// Why a query cannot be read.
    public struct ParseError: Error, Hashable, Sendable, CustomStringConvertible {
        /// What is wrong with the query.
        public let description: String
    }

    /// Reads the value of `cfg`, with or without `cfg=` in front. An empty text grants everything. Throws `ParseError`
    /// for a name that is not known and a value that cannot be read.
    public init(query text: some StringProtocol) throws(ParseError) {
        var rest = String(text)
        if rest.hasPrefix("cfg=") { rest.removeFirst(4) }
        self.init(grants: [])
        for group in try Self.groups(rest) {
            var grant = Grant()
            for item in group.split(separator: ",") {
                let parts = item.split(separator: ":", maxSplits: 1).map { Self.trimmed($0) }
                guard parts.count == 2 else { throw ParseError(description: "“\(item)” is no name:value") }
                try set(parts[0].lowercased(), parts[1], &grant)
            }
            grants.append(grant)
        }
        if grants.isEmpty { grants = [Grant()] }
    }

    private static func trimmed(_ text: Substring) -> String {
        String(text.drop { $0 == " " }.reversed().drop { $0 == " " }.reversed())
    }

    /// What stands between brackets, which may hold others; all of the text where there are none.
    private static func groups(_ text: String) throws(ParseError) -> [Substring] {
        guard text.contains("(") else { return text.isEmpty ? [] : [text[...]] }
        var groups: [Substring] = []
        var rest = text[...]
        while let open = rest.firstIndex(of: "(") {
            var depth = 0
            let end = rest[open...].firstIndex { character in
                depth += character == "(" ? 1 : character == ")" ? -1 : 0
                return depth == 0
            }
            guard let close = end else { throw ParseError(description: "a bracket is open") }
            groups.append(rest[rest.index(after: open)..<close])
            rest = rest[rest.index(after: close)...]
        }
        return groups
    }
}

extension PlayReadyServerPolicy {
    mutating func set(_ name: String, _ value: String, _ grant: inout Grant) throws(ParseError) {
        switch name {
        case "errorcode":
            let code: UInt32 = try Self.number(name, value)
            fault = PlayReadyFault(code: code, text: "asked for", customData: fault?.customData ?? customData)
        case "redirect":
            fault = PlayReadyFault(
                code: PlayReadyFault.redirect, text: "asked for",
                redirectURL: value.replacing("%3A", with: ":").replacing("%2C", with: ","))
        case "defect":
            guard let known = Defect(rawValue: value) else {
                throw ParseError(
                    description: "defect: \(Defect.allCases.map(\.rawValue).joined(separator: ", "))")
            }
            defect = known
        case "customdata":
            customData = value
            fault?.customData = value
        case "tid": transactionID = try Self.bytes(name, value)
        case "crl": revocationListVersion = try Self.number(name, value)
        case "revoke":
            revoked.append(value)
            revocationListVersion = revocationListVersion ?? 1
        case "life": grant.lifetime = try Self.number(name, value)
        case "kid": grant.keyID = value == "header" ? nil : try Self.keyID(value)
        case "contentkey", "ck":
            var bytes = try Self.bytes(name, value)
            defer { wipe(&bytes) }
            guard let key = ContentKey(bytes) else { throw ParseError(description: "contentkey: 16 bytes") }
            grant.key = key
        case "ckt":
            guard let type = ["aesctr": XMRTerms.KeyType.aesCTR, "aescbc": .aesCBC][value.lowercased()] else {
                throw ParseError(description: "ckt: aesctr or aescbc")
            }
            grant.keyType = type
        case "domain":
            guard let id = GUID(value) else { throw ParseError(description: "domain: a GUID") }
            grant.domain = id
        case "rightsid":
            guard let id = GUID(value) else { throw ParseError(description: "rightsid: a GUID") }
            grant.rightsID = id
        default: try Self.set(name, value, &grant.terms)
        }
    }

    private static func set(_ name: String, _ value: String, _ terms: inout XMRTerms) throws(ParseError) {
        var levels = terms.outputLevels ?? .init()
        switch name {
        case "sl": terms.minimumSecurityLevel = try number(name, value)
        case "persist": terms.cannotPersist = try !flag(name, value)
        case "begindate": terms.begin = try date(name, value)
        case "enddate": terms.end = try date(name, value)
        case "removaldate": terms.removalDate = try date(name, value)
        case "firstexp": terms.expirationAfterFirstPlay = try number(name, value)
        case "storeexp": terms.expirationAfterFirstStore = try number(name, value)
        case "realtime": terms.hasRealTimeExpiration = try flag(name, value)
        case "grace": terms.gracePeriod = try number(name, value)
        case "play": terms.allowsPlayback = try flag(name, value)
        case "cvopl": levels.compressedDigitalVideo = try number(name, value)
        case "ucvopl": levels.uncompressedDigitalVideo = try number(name, value)
        case "avopl": levels.analogVideo = try number(name, value)
        case "caopl": levels.compressedDigitalAudio = try number(name, value)
        case "ucaopl": levels.uncompressedDigitalAudio = try number(name, value)
        case "playenablers":
            let bare = value.hasPrefix("(") && value.hasSuffix(")") ? String(value.dropFirst().dropLast()) : value
            guard let id = GUID(bare) else { throw ParseError(description: "playenablers: a GUID") }
            terms.playEnablers.append(id)
        default: throw ParseError(description: "“\(name)” is not known")
        }
        if levels != terms.outputLevels ?? .init() || name.hasSuffix("opl") { terms.outputLevels = levels }
    }

    private static func number<Number: FixedWidthInteger>(
        _ name: String, _ value: String
    ) throws(ParseError) -> Number {
        let isHexadecimal = value.lowercased().hasPrefix("0x")
        guard let number = isHexadecimal ? Number(value.dropFirst(2), radix: 16) : Number(value) else {
            throw ParseError(description: "\(name): a number of at most \(Number.bitWidth) bits")
        }
        return number
    }

    private static func flag(_ name: String, _ value: String) throws(ParseError) -> Bool {
        switch value.lowercased() {
        case "true", "1": true
        case "false", "0": false
        default: throw ParseError(description: "\(name): true or false")
        }
    }

    private static func bytes(_ name: String, _ value: String) throws(ParseError) -> [UInt8] {
        guard let bytes = Base64.decode(value) else { throw ParseError(description: "\(name): Base64") }
        return bytes
    }

    private static func keyID(_ value: String) throws(ParseError) -> KeyID {
        if let keyID = KeyID(hex: value) { return keyID }
        guard let keyID = KeyID(guidOrder: try bytes("kid", value)) else {
            throw ParseError(description: "kid: 16 bytes in Base64, or a UUID")
        }
        return keyID
    }

    /// Seconds since 1970.
    private static func date(_ name: String, _ value: String) throws(ParseError) -> UInt32 {
        let digits = Array(value.utf8)
        guard digits.allSatisfy({ (0x30...0x39).contains($0) }), digits.count <= 10 || digits.count == 14 else {
            throw ParseError(description: "\(name): seconds, yyyymmdd or yyyymmddhhmmss")
        }
        guard digits.count == 8 || digits.count == 14 else { return try number(name, value) }
        func part(_ range: Range<Int>) -> Int {
            range.upperBound > digits.count ? 0 : Int(value.dropFirst(range.lowerBound).prefix(range.count)) ?? 0
        }
        let (year, month, day) = (part(0..<4), part(4..<6), part(6..<8))
        let (hour, minute, second) = (part(8..<10), part(10..<12), part(12..<14))
        guard (1970...2105).contains(year), (1...12).contains(month), (1...31).contains(day), hour < 24, minute < 60,
            second < 60
        else { throw ParseError(description: "\(name): no date from 1970 to 2105") }
        // Days since 1970, with years that start in March.
        let shifted = month > 2 ? year : year - 1
        let dayOfYear = (153 * (month > 2 ? month - 3 : month + 9) + 2) / 5 + day - 1
        let days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + dayOfYear - 719_468
        return UInt32(days * 86400 + hour * 3600 + minute * 60 + second)
    }
}
