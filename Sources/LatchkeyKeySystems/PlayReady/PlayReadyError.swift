// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Why something of a PlayReady-style exchange, or the use of a license, failed.
///
/// `code` is the number that Microsoft's documentation uses for the same thing, where it has one. `description` is for
/// people and never has a key, a challenge or a license in it.
public struct PlayReadyError: Error, Hashable, Sendable {
    /// What a client does about a failure.
    public enum Action: Hashable, Sendable {
        /// Nothing helps.
        case stop
        /// Ask again later, each time after a longer pause.
        case retryLater
        /// Join the domain, then ask again once.
        case joinDomain
        /// Join the domain again, for its newer revision, then ask again once.
        case renewDomain
        /// Leave the domain, or join it again.
        case leaveOrRejoinDomain
        /// Make the device's certificate anew.
        case individualize
        /// Send the challenge to another address.
        case redirect(String)
        /// What it is says the service in its custom data.
        case askService
        /// Get a license.
        case acquireLicense
        /// Get the time from the time service.
        case setClock
        /// Correct the settings.
        case configure
    }

    enum Kind: String {
        case fault = "the service refuses"
        case malformedResponse = "answer not readable"
        case malformedRequest = "request not valid"
        case signatureMissing = "answer not signed"
        case invalidSignature = "signature not valid"
        case wrongNonce = "answer to another request"
        case untrustedCertificate = "certificate not trusted"
        case certificateRevoked = "certificate revoked"
        case provisioning = "provisioning not valid"
        case licenseNotFound = "no license"
        case alteredLicense = "license altered"
        case unsupportedLicense = "license of a kind that is not supported"
        case otherDevice = "license of another device"
        case licenseExpired = "license expired"
        case licenseRealTimeExpired = "license expired while playing"
        case licenseNotYetValid = "license not valid yet"
        case rightNotAvailable = "right not in the license"
        case clockNotSet = "no trusted time"
        case domainRequired = "domain membership required"
        case domainKeyMissing = "no key for the license's domain"
        case invalidDomainResponse = "answer of the domain service not valid"
        case rootLicenseMissing = "no root license"
        case securityLevel = "security level too low"
        case outputProtection = "output protection not met"
        case sessionOnly = "license for another session"
        case internalError = "internal error"
    }

    let kind: Kind
    private let detail: String
    /// What the service said, where it was the service.
    public let fault: PlayReadyFault?
    /// The part of the provisioning bundle that cannot be used, where it is one.
    public private(set) var part: PlayReadyProvisioning.Part?

    init(_ kind: Kind, _ detail: String, fault: PlayReadyFault? = nil) {
        self.kind = kind
        self.detail = detail
        self.fault = fault
    }

    /// The service answered with a fault.
    public static func fault(_ fault: PlayReadyFault) -> PlayReadyError {
        PlayReadyError(.fault, fault.description, fault: fault)
    }
    /// The answer cannot be read.
    public static func malformedResponse(_ detail: String) -> PlayReadyError { .init(.malformedResponse, detail) }
    /// A challenge that this side cannot make or read.
    public static func malformedRequest(_ detail: String) -> PlayReadyError { .init(.malformedRequest, detail) }
    /// The answer has no signature. 8004C078.
    public static func signatureMissing(_ detail: String) -> PlayReadyError { .init(.signatureMissing, detail) }
    /// The signature does not fit: the bytes were changed, or another key signed.
    public static func invalidSignature(_ detail: String) -> PlayReadyError { .init(.invalidSignature, detail) }
    /// The answer does not have the nonce of the request: it was made for another one.
    public static func wrongNonce(_ detail: String) -> PlayReadyError { .init(.wrongNonce, detail) }
    /// A certificate does not go back to the provisioned root, or may not do what it is used for.
    public static func untrustedCertificate(_ detail: String) -> PlayReadyError { .init(.untrustedCertificate, detail) }
    /// A revocation list names a certificate of the signer.
    public static func certificateRevoked(_ detail: String) -> PlayReadyError { .init(.certificateRevoked, detail) }
    /// Something of the provisioning bundle cannot be used.
    public static func provisioning(
        _ detail: String, part: PlayReadyProvisioning.Part? = nil
    ) -> PlayReadyError {
        var error = PlayReadyError(.provisioning, detail)
        error.part = part
        return error
    }
    /// There is no license for the KID. 8004C013.
    public static func licenseNotFound(_ detail: String) -> PlayReadyError { .init(.licenseNotFound, detail) }
    /// The license's own signature does not fit.
    public static func alteredLicense(_ detail: String) -> PlayReadyError { .init(.alteredLicense, detail) }
    /// The license has something in it that this client does not know and may not ignore.
    public static func unsupportedLicense(_ detail: String) -> PlayReadyError { .init(.unsupportedLicense, detail) }
    /// The license was made for another device's key.
    public static func otherDevice(_ detail: String) -> PlayReadyError { .init(.otherDevice, detail) }
    /// The license's time is over. 8004C009.
    public static func licenseExpired(_ detail: String) -> PlayReadyError { .init(.licenseExpired, detail) }
    /// The license's time ended while it was in use. 8004C084.
    public static func licenseRealTimeExpired(_ detail: String) -> PlayReadyError {
        .init(.licenseRealTimeExpired, detail)
    }
    /// The license's time has not begun.
    public static func licenseNotYetValid(_ detail: String) -> PlayReadyError { .init(.licenseNotYetValid, detail) }
    /// The license does not allow playback. 8004C00B.
    public static func rightNotAvailable(_ detail: String) -> PlayReadyError { .init(.rightNotAvailable, detail) }
    /// The license has dates and there is no trusted time. 8004C05B.
    public static func clockNotSet(_ detail: String) -> PlayReadyError { .init(.clockNotSet, detail) }
    /// The license is for members of a domain. 8004C580.
    public static func domainRequired(_ detail: String) -> PlayReadyError { .init(.domainRequired, detail) }
    /// The device is a member, but has no key of the license's revision. 8004C507.
    public static func domainKeyMissing(_ detail: String) -> PlayReadyError { .init(.domainKeyMissing, detail) }
    /// The domain service's answer is not to be trusted. 8004C079.
    public static func invalidDomainResponse(_ detail: String) -> PlayReadyError {
        .init(.invalidDomainResponse, detail)
    }
    /// The license is a leaf, and there is no license that it hangs on. 8004C082.
    public static func rootLicenseMissing(_ detail: String) -> PlayReadyError { .init(.rootLicenseMissing, detail) }
    /// The license asks for a higher security level than the device has.
    public static func securityLevel(_ detail: String) -> PlayReadyError { .init(.securityLevel, detail) }
    /// An output does not meet the license's rules. 8004CD22.
    public static func outputProtection(_ detail: String) -> PlayReadyError { .init(.outputProtection, detail) }
    /// The license was for one session, and this is not it.
    public static func sessionOnly(_ detail: String) -> PlayReadyError { .init(.sessionOnly, detail) }
    /// OpenSSL refuses. 8004C600.
    public static func internalError(_ detail: String) -> PlayReadyError { .init(.internalError, detail) }

    /// The same failure with more to say about it: for which KID, say. No secret.
    public func adding(_ text: String) -> PlayReadyError {
        PlayReadyError(kind, detail.isEmpty ? text : "\(detail); \(text)", fault: fault)
    }

    /// The kind of failure alone.
    public var shortDescription: String { kind.rawValue }

    /// Whether `other` is of the same kind, whatever the details.
    public func isSameKind(as other: PlayReadyError) -> Bool { kind == other.kind }
}

extension PlayReadyError: CustomStringConvertible {
    /// The kind, the number where there is one, and the details.
    public var description: String {
        let number = code.map { " (\(PlayReadyFault.hexadecimal($0)))" } ?? ""
        return detail.isEmpty ? kind.rawValue + number : "\(kind.rawValue)\(number): \(detail)"
    }
}

extension PlayReadyError {
    /// The documented number; nil for a failure that has none.
    public var code: UInt32? {
        switch kind {
        case .fault: fault?.code
        case .internalError: 0x8004_C600
        case .signatureMissing: 0x8004_C078
        case .licenseNotFound: 0x8004_C013
        case .licenseExpired: 0x8004_C009
        case .licenseRealTimeExpired: 0x8004_C084
        case .rightNotAvailable: 0x8004_C00B
        case .clockNotSet: 0x8004_C05B
        case .domainRequired: 0x8004_C580
        case .domainKeyMissing: 0x8004_C507
        case .invalidDomainResponse: 0x8004_C079
        case .rootLicenseMissing: 0x8004_C082
        case .outputProtection: 0x8004_CD22
        case .malformedResponse, .malformedRequest, .invalidSignature, .wrongNonce, .untrustedCertificate,
            .certificateRevoked, .provisioning, .alteredLicense, .unsupportedLicense, .otherDevice, .licenseNotYetValid,
            .securityLevel,
            .sessionOnly:
            nil
        }
    }

    /// What a client does about it.
    public var action: Action {
        switch kind {
        case .fault: fault?.action ?? .stop
        case .internalError: .retryLater
        case .licenseNotFound, .licenseExpired, .licenseRealTimeExpired, .sessionOnly, .rootLicenseMissing,
            .otherDevice, .alteredLicense:
            .acquireLicense
        case .clockNotSet: .setClock
        case .domainRequired: .joinDomain
        case .domainKeyMissing: .renewDomain
        case .provisioning: .configure
        case .malformedResponse, .malformedRequest, .signatureMissing, .invalidSignature, .wrongNonce,
            .untrustedCertificate, .certificateRevoked, .unsupportedLicense, .licenseNotYetValid, .rightNotAvailable,
            .invalidDomainResponse, .securityLevel, .outputProtection:
            .stop
        }
    }

    /// The same failure as a key request reports it.
    public var keyError: KeyError {
        switch kind {
        case .malformedResponse, .signatureMissing, .invalidSignature, .wrongNonce, .untrustedCertificate,
            .certificateRevoked, .alteredLicense, .invalidDomainResponse, .internalError:
            .malformedResponse(description)
        case .malformedRequest: .malformedRequest(description)
        case .provisioning: .invalidConfiguration(description)
        case .licenseNotFound, .rootLicenseMissing: .keyNotInResponse(description)
        case .fault, .unsupportedLicense, .otherDevice, .licenseExpired, .licenseRealTimeExpired, .licenseNotYetValid,
            .rightNotAvailable, .clockNotSet, .domainRequired, .domainKeyMissing, .securityLevel, .outputProtection,
            .sessionOnly:
            .denied(description)
        }
    }
}
