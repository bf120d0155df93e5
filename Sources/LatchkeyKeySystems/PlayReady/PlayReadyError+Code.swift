// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

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
