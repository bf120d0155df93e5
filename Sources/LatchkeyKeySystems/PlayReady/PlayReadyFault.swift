// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import LatchkeyContainers
import LatchkeyManifests

/// What a license or domain service answers instead of a license: a SOAP fault with a number.
///
/// The numbers and what a client does about them are those of Microsoft's test server documentation
/// (<https://learn.microsoft.com/playready/advanced/testservers/testing-server-exceptions>).
public struct PlayReadyFault: Error, Hashable, Sendable {
    /// The number, 0x8004C605 for example.
    public var code: UInt32
    /// The service's own text, for people; cut to 200 characters, without control characters, and without long runs of
    /// Base64 and hexadecimal digits.
    public var text: String
    /// What the service sends for the application.
    public var customData: String?
    /// For faults that have to do with a domain, as far as the service says.
    public var serviceID: GUID?
    /// The domain's account at that service.
    public var accountID: GUID?
    /// Where to join the domain, as the service spells it. Not trusted.
    public var domainServerURL: String?
    /// Where to ask instead, as the service spells it. Not trusted.
    public var redirectURL: String?

    /// For services. `code` need not be in the table; everything else may be left out.
    public init(
        code: UInt32, text: String = "", customData: String? = nil, serviceID: GUID? = nil, accountID: GUID? = nil,
        domainServerURL: String? = nil, redirectURL: String? = nil
    ) {
        self.code = code
        self.text = text
        self.customData = customData
        self.serviceID = serviceID
        self.accountID = accountID
        self.domainServerURL = domainServerURL
        self.redirectURL = redirectURL
    }

    /// The certificate of the device, or one above it, is revoked. No further request helps.
    public static let certificateRevoked: UInt32 = 0x8004_C065
    /// The service failed. May be tried again later.
    public static let internalError: UInt32 = 0x8004_C600
    /// The service cannot read the request, or it breaks a rule of the protocol.
    public static let invalidMessage: UInt32 = 0x8004_C601
    /// The domain has as many devices as it may have; one has to leave before another can join.
    public static let deviceLimitReached: UInt32 = 0x8004_C602
    /// The device needs a new certificate before it asks again.
    public static let individualizationRequired: UInt32 = 0x8004_C603
    /// The reason is in `customData`, for the application; a `redirectURL` is followed.
    public static let serviceSpecific: UInt32 = 0x8004_C604
    /// The license is for members of a domain: join with `serviceID`, `accountID` and `domainServerURL`, then ask
    /// again.
    public static let domainRequired: UInt32 = 0x8004_C605
    /// The domain has a newer key than the device: join again, then ask again.
    public static let renewDomain: UInt32 = 0x8004_C606
    /// The service has no metering certificate of that id.
    public static let unknownMeteringID: UInt32 = 0x8004_C607
    /// The same as `deviceLimitReached`, for general computers.
    public static let computerLimitReached: UInt32 = 0x8004_C608
    /// The service wants the client to use an older protocol. Latchkey has none, and gives up.
    public static let fallBack: UInt32 = 0x8004_C609
    /// The service does not count the device among the domain's members any more: leave, or join anew.
    public static let notAMember: UInt32 = 0x8004_C60A
    /// The service does not speak the version of the protocol that the request is made in.
    public static let versionMismatch: UInt32 = 0x8004_C60B
    /// The domain service has no such account.
    public static let unknownAccountID: UInt32 = 0x8004_C60C
    /// The request belongs at `redirectURL`.
    public static let redirect: UInt32 = 0x8004_C60D
    /// The service has no open transaction of that id: it was acknowledged before, or never begun.
    public static let unknownTransactionID: UInt32 = 0x8004_C610

    /// What a client does about it. A number that is not in the table ends the attempt.
    public var action: PlayReadyError.Action {
        switch code {
        case Self.internalError: .retryLater
        case Self.individualizationRequired: .individualize
        case Self.serviceSpecific: redirectURL.map { .redirect($0) } ?? .askService
        case Self.domainRequired: .joinDomain
        case Self.renewDomain: .renewDomain
        case Self.notAMember: .leaveOrRejoinDomain
        case Self.redirect: redirectURL.map { .redirect($0) } ?? .stop
        default: .stop
        }
    }

    /// The number in words; nil for one that is not in the table.
    public var name: String? {
        switch code {
        case Self.certificateRevoked: "the device's certificate is revoked"
        case Self.internalError: "internal error"
        case Self.invalidMessage: "invalid message"
        case Self.deviceLimitReached: "the domain has as many devices as it may have"
        case Self.individualizationRequired: "individualization required"
        case Self.serviceSpecific: "service-specific"
        case Self.domainRequired: "domain required"
        case Self.renewDomain: "domain has to be renewed"
        case Self.unknownMeteringID: "unknown metering id"
        case Self.computerLimitReached: "the domain has as many computers as it may have"
        case Self.fallBack: "fall back to another protocol"
        case Self.notAMember: "not a member of the domain"
        case Self.versionMismatch: "protocol version not supported"
        case Self.unknownAccountID: "unknown account id"
        case Self.redirect: "redirected"
        case Self.unknownTransactionID: "unknown transaction id"
        default: nil
        }
    }

    package static func hexadecimal(_ code: UInt32) -> String {
        let digits = String(code, radix: 16, uppercase: true)
        return "0x" + String(repeating: "0", count: 8 - digits.count) + digits
    }
}

extension PlayReadyFault: CustomStringConvertible {
    /// The number in words and the service's own text. Without URLs, ids and custom data.
    public var description: String {
        let words = [name ?? "fault \(Self.hexadecimal(code))", text].filter { !$0.isEmpty }
        return words.joined(separator: ", “") + (text.isEmpty ? "" : "”")
    }
}

extension PlayReadyFault {
    /// The fault in a SOAP answer. Nil for an answer without one, and for a document that cannot be read.
    ///
    /// Children are taken by local name, because services do not agree on namespaces. A fault without a number counts as
    /// an internal error.
    public init?(response bytes: [UInt8]) {
        guard let root = try? XMLElement(reading: bytes, limits: .exchange), let fault = root.first("Fault") else {
            return nil
        }
        self.init(code: Self.internalError)
        let detail = fault.child("detail")
        func text(_ name: String) -> String? {
            detail?.first(name).map(\.trimmedText).flatMap { $0.isEmpty ? nil : $0 }
        }
        if let code = text("StatusCode").flatMap(Self.number) { self.code = code }
        self.text = ServerText.printable(fault.child("faultstring")?.trimmedText ?? "")
        customData = text("CustomData")
        serviceID = text("ServiceId").flatMap(Self.guid)
        accountID = text("AccountId").flatMap(Self.guid)
        domainServerURL = text("DomainServerUrl")
        redirectURL = text("RedirectUrl")
        // A service may put the address into its custom data.
        if redirectURL == nil, code == Self.redirect, let url = customData, url.hasPrefix("http") { redirectURL = url }
    }

    private static func number(_ text: String) -> UInt32? {
        UInt32(text.lowercased().hasPrefix("0x") ? String(text.dropFirst(2)) : text, radix: 16)
    }

    private static func guid(_ text: String) -> GUID? {
        GUID(text) ?? Base64.decode(text).flatMap { GUID(guidOrder: $0) }
    }
}
