// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyContainers

/// Why a key server does not answer an SPC.
///
/// `code` is the number that the reference key server module documents for the same thing. `description` is for people
/// and never has a key or an SPC in it.
public struct FairPlayServerError: Error, Hashable, Sendable {
    private enum Code: Int {
        case requestVersion = -42580
        case malformedRequest = -42581
        case responseNotMade = -42582
        case missingBlock = -42583
        case keyNotFound = -42584
        case invalidParameter = -42585
        case cryptography = -42588
        case integrity = -42589
        case protocolVersion = -42590
        case duplicateBlock = -42591

        var text: String {
            switch self {
            case .requestVersion: "SPC version not known"
            case .malformedRequest: "SPC not readable"
            case .responseNotMade: "CKC not made"
            case .missingBlock: "TLLV missing"
            case .keyNotFound: "content key not found"
            case .invalidParameter: "parameter not valid"
            case .cryptography: "SPC not decryptable"
            case .integrity: "integrity check failed"
            case .protocolVersion: "protocol version not known"
            case .duplicateBlock: "TLLV twice"
            }
        }
    }

    private let kind: Code
    private let detail: String
    /// Whether the request came before: it may have been recorded and sent again.
    public let isReplay: Bool

    private init(_ kind: Code, _ detail: String, isReplay: Bool = false) {
        self.kind = kind
        self.detail = detail
        self.isReplay = isReplay
    }

    /// The container is of a version that is not known. -42580.
    public static func requestVersion(_ detail: String) -> FairPlayServerError {
        FairPlayServerError(.requestVersion, detail)
    }
    /// Container or payload break a rule of the format. -42581.
    public static func malformedRequest(_ detail: String) -> FairPlayServerError {
        FairPlayServerError(.malformedRequest, detail)
    }
    /// The CKC cannot be put together. -42582.
    public static func responseNotMade(_ detail: String) -> FairPlayServerError {
        FairPlayServerError(.responseNotMade, detail)
    }
    /// A block is missing that every SPC has, that the return request names, or that the terms need. -42583.
    public static func missingBlock(_ detail: String) -> FairPlayServerError {
        FairPlayServerError(.missingBlock, detail)
    }
    /// There is no content key for the asset identifier. -42584.
    public static func keyNotFound(_ detail: String) -> FairPlayServerError {
        FairPlayServerError(.keyNotFound, detail)
    }
    /// A value is out of its range, or the parameters of the request contradict each other. -42585.
    public static func invalidParameter(_ detail: String) -> FairPlayServerError {
        FairPlayServerError(.invalidParameter, detail)
    }
    /// The transaction, or R1, was used before. -42585.
    public static func replay(_ detail: String) -> FairPlayServerError {
        FairPlayServerError(.invalidParameter, detail, isReplay: true)
    }
    /// The SPC is for another certificate, or cannot be decrypted with this one. -42588.
    public static func cryptography(_ detail: String) -> FairPlayServerError {
        FairPlayServerError(.cryptography, detail)
    }
    /// Bytes were changed. -42589.
    public static func integrity(_ detail: String) -> FairPlayServerError { FairPlayServerError(.integrity, detail) }
    /// The protocol version is not one that this side speaks. -42590.
    public static func protocolVersion(_ detail: String) -> FairPlayServerError {
        FairPlayServerError(.protocolVersion, detail)
    }
    /// A block stands there twice. -42591.
    public static func duplicateBlock(_ detail: String) -> FairPlayServerError {
        FairPlayServerError(.duplicateBlock, detail)
    }

    /// The number for what is wrong with a container or a block.
    init(_ error: FormatError) {
        if error.isSameKind(as: .duplicate("")) {
            self = .duplicateBlock(error.reason)
        } else {
            self = .malformedRequest(error.description)
        }
    }

    /// The number of the reference key server module, from -42580 to -42591.
    public var code: Int { kind.rawValue }

    /// The kind of failure alone.
    public var shortDescription: String { kind.text }

    /// Whether `other` is of the same kind, whatever the details.
    public func isSameKind(as other: FairPlayServerError) -> Bool { kind == other.kind && isReplay == other.isReplay }
}

extension FairPlayServerError: CustomStringConvertible {
    /// The kind, the number and the details: "TLLV missing (-42583): …".
    public var description: String {
        detail.isEmpty ? "\(kind.text) (\(code))" : "\(kind.text) (\(code)): \(detail)"
    }
}
