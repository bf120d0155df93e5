// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
public import LatchkeyProtection

/// What a reference licence service grants: the query language of Microsoft's public test service.
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
/// | `realtime` | `true`, `false` |
/// | `grace` | seconds |
/// | `cvopl`, `ucvopl`, `avopl`, `caopl`, `ucaopl` | output levels: compressed and uncompressed video, analog video, compressed and uncompressed audio |
/// | `playenablers` | a GUID, in brackets or not |
/// | `domain` | a GUID: bind the licence to this account |
/// | `rightsid` | a GUID: the rights id of each licence of this group, in place of a random one |
/// | `tid` | transaction id, Base64: ask for an acknowledgement |
/// | `play` | `false` leaves the right to play out |
/// | `errorcode` | answer with this fault, `0x…` |
/// | `customdata` | for the client |
/// | `revoke` | a certificate of the test authority, `license-signer` say: send a revocation list that names it |
/// | `crl` | the version of that list, 1 without it; clients that have it get none |
/// | `redirect` | a URL, in place of licences; `%3A` and `%2C` stand for colons and commas |
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
        /// What the licence says; the wrapped key and what it is bound to are added for each request.
        public var terms: XMRTerms
        /// Seconds from the answer to the licence's end; nil: as the terms say.
        public var lifetime: UInt32?
        /// The account to bind the licence to.
        public var domain: GUID?
        /// The rights id of its licences; nil: a random one for each, and the request's nonce where it may not be stored.
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
        /// Signed by somebody of the same root who may not sign licences.
        case signer
        /// Signed under another root.
        case root
        /// Changed after it was signed.
        case signature
        /// Made for another request.
        case nonce
        /// The licence in it was changed before the answer was signed.
        case license
    }

    /// The licences of an answer.
    public var grants: [Grant]
    /// What is wrong with the answer, for tests; nil where nothing is.
    public var defect: Defect?
    /// Answer with this instead of licences.
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
