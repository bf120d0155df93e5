// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyManifests
import LatchkeyProtection

extension FuzzTarget {
    static let playReady: [FuzzTarget] = [
        FuzzTarget("playready-object") { bytes in
            _ = try? PlayReadyObject(initializationData: bytes)
            guard let object = try? PlayReadyObject(reading: bytes) else { return }
            let written = try? object.serialized()
            precondition(written.map { try? PlayReadyObject(reading: $0) } == object, "what is written reads the same")
            _ = object.embeddedLicenses
            if let header = try? object.header() {
                check(header)
            }
        },
        FuzzTarget("wrmheader") { bytes in
            guard let header = try? WRMHeader(reading: bytes) else { return }
            check(header)
        },
        FuzzTarget("xml") { bytes in
            if let found = try? XMLElement.bytes(ofElement: "LA", in: bytes) {
                precondition(found.first == UInt8(ascii: "<"), "an element starts with its tag")
            }
            guard let element = try? XMLElement(reading: bytes, limits: .exchange) else { return }
            let text = element.canonicalText
            let again = try? XMLElement(reading: Array(text.utf8), limits: XMLLimits(size: .max / 4))
            precondition(again?.canonicalText == text, "canonical XML stays as it is")
        },
        FuzzTarget("playready-soap") { bytes in
            _ = PlayReadyFault(response: bytes).map { PlayReadyFault(response: $0.serialized) }
            guard let services else { return }
            _ = try? services.strict.open(response: bytes)
            _ = try? services.lax.open(response: bytes)
            _ = try? services.join.membership(response: bytes)
            _ = try? services.time.time(response: bytes)
            let answer = services.server.respond(to: bytes, now: 0) { _ in nil }
            precondition(answer.fault != nil, "nobody signed it for this server")
        },
        FuzzTarget("xmr") { bytes in
            guard let license = try? XMRLicense(reading: bytes) else { return }
            precondition(license.bytes == bytes, "a license is read whole")
            guard let terms = try? XMRTerms(license) else { return }
            let again = try? XMRLicense.make(rightsID: license.rightsID, objects: terms.objects) { _ in
                license.signature
            }
            precondition(again.map { try? XMRTerms($0) } == terms, "what is written reads the same")
            _ = OutputPolicy(terms)
            let policy = PlayReadyPolicy(terms: terms, rightsID: license.rightsID)
            let verdict = policy.evaluate(
                .init(
                    time: TrustedTime(trust: .observed, time: UnixTime(seconds: 1 << 31)), securityLevel: 2000,
                    firstPlay: 1 << 30))
            precondition(verdict.mayPlay == (verdict.error == nil), "a refusal has a reason")
            if let services { _ = try? PlayReadyLicense(license, keyring: services.keyring) }
        },
        FuzzTarget("bcert") { bytes in
            guard let chain = try? BCertChain(reading: bytes) else { return }
            precondition(chain.serialized == bytes, "what is written reads the same")
            for certificate in chain.certificates { _ = try? certificate.domain() }
            _ = try? PlayReadyDevice(chain: bytes, signingKeyPEM: [], encryptionKeyPEM: [])
        },
        FuzzTarget("revocation-list") { bytes in
            guard let list = try? RevocationList(reading: bytes) else { return }
            promise(list.bytes == bytes && list.signedBytes.count == bytes.count - 64, "a list is read whole")
            let again = try? RevocationList.make(
                id: list.id, version: list.version, keyDigests: Array(list.keyDigests), chain: list.chain
            ) { _ in list.signature }
            promise(again?.keyDigests == list.keyDigests && again?.chain == list.chain)
            guard let services else { return }
            promise(services.provisioning.adding([list]).revocations.lists.isEmpty, "nobody signed it")
        },
        FuzzTarget("domain-membership") { bytes in
            guard let membership = try? PlayReadyMembership(reading: bytes) else { return }
            let again = (try? membership.serialized()).flatMap { try? PlayReadyMembership(reading: $0) }
            promise(again?.accountID == membership.accountID && again?.revisions == membership.revisions)
        },
        FuzzTarget("device-record") { bytes in
            guard let device = try? PlayReadyDevice(stored: bytes) else { return }
            let again = (try? device.serialized()).flatMap { try? PlayReadyDevice(stored: $0) }
            promise(again?.chain == device.chain)
        },
        FuzzTarget("acknowledgement-record") { bytes in
            let record = LicenseRecord(kind: .acknowledgement, payload: bytes)
            guard let pending = PendingAcknowledgement(record) else { return }
            let again = PendingAcknowledgement(pending.record(removal: nil))
            promise(again == pending)
        },
        FuzzTarget("envelope") { bytes in
            guard let header = try? LatchkeyEnvelope().header(of: bytes) else { return }
            precondition(header.payloadOffset <= bytes.count, "the header is within the file")
            let again = try? LatchkeyEnvelope.serialized(
                playReadyObject: header.playReadyObject, initialCounter: header.initialCounter)
            precondition(
                again.map { try? LatchkeyEnvelope().header(of: $0)?.playReadyObject } == header.playReadyObject)
        },
    ]

    /// What is written reads the same. Custom attributes may lose a namespace declaration that says nothing new.
    private static func check(_ header: WRMHeader) {
        let again = try? WRMHeader(reading: header.utf16Bytes)
        var (expected, details) = (header.details, again?.details)
        precondition(expected.customAttributes?.canonicalText == details?.customAttributes?.canonicalText)
        expected.customAttributes = nil
        details?.customAttributes = nil
        precondition(again?.text == header.text && again?.keys == header.keys && details == expected)
    }

    /// A client and a service that share an authority, made once.
    private struct Services {
        let keyring: PlayReadyKeyring
        let provisioning: PlayReadyProvisioning
        let strict: PlayReadyExchange
        let lax: PlayReadyExchange
        let join: PlayReadyDomainExchange
        let time: PlayReadyTimeExchange
        let server: PlayReadyLicenseServer

        init() throws {
            let authority = try PlayReadyTestAuthority.generate()
            provisioning = try authority.provisioning()
            let device = try provisioning.makeDevice()
            keyring = PlayReadyKeyring(device: device)
            let header = try WRMHeader(version: .v4_3, keys: [])
            var options = PlayReadyExchange.Options()
            strict = try PlayReadyExchange(header: header, keyring: keyring, provisioning: provisioning, clientTime: 0)
            (options.requiresSignature, options.requiresNonce) = (false, false)
            lax = try PlayReadyExchange(
                header: header, keyring: keyring, provisioning: provisioning, clientTime: 0, options: options)
            join = try .join(.init(), device: device, provisioning: provisioning, clientTime: 0)
            time = try PlayReadyTimeExchange(device: device, provisioning: provisioning, clientTime: 0)
            server = PlayReadyLicenseServer(authority: authority)
        }
    }

    private static let services = try? Services()
}
