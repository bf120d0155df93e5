// SPDX-License-Identifier: MPL-2.0

public import LatchkeyProtection

/// Why the client's side of a FairPlay-style exchange failed.
///
/// `code` is the number that Apple's players report for the same thing, so that what is written about those numbers
/// helps here too. `description` is for people and never has a key, an SPC or a CKC in it.
public struct FairPlayError: Error, Hashable, Sendable {
    private enum Code: Int {
        case leaseExpired = -42656
        case invalidResponse = -42668
        case noCertificate = -42672
        case noAssetIdentifier = -42673
        case noProtocolVersions = -42674
        case invalidAssetIdentifier = -42675
        case requestCreationFailed = -42676
        case invalidCertificate = -42679
        case invalidProtocolVersions = -42681
        case revokedCertificate = -42783
        case persistableKeyFormat = -42799
        case persistableKeyExpired = -42800
        case invalidPersistableKey = -42803

        var text: String {
            switch self {
            case .leaseExpired: "lease expired"
            case .invalidResponse: "CKC not valid"
            case .noCertificate: "no application certificate"
            case .noAssetIdentifier: "no asset identifier"
            case .noProtocolVersions: "no list of protocol versions"
            case .invalidAssetIdentifier: "asset identifier not valid"
            case .requestCreationFailed: "SPC not made"
            case .invalidCertificate: "application certificate not valid"
            case .invalidProtocolVersions: "list of protocol versions not valid"
            case .revokedCertificate: "application certificate not valid or revoked"
            case .persistableKeyFormat: "persistable key of an unknown format"
            case .persistableKeyExpired: "persistable key expired"
            case .invalidPersistableKey: "persistable key not valid"
            }
        }
    }

    private let kind: Code
    private let detail: String

    private init(_ kind: Code, _ detail: String) {
        self.kind = kind
        self.detail = detail
    }

    /// The key's time is over; a new request may get another one. -42656.
    public static func leaseExpired(_ detail: String) -> FairPlayError { FairPlayError(.leaseExpired, detail) }
    /// The key server's answer cannot be read, or is not the answer to this request. -42668.
    public static func invalidResponse(_ detail: String) -> FairPlayError { FairPlayError(.invalidResponse, detail) }
    /// There is no application certificate. -42672.
    public static func noCertificate(_ detail: String) -> FairPlayError { FairPlayError(.noCertificate, detail) }
    /// There is no content identifier. -42673.
    public static func noAssetIdentifier(_ detail: String) -> FairPlayError {
        FairPlayError(.noAssetIdentifier, detail)
    }
    /// The list of protocol versions is empty. -42674.
    public static func noProtocolVersions(_ detail: String) -> FairPlayError {
        FairPlayError(.noProtocolVersions, detail)
    }
    /// The content identifier is not 2 to 200 bytes long. -42675.
    public static func invalidAssetIdentifier(_ detail: String) -> FairPlayError {
        FairPlayError(.invalidAssetIdentifier, detail)
    }
    /// The request cannot be made: an option, the provider or OpenSSL does not allow it. -42676.
    public static func requestCreationFailed(_ detail: String) -> FairPlayError {
        FairPlayError(.requestCreationFailed, detail)
    }
    /// The certificate is no DER certificate with an RSA key of 1024 or 2048 bits. -42679.
    public static func invalidCertificate(_ detail: String) -> FairPlayError {
        FairPlayError(.invalidCertificate, detail)
    }
    /// No version of the list is one that this side speaks. -42681.
    public static func invalidProtocolVersions(_ detail: String) -> FairPlayError {
        FairPlayError(.invalidProtocolVersions, detail)
    }
    /// For loaders whose service says that the certificate is not accepted. -42783.
    public static func revokedCertificate(_ detail: String) -> FairPlayError {
        FairPlayError(.revokedCertificate, detail)
    }
    /// A persistable key of a format that is not known (any more): get a new one. -42799.
    public static func persistableKeyFormat(_ detail: String) -> FairPlayError {
        FairPlayError(.persistableKeyFormat, detail)
    }
    /// A persistable key whose storage or playback duration is over. -42800.
    public static func persistableKeyExpired(_ detail: String) -> FairPlayError {
        FairPlayError(.persistableKeyExpired, detail)
    }
    /// A persistable key that was changed, put back, or is of another device. -42803.
    public static func invalidPersistableKey(_ detail: String) -> FairPlayError {
        FairPlayError(.invalidPersistableKey, detail)
    }

    /// The number that Apple's players report, from -42656 to -42803.
    public var code: Int { kind.rawValue }

    /// The kind of failure alone.
    public var shortDescription: String { kind.text }

    /// Whether `other` is of the same kind, whatever the details.
    public func isSameKind(as other: FairPlayError) -> Bool { kind == other.kind }

    /// The same failure as a key request reports it.
    public var keyError: KeyError {
        switch kind {
        case .invalidResponse: .malformedResponse(description)
        case .leaseExpired, .persistableKeyExpired: .leaseExpired(description)
        case .revokedCertificate: .denied(description)
        case .noAssetIdentifier, .invalidAssetIdentifier, .requestCreationFailed: .malformedRequest(description)
        case .noCertificate, .noProtocolVersions, .invalidCertificate, .invalidProtocolVersions,
            .persistableKeyFormat, .invalidPersistableKey:
            .invalidConfiguration(description)
        }
    }
}

extension FairPlayError: CustomStringConvertible {
    /// The kind, the number and the details: "lease expired (-42656): …".
    public var description: String {
        detail.isEmpty ? "\(kind.text) (\(code))" : "\(kind.text) (\(code)): \(detail)"
    }
}
