// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

@Suite struct PlayReadyServiceTests {
    private let kit: PlayReadyTestKit
    private let account: GUID
    private var domains: PlayReadyDomainController

    init() throws {
        kit = try PlayReadyTestKit()
        account = try #require(GUID("10000000-2000-3000-4000-500000000001"))
        domains = PlayReadyDomainController(
            serviceID: try #require(GUID("AA6CB5D1-8D3B-4E5F-9B0F-2B8C5E1A7D42")), authority: kit.authority)
        try domains.add(accountID: account, memberLimit: 2, url: "https://example.com/domain")
    }

    private func join(_ fault: PlayReadyFault, device: PlayReadyDevice? = nil) throws -> PlayReadyDomainExchange {
        try .join(
            .init(fault: fault), device: device ?? kit.device, provisioning: kit.provisioning,
            clientTime: PlayReadyTestKit.now)
    }

    /// Domain required, join, license; then a new revision: renew, license; the old license goes on.
    @Test mutating func aDomainIsJoinedAndRenewed() throws {
        let query = "domain:\(account)"
        var exchange = try kit.exchange()
        let refusal = try kit.answer(exchange, query, domains: domains)
        let error = #expect(throws: PlayReadyError.self) { try exchange.open(response: refusal.body) }
        #expect(error?.action == .joinDomain && error?.code == 0x8004_C605)
        let fault = try #require(error?.fault)
        #expect(fault.accountID == account && fault.domainServerURL == "https://example.com/domain")

        let joining = try join(fault)
        let joined = domains.respond(to: joining.request, .joinDomain, now: PlayReadyTestKit.now)
        let membership = try joining.membership(response: joined.body, now: PlayReadyTestKit.now)
        #expect(membership.accountID == account && membership.revision == 1 && membership.revisions == [1])
        #expect(domains.memberCount(accountID: account) == 1)
        let kept = try PlayReadyMembership(reading: membership.serialized())
        #expect(kept.chain == membership.chain && kept.revisions == [1] && kept.url == "https://example.com/domain")

        exchange = try kit.exchange(memberships: [kept])
        let opened = try exchange.open(response: kit.answer(exchange, query, domains: domains).body)
        let license = try #require(opened.licenses.first)
        #expect(license.contentKey == kit.key && license.terms.domain?.revision == 1)
        let without = #expect(throws: PlayReadyError.self) {
            try PlayReadyLicense(license.xmr, keyring: PlayReadyKeyring(device: kit.device))
        }
        #expect(without?.action == .joinDomain)

        try domains.renew(accountID: account)
        exchange = try kit.exchange(memberships: [kept])
        let old = #expect(throws: PlayReadyError.self) {
            try exchange.open(response: kit.answer(exchange, query, domains: domains).body)
        }
        #expect(old?.action == .renewDomain)
        let renewing = try join(try #require(old?.fault))
        let renewed = try renewing.membership(
            response: domains.respond(to: renewing.request, .joinDomain, now: PlayReadyTestKit.now).body)
        #expect(renewed.revisions == [1, 2] && renewed.revision == 2)
        exchange = try kit.exchange(memberships: [renewed])
        let again = try exchange.open(response: kit.answer(exchange, query, domains: domains).body)
        #expect(again.licenses.first?.terms.domain?.revision == 2)
        // A member without the new key is sent back to the domain service.
        let newest = try #require(again.licenses.first).xmr
        let stale = #expect(throws: PlayReadyError.self) {
            try PlayReadyLicense(newest, keyring: PlayReadyKeyring(device: kit.device, memberships: [kept]))
        }
        #expect(stale?.action == .renewDomain)
        let ring = PlayReadyKeyring(device: kit.device, memberships: [renewed])
        #expect(try PlayReadyLicense(license.xmr, keyring: ring).contentKey == kit.key)
    }

    @Test mutating func aDomainHasALimitAndCanBeLeft() throws {
        let fault = PlayReadyFault(code: PlayReadyFault.domainRequired, accountID: account)
        let devices = try (0..<3).map { _ in try kit.provisioning.makeDevice() }
        var memberships: [PlayReadyMembership] = []
        for device in devices.prefix(2) {
            let joining = try join(fault, device: device)
            let answer = domains.respond(to: joining.request, .joinDomain, now: 0)
            memberships.append(try joining.membership(response: answer.body))
        }
        let third = try join(fault, device: devices[2])
        #expect(
            domains.respond(to: third.request, .joinDomain, now: 0).fault?.code == PlayReadyFault.deviceLimitReached)
        let leaving = try PlayReadyDomainExchange.leave(
            memberships[0], device: devices[0], provisioning: kit.provisioning, clientTime: 0)
        let left = domains.respond(to: leaving.request, .leaveDomain, now: 0)
        try leaving.confirmLeaving(response: left.body)
        #expect(domains.memberCount(accountID: account) == 1)
        #expect(domains.respond(to: leaving.request, .leaveDomain, now: 0).fault?.code == PlayReadyFault.notAMember)
        let answer = domains.respond(to: third.request, .joinDomain, now: 0)
        #expect(try third.membership(response: answer.body).revision == 1)
        // Once more is no second member.
        #expect(domains.respond(to: third.request, .joinDomain, now: 0).fault == nil)
        #expect(domains.memberCount(accountID: account) == 2)
        // The answer to one device is of no use to another, nor to another request.
        let other = try join(fault, device: devices[2])
        for wrong in [other, try join(fault, device: devices[1])] {
            let error = #expect(throws: PlayReadyError.self) { try wrong.membership(response: answer.body) }
            #expect(error?.code == 0x8004_C079)
        }
        domains.remove(device: devices[2], accountID: account)
        #expect(domains.memberCount(accountID: account) == 1)
        let unknown = PlayReadyFault(code: 0, accountID: account.swapped)
        let lost = try join(unknown)
        #expect(domains.respond(to: lost.request, .joinDomain, now: 0).fault?.code == PlayReadyFault.unknownAccountID)
    }

    @Test func anAnswerIsAcknowledged() throws {
        let exchange = try kit.exchange()
        let opened = try exchange.open(response: kit.answer(exchange, "tid:AAECAwQ=").body)
        let id = try #require(opened.transactionID)
        #expect(id == [0, 1, 2, 3, 4])
        let message = try PlayReadyAcknowledgement(
            transactionID: id, device: kit.device, provisioning: kit.provisioning, clientTime: 0)
        let answer = kit.server.acknowledge(message.request, now: 0) { $0 == id }
        try message.confirm(response: answer.body)
        let refused = kit.server.acknowledge(message.request, now: 0) { _ in false }
        #expect(refused.fault?.code == PlayReadyFault.unknownTransactionID)
        #expect(throws: PlayReadyError.self) { try message.confirm(response: refused.body) }
    }

    @Test func theTimeIsSigned() throws {
        func exchange() throws -> PlayReadyTimeExchange {
            try PlayReadyTimeExchange(device: kit.device, provisioning: kit.provisioning, clientTime: 5)
        }
        let first = try exchange()
        let answer = kit.server.time(first.request, now: 1_800_000_000)
        #expect(try first.time(response: answer.body) == 1_800_000_000)
        let other = #expect(throws: PlayReadyError.self) { try exchange().time(response: answer.body) }
        #expect(other?.isSameKind(as: .wrongNonce("")) == true)
        let text = String(decoding: answer.body, as: UTF8.self)
        let changed = String(text.replacing("<Time>18", with: "<Time>19"))
        #expect(throws: PlayReadyError.self) { try first.time(response: Array(changed.utf8)) }
        // A license signer cannot tell the time.
        let fields =
            "<Version>1</Version><Nonce>\(text.split(separator: "<Nonce>")[1].prefix(24))</Nonce><Time>1</Time>"
        let forged = try kit.authority.signer(.licenseSigner).response(
            .getTime, namespace: PlayReadyOperation.latchkeyNamespace, content: fields)
        let error = #expect(throws: PlayReadyError.self) { try first.time(response: forged) }
        #expect(error?.isSameKind(as: .untrustedCertificate("")) == true)
    }

    @Test(arguments: [
        (UInt32(0x8004_C065), PlayReadyError.Action.stop), (0x8004_C600, .retryLater), (0x8004_C601, .stop),
        (0x8004_C602, .stop), (0x8004_C603, .individualize), (0x8004_C604, .askService), (0x8004_C605, .joinDomain),
        (0x8004_C606, .renewDomain), (0x8004_C607, .stop), (0x8004_C608, .stop), (0x8004_C609, .stop),
        (0x8004_C60A, .leaveOrRejoinDomain), (0x8004_C60B, .stop), (0x8004_C60C, .stop),
        (0x8004_C60D, .redirect("https://example.com/other")), (0x8004_C610, .stop), (0x8004_0000, .stop),
    ])
    func faultsHaveActions(code: UInt32, action: PlayReadyError.Action) throws {
        let exchange = try kit.exchange()
        let isRedirect = code == PlayReadyFault.redirect
        let fault = PlayReadyFault(
            code: code, text: "why", customData: isRedirect ? "https://example.com/other" : "<data>")
        let error = #expect(throws: PlayReadyError.self) { try exchange.open(response: fault.serialized) }
        #expect(error?.code == code && error?.action == action && error?.fault?.customData == fault.customData)
        #expect(error?.description.contains("why") == true && error?.keyError.shortDescription == "denied")
        let asked = try kit.answer(exchange, "errorcode:0x\(String(code, radix: 16))")
        #expect(asked.status == 500 && asked.fault?.code == code)
    }

    @Test func faultsAreReadByLocalName() throws {
        let text = """
            <e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body><e:Fault><faultcode>e:Server</faultcode>\
            <faultstring>a\tb</faultstring><detail><x:Exception xmlns:x="urn:x"><x:StatusCode> 0x8004C604 </x:StatusCode>\
            <y xmlns="urn:y"><CustomData>more</CustomData><AccountId>10000000-2000-3000-4000-500000000001</AccountId></y>\
            </x:Exception></detail></e:Fault></e:Body></e:Envelope>
            """
        let fault = try #require(PlayReadyFault(response: Array(text.utf8)))
        #expect(fault.code == 0x8004_C604 && fault.customData == "more" && fault.accountID == account)
        // A tab is white space.
        #expect(fault.text == "a b")
        #expect(PlayReadyFault(response: []) == nil && PlayReadyFault(response: Array("<a/>".utf8)) == nil)
    }

    @Test func queriesAreRead() throws {
        let policy = try PlayReadyServerPolicy(
            query: "cfg=(kid:header,persist:false,begindate:20151030165559,enddate:20240229,firstexp:60,realtime:true,"
                + "ucvopl:270,sl:0x7D0,playenablers:786627D8-C2A6-44BE-8F88-08AE255B01A7),(kid:AAAAEAAQABAQABAAAAAAAQ==)"
        )
        let terms = try #require(policy.grants.first).terms
        #expect(policy.grants.count == 2 && policy.fault == nil && policy.grants[0].keyID == nil)
        #expect(policy.grants[1].keyID == KeyID(hex: "10000000-1000-1000-1000-100000000001"))
        #expect(terms.cannotPersist && terms.begin == 1_446_224_159 && terms.end == 1_709_164_800)
        #expect(
            terms.expirationAfterFirstPlay == 60 && terms.hasRealTimeExpiration && terms.minimumSecurityLevel == 2000)
        #expect(terms.outputLevels == .init(uncompressedDigitalVideo: 270) && terms.playEnablers.count == 1)
        #expect(try PlayReadyServerPolicy(query: "").grants.count == 1)
        #expect(try PlayReadyServerPolicy(query: "(errorcode:0x8004C605)").fault?.code == 0x8004_C605)
        // As players' sample lists write it.
        let sample = try PlayReadyServerPolicy(
            query: "cfg=(persist:false,ck:W31bfVt9W31bfVt9W31bfQ==,ckt:aescbc,"
                + "playenablers:(786627D8-C2A6-44BE-8F88-08AE255B01A7)),(sl:150)")
        #expect(sample.grants.count == 2 && sample.grants[0].keyType == .aesCBC && sample.grants[0].key != nil)
        #expect(sample.grants[0].terms.playEnablers.count == 1 && sample.grants[1].terms.minimumSecurityLevel == 150)
    }

    @Test(arguments: [
        "(", "(a)", "(a:b)", "(persist:maybe)", "(sl:70000)", "(begindate:2015)x(enddate:20151399)", "(kid:AAAA)",
        "(contentkey:AAAA)", "(ckt:des)", "(domain:x)", "(errorcode:0x123456789)", "(firstexp:-1)", "(tid:*)",
        "(playenablers:x)", "(begindate:99999999999999)",
    ])
    func otherQueriesAreRefused(text: String) {
        #expect(throws: PlayReadyServerPolicy.ParseError.self) { try PlayReadyServerPolicy(query: text) }
    }

    @Test func theServiceMayCareForTheClientsClock() throws {
        var policy = PlayReadyServerPolicy()
        policy.maximumClockSkew = 3600
        let exchange = try kit.exchange()
        func fault(_ now: UInt32) -> PlayReadyFault? {
            kit.server.respond(to: exchange.request, policy: policy, now: now) { _ in kit.key }.fault
        }
        #expect(fault(PlayReadyTestKit.now + 3600) == nil && fault(PlayReadyTestKit.now - 3600) == nil)
        #expect(fault(PlayReadyTestKit.now + 3601)?.code == PlayReadyFault.serviceSpecific)
        #expect(kit.server.respond(to: exchange.request, now: 0) { _ in nil }.fault != nil)
    }
}
