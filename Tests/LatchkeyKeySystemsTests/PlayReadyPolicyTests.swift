// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

/// A license in a situation, and what is to come of it.
struct PolicyCase: CustomTestStringConvertible, Sendable {
    typealias Situation = PlayReadyPolicy.Situation

    static let now: UInt32 = 1_700_000_000
    static let domain = GUID("10000000-0000-0000-0000-000000000001") ?? GUID(KeyID(high: 0, low: 0))
    static let rightsID = KeyID(high: 1, low: 2)

    var name: String
    var status: RightsStatus.Kind
    var code: UInt32?
    var action: PlayReadyError.Action?
    var end: Int64?
    var terms: @Sendable (inout XMRTerms) -> Void
    var situation: @Sendable (inout Situation) -> Void

    init(
        _ name: String, _ status: RightsStatus.Kind, code: UInt32? = nil, action: PlayReadyError.Action? = nil,
        end: Int64? = nil, _ terms: @escaping @Sendable (inout XMRTerms) -> Void = { _ in },
        in situation: @escaping @Sendable (inout Situation) -> Void = { _ in }
    ) {
        self.name = name
        self.status = status
        self.code = code
        self.action = action
        self.end = end
        self.terms = terms
        self.situation = situation
    }

    var testDescription: String { name }
}

extension TrustedTime {
    fileprivate static func trusted(_ seconds: UInt32) -> TrustedTime {
        TrustedTime(trust: .observed, time: UnixTime(seconds: Int64(seconds)))
    }

    /// Set back. Nobody knows since when, for nil.
    fileprivate static func untrusted(since: Int64?, latest: UInt32 = 0) -> TrustedTime {
        TrustedTime(
            trust: .rolledBack, time: UnixTime(seconds: Int64(latest)), untrustedSeconds: since ?? Int64(Int32.max))
    }
}

@Suite struct PlayReadyPolicyTests {
    private static let now = PolicyCase.now
    private static let expired: UInt32 = 0x8004_C009
    private static let realTimeExpired: UInt32 = 0x8004_C084
    private static let noClock: UInt32 = 0x8004_C05B

    static let dates: [PolicyCase] = [
        PolicyCase("no limits, trusted time", .valid),
        PolicyCase("no limits, untrusted time", .valid) { _ in
        } in: {
            $0.time = .untrusted(since: nil)
        },
        PolicyCase("begin in the past", .valid) { $0.begin = now - 1 },
        PolicyCase("begin now", .valid) { $0.begin = now },
        PolicyCase("begin in the future", .future, action: .stop) { $0.begin = now + 1 },
        PolicyCase("begin 0 is none, untrusted time", .valid) {
            $0.begin = 0
        } in: {
            $0.time = .untrusted(since: nil)
        },
        PolicyCase("begin in the future, while playing", .future) {
            $0.begin = now + 1
        } in: {
            $0.isPlaying = true
        },
        PolicyCase("begin, untrusted time", .untrustedTime, code: noClock, action: .setClock) {
            $0.begin = 1
        } in: {
            $0.time = .untrusted(since: 0)
        },
        PolicyCase("end in the future", .valid, end: Int64(now + 1)) { $0.end = now + 1 },
        PolicyCase("end now", .expired, code: expired, action: .acquireLicense, end: Int64(now)) { $0.end = now },
        PolicyCase("end in the past", .expired, code: expired, end: Int64(now - 1)) { $0.end = now - 1 },
        PolicyCase("end in the past, while playing", .expired, code: realTimeExpired, end: Int64(now - 1)) {
            $0.end = now - 1
        } in: {
            $0.isPlaying = true
        },
        PolicyCase("end, untrusted time", .untrustedTime, code: noClock, end: Int64(now - 1)) {
            $0.end = now - 1
        } in: {
            $0.time = .untrusted(since: nil)
        },
        PolicyCase("begin and end round now", .valid, end: Int64(now + 9)) { ($0.begin, $0.end) = (now - 9, now + 9) },
        PolicyCase("begin behind end", .expired, end: Int64(now - 9)) { ($0.begin, $0.end) = (now + 9, now - 9) },
        PolicyCase("removal in the future", .valid, end: Int64(now + 1)) { $0.removalDate = now + 1 },
        PolicyCase("removal past", .none, code: 0x8004_C013, action: .acquireLicense, end: Int64(now)) {
            $0.removalDate = now
        },
        PolicyCase("removal past, end in the future", .none, end: Int64(now)) {
            ($0.removalDate, $0.end) = (now, now + 9)
        },
        PolicyCase("removal, untrusted time", .untrustedTime, end: Int64(now + 1)) {
            $0.removalDate = now + 1
        } in: {
            $0.time = .untrusted(since: nil)
        },
        // The public sample: request 1446224160, issue 1446224170, end 1446224230.
        PolicyCase("the sample when it was issued", .valid, end: 1_446_224_230) {
            ($0.begin, $0.end, $0.issueDate) = (0, 1_446_224_230, 1_446_224_170)
        } in: {
            $0.time = .trusted(1_446_224_170)
        },
        PolicyCase("the sample a minute later", .expired, end: 1_446_224_230) {
            ($0.begin, $0.end, $0.issueDate) = (0, 1_446_224_230, 1_446_224_170)
        } in: {
            $0.time = .trusted(1_446_224_230)
        },
    ]

    static let plays: [PolicyCase] = [
        PolicyCase("first play to come", .valid) { $0.expirationAfterFirstPlay = 60 },
        PolicyCase("first play just now", .valid, end: Int64(now + 60)) {
            $0.expirationAfterFirstPlay = 60
        } in: {
            $0.firstPlay = now
        },
        PolicyCase("first play 59 s ago", .valid, end: Int64(now + 1)) {
            $0.expirationAfterFirstPlay = 60
        } in: {
            $0.firstPlay = now - 59
        },
        PolicyCase("first play 60 s ago", .expired, code: expired, end: Int64(now)) {
            $0.expirationAfterFirstPlay = 60
        } in: {
            $0.firstPlay = now - 60
        },
        PolicyCase("first play 60 s ago, while playing", .valid, end: Int64(now)) {
            $0.expirationAfterFirstPlay = 60
        } in: {
            ($0.firstPlay, $0.isPlaying) = (now - 60, true)
        },
        PolicyCase("first play 60 s ago, real time, while playing", .expired, code: realTimeExpired, end: Int64(now)) {
            ($0.expirationAfterFirstPlay, $0.hasRealTimeExpiration) = (60, true)
        } in: {
            ($0.firstPlay, $0.isPlaying) = (now - 60, true)
        },
        PolicyCase("first play 59 s ago, real time, while playing", .valid, end: Int64(now + 1)) {
            ($0.expirationAfterFirstPlay, $0.hasRealTimeExpiration) = (60, true)
        } in: {
            ($0.firstPlay, $0.isPlaying) = (now - 59, true)
        },
        PolicyCase("real time, new start", .expired, code: expired, end: Int64(now)) {
            ($0.expirationAfterFirstPlay, $0.hasRealTimeExpiration) = (60, true)
        } in: {
            $0.firstPlay = now - 60
        },
        PolicyCase("first play, end earlier", .expired, end: Int64(now - 1)) {
            ($0.expirationAfterFirstPlay, $0.end) = (60, now - 1)
        } in: {
            $0.firstPlay = now
        },
        PolicyCase("first play over, end later", .expired, end: Int64(now - 40)) {
            ($0.expirationAfterFirstPlay, $0.end) = (60, now + 100)
        } in: {
            $0.firstPlay = now - 100
        },
        PolicyCase("first play over, end later, while playing", .valid, end: Int64(now - 40)) {
            ($0.expirationAfterFirstPlay, $0.end) = (60, now + 100)
        } in: {
            ($0.firstPlay, $0.isPlaying) = (now - 100, true)
        },
        PolicyCase("first play over and end past, while playing", .expired, end: Int64(now - 40)) {
            ($0.expirationAfterFirstPlay, $0.end) = (60, now - 1)
        } in: {
            ($0.firstPlay, $0.isPlaying) = (now - 100, true)
        },
        PolicyCase("first play, untrusted time", .untrustedTime, code: noClock) {
            $0.expirationAfterFirstPlay = 60
        } in: {
            $0.time = .untrusted(since: nil)
        },
        PolicyCase("no time at all from the first play", .expired, end: Int64(now)) {
            $0.expirationAfterFirstPlay = 0
        } in: {
            $0.firstPlay = now
        },
        PolicyCase("a duration beyond 2106", .valid, end: Int64(now) + Int64(UInt32.max)) {
            $0.expirationAfterFirstPlay = .max
        } in: {
            $0.firstPlay = now
        },
        PolicyCase("after first use", .expired, end: Int64(now - 1)) {
            $0.expirationAfterFirstUse = 9
        } in: {
            $0.firstPlay = now - 10
        },
        PolicyCase("first use and first play: the shorter", .expired, end: Int64(now - 5)) {
            ($0.expirationAfterFirstUse, $0.expirationAfterFirstPlay) = (5, 60)
        } in: {
            $0.firstPlay = now - 10
        },
        PolicyCase("after first store, in time", .valid, end: Int64(now + 1)) {
            $0.expirationAfterFirstStore = 10
        } in: {
            $0.stored = now - 9
        },
        PolicyCase("after first store, over", .expired, end: Int64(now)) {
            $0.expirationAfterFirstStore = 10
        } in: {
            $0.stored = now - 10
        },
        PolicyCase("after first store, over, while playing", .expired, code: realTimeExpired, end: Int64(now)) {
            $0.expirationAfterFirstStore = 10
        } in: {
            ($0.stored, $0.isPlaying) = (now - 10, true)
        },
        PolicyCase("after first store, not stored", .valid) { $0.expirationAfterFirstStore = 10 },
        PolicyCase("clock before the first play", .valid, end: Int64(now + 160)) {
            $0.expirationAfterFirstPlay = 60
        } in: {
            $0.firstPlay = now + 100
        },
        PolicyCase("first play an hour ahead of the clock", .valid, end: Int64(now + 3660)) {
            $0.expirationAfterFirstPlay = 60
        } in: {
            $0.firstPlay = now + 3600
        },
        PolicyCase("first play further ahead of the clock", .expired, code: expired, end: Int64(now)) {
            $0.expirationAfterFirstPlay = 60
        } in: {
            $0.firstPlay = now + 3601
        },
        PolicyCase("stored an hour ahead of the clock", .valid, end: Int64(now + 3610)) {
            $0.expirationAfterFirstStore = 10
        } in: {
            $0.stored = now + 3600
        },
        PolicyCase("stored further ahead of the clock", .expired, code: expired, end: Int64(now)) {
            $0.expirationAfterFirstStore = 10
        } in: {
            $0.stored = now + 3601
        },
        PolicyCase("stored further ahead of the clock, grace after the end", .expired, code: expired, end: Int64(now)) {
            ($0.expirationAfterFirstStore, $0.gracePeriod) = (10, 60)
        } in: {
            ($0.stored, $0.graceRule) = (now + 3601, .afterEnd)
        },
        PolicyCase("marks ahead of the clock that nothing counts from", .valid) { _ in
        } in: {
            ($0.stored, $0.firstPlay) = (now + 9999, now + 9999)
        },
        PolicyCase("grace, the end is past at the latest time", .untrustedTime, code: noClock, end: Int64(now)) {
            ($0.end, $0.gracePeriod) = (now, 60)
        } in: {
            $0.time = .untrusted(since: 0, latest: now)
        },
        PolicyCase("grace, the end has come since", .untrustedTime, code: noClock, end: Int64(now + 5)) {
            ($0.end, $0.gracePeriod) = (now + 5, 60)
        } in: {
            $0.time = .untrusted(since: 5, latest: now)
        },
        PolicyCase("grace, the end is to come", .valid, end: Int64(now + 6)) {
            ($0.end, $0.gracePeriod) = (now + 6, 60)
        } in: {
            $0.time = .untrusted(since: 5, latest: now)
        },
        PolicyCase("grace, the begin is to come", .untrustedTime, code: noClock) {
            ($0.begin, $0.gracePeriod) = (now + 6, 60)
        } in: {
            $0.time = .untrusted(since: 5, latest: now)
        },
        PolicyCase("grace, the removal date is past", .untrustedTime, code: noClock, end: Int64(now)) {
            ($0.removalDate, $0.gracePeriod) = (now, 60)
        } in: {
            $0.time = .untrusted(since: 0, latest: now)
        },
        PolicyCase("grace while the time is untrusted", .valid, end: Int64(now - 1)) {
            ($0.end, $0.gracePeriod) = (now - 1, 60)
        } in: {
            $0.time = .untrusted(since: 59)
        },
        PolicyCase("grace over", .untrustedTime, end: Int64(now + 1)) {
            ($0.end, $0.gracePeriod) = (now + 1, 60)
        } in: {
            $0.time = .untrusted(since: 60)
        },
        PolicyCase("grace, nobody knows since when", .untrustedTime, end: Int64(now + 1)) {
            ($0.end, $0.gracePeriod) = (now + 1, 60)
        } in: {
            $0.time = .untrusted(since: nil)
        },
        PolicyCase("grace does not move the end", .expired, end: Int64(now - 1)) {
            ($0.end, $0.gracePeriod) = (now - 1, 60)
        },
        PolicyCase("grace after the end, where it is read so", .valid, end: Int64(now + 59)) {
            ($0.end, $0.gracePeriod) = (now - 1, 60)
        } in: {
            $0.graceRule = .afterEnd
        },
        PolicyCase("grace after the end, over", .expired, end: Int64(now)) {
            ($0.end, $0.gracePeriod) = (now - 60, 60)
        } in: {
            $0.graceRule = .afterEnd
        },
        PolicyCase("grace after the end, untrusted time", .untrustedTime, end: Int64(now + 59)) {
            ($0.end, $0.gracePeriod) = (now - 1, 60)
        } in: {
            ($0.graceRule, $0.time) = (.afterEnd, .untrusted(since: 0))
        },
    ]

    static let rights: [PolicyCase] = [
        PolicyCase("no playback", .none, code: 0x8004_C00B, action: .stop) { $0.allowsPlayback = false },
        PolicyCase("level equal", .valid) { $0.minimumSecurityLevel = 2000 },
        PolicyCase("level lower", .valid) { $0.minimumSecurityLevel = 150 },
        PolicyCase("level higher", .none, action: .stop) { $0.minimumSecurityLevel = 3000 },
        PolicyCase("level higher and expired", .none, end: Int64(now)) {
            ($0.minimumSecurityLevel, $0.end) = (3000, now)
        },
        PolicyCase("session only, in its session", .valid) {
            $0.cannotPersist = true
        } in: {
            $0.sessionNonce = PolicyCase.rightsID.bytes
        },
        PolicyCase("session only, in another session", .none, action: .acquireLicense) {
            $0.cannotPersist = true
        } in: {
            $0.sessionNonce = [UInt8](repeating: 9, count: 16)
        },
        PolicyCase("session only, no session", .none) { $0.cannotPersist = true },
        PolicyCase("session only, out of a store", .none) {
            $0.cannotPersist = true
        } in: {
            ($0.sessionNonce, $0.stored) = (PolicyCase.rightsID.bytes, now)
        },
        PolicyCase("persistent, out of a store", .valid) { _ in
        } in: {
            $0.stored = now
        },
        PolicyCase("session only, first play over", .expired, end: Int64(now - 1)) {
            ($0.cannotPersist, $0.expirationAfterFirstPlay) = (true, 9)
        } in: {
            ($0.sessionNonce, $0.firstPlay) = (PolicyCase.rightsID.bytes, now - 10)
        },
        PolicyCase("domain, no member", .none, code: 0x8004_C580, action: .joinDomain) {
            $0.domain = .init(accountID: PolicyCase.domain, revision: 1)
        },
        PolicyCase("domain, member", .valid) {
            $0.domain = .init(accountID: PolicyCase.domain, revision: 1)
        } in: {
            $0.domains = [PolicyCase.domain: [1]]
        },
        PolicyCase("domain, newer revision", .none, code: 0x8004_C507, action: .renewDomain) {
            $0.domain = .init(accountID: PolicyCase.domain, revision: 2)
        } in: {
            $0.domains = [PolicyCase.domain: [1]]
        },
        PolicyCase("domain, older revision", .valid) {
            $0.domain = .init(accountID: PolicyCase.domain, revision: 1)
        } in: {
            $0.domains = [PolicyCase.domain: [1, 2]]
        },
        PolicyCase("another domain", .none, code: 0x8004_C580) {
            $0.domain = .init(accountID: PolicyCase.domain, revision: 1)
        } in: {
            $0.domains = [GUID(PolicyCase.rightsID): [1]]
        },
        PolicyCase("domain and expired", .expired, code: expired, end: Int64(now)) {
            ($0.domain, $0.end) = (.init(accountID: PolicyCase.domain, revision: 1), now)
        } in: {
            $0.domains = [PolicyCase.domain: [1]]
        },
        PolicyCase("source, any allowed", .valid) { $0.sourceID = 7 },
        PolicyCase("source, allowed", .valid) {
            $0.sourceID = 7
        } in: {
            $0.allowedSources = [7]
        },
        PolicyCase("source, not allowed", .none, code: 0x8004_C00B) {
            $0.sourceID = 7
        } in: {
            $0.allowedSources = [8]
        },
        PolicyCase("revocation information, none kept", .valid) { $0.revocationInformationVersion = 30 },
        PolicyCase("revocation information, new enough", .valid) {
            $0.revocationInformationVersion = 30
        } in: {
            $0.revocationInformationVersion = 30
        },
        PolicyCase("revocation information, too old", .none) {
            $0.revocationInformationVersion = 30
        } in: {
            $0.revocationInformationVersion = 29
        },
        PolicyCase("metering, nobody counts", .none) { $0.meteringID = PolicyCase.domain },
        PolicyCase("metering, somebody counts", .valid) {
            $0.meteringID = PolicyCase.domain
        } in: {
            $0.canMeter = true
        },
        PolicyCase("secure stop, nobody reports", .none) { $0.secureStopID = PolicyCase.domain },
        PolicyCase("secure stop, somebody reports", .valid) {
            $0.secureStopID = PolicyCase.domain
        } in: {
            $0.canStopSecurely = true
        },
    ]

    @Test(arguments: dates + plays + rights) func judges(item: PolicyCase) throws {
        var terms = XMRTerms()
        terms.allowsPlayback = true
        item.terms(&terms)
        var situation = PlayReadyPolicy.Situation(time: .trusted(Self.now), securityLevel: 2000)
        item.situation(&situation)
        // By way of the bytes, so that the license says what the terms say.
        let license = try XMRLicense.make(rightsID: GUID(PolicyCase.rightsID), objects: terms.objects) { _ in
            [UInt8](repeating: 0, count: 16)
        }
        let policy = PlayReadyPolicy(terms: try XMRTerms(license), rightsID: license.rightsID)
        let verdict = policy.evaluate(situation)
        #expect(verdict.status == item.status)
        #expect(verdict.mayPlay == (item.status == .valid))
        #expect((verdict.error == nil) == (item.status == .valid))
        #expect(verdict.rights.ends?.seconds == item.end)
        #expect(!verdict.rights.reason.isEmpty)
        if let code = item.code { #expect(verdict.error?.code == code) }
        if let action = item.action { #expect(verdict.error?.action == action) }
    }

    @Test func thereAreEnoughSituations() {
        let all = Self.dates + Self.plays + Self.rights
        #expect(Set(all.map(\.name)).count == all.count && all.count >= 60)
    }

    @Test func saysWhatIsLeft() {
        var terms = XMRTerms()
        terms.allowsPlayback = true
        (terms.begin, terms.expirationAfterFirstPlay, terms.removalDate) = (Self.now - 5, 60, Self.now)
        let policy = PlayReadyPolicy(terms: terms, rightsID: GUID(PolicyCase.rightsID))
        var situation = PlayReadyPolicy.Situation(time: .trusted(Self.now), securityLevel: 150)
        var verdict = policy.evaluate(situation)
        #expect(
            verdict.rights.begins?.seconds == Int64(Self.now - 5) && verdict.expiresAfterFirstPlay == 60
                && verdict.isRemovable)
        situation.firstPlay = Self.now
        situation.time = .untrusted(since: nil)
        verdict = policy.evaluate(situation)
        #expect(
            verdict.expiresAfterFirstPlay == nil && verdict.rights.ends?.seconds == Int64(Self.now)
                && !verdict.isRemovable)
    }

    @Test func aLeafNeedsItsRoot() throws {
        let (rootID, leafID) = (KeyID(high: 3, low: 3), KeyID(high: 4, low: 4))
        var (root, leaf) = (XMRTerms(), XMRTerms())
        (root.allowsPlayback, leaf.allowsPlayback) = (true, true)
        root.key = .init(keyID: rootID, data: [])
        leaf.key = .init(keyID: leafID, cipher: .chained, data: [])
        leaf.uplink = .init(keyID: rootID)
        root.end = Self.now + 10
        leaf.end = Self.now + 100
        func verdict(_ time: UInt32, root: XMRTerms?, leaf: XMRTerms) -> PlayReadyPolicy.Verdict {
            PlayReadyPolicy.evaluate(
                leaf: PlayReadyPolicy(terms: leaf, rightsID: GUID(leafID)),
                root: root.map { PlayReadyPolicy(terms: $0, rightsID: GUID(rootID)) },
                .init(time: .trusted(time), securityLevel: 2000))
        }
        #expect(verdict(Self.now, root: root, leaf: leaf).mayPlay)
        #expect(verdict(Self.now, root: root, leaf: leaf).rights.ends?.seconds == Int64(Self.now + 10))
        #expect(verdict(Self.now + 10, root: root, leaf: leaf).status == .expired)
        #expect(verdict(Self.now, root: nil, leaf: leaf).error?.code == 0x8004_C082)
        var other = root
        other.key?.keyID = leafID
        #expect(verdict(Self.now, root: other, leaf: leaf).status == .none)
        leaf.allowsPlayback = false
        #expect(verdict(Self.now, root: root, leaf: leaf).status == .none)
    }
}
