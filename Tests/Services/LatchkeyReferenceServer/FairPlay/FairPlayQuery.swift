// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestServices
import Hummingbird
import LatchkeyKeySystems
import LatchkeyProtection

/// What the query of a request asks the key server for: the terms of the key, and the form of the answer.
struct FairPlayQuery {
    /// How the CKC is written.
    enum Form: String, CaseIterable {
        /// Its bytes.
        case raw
        case base64
        /// `<ckc>` with Base64 in it.
        case xml
        /// `{"ckc":"…"}` with Base64 in it.
        case json

        var contentType: String {
            switch self {
            case .raw: "application/octet-stream"
            case .base64: "text/plain"
            case .xml: "text/xml"
            case .json: "application/json"
            }
        }
    }

    private enum Persist: String, CaseIterable {
        case unlimited, rental, dual
    }

    var form = Form.raw
    var requiresIntegrity = false
    var terms = FairPlayTerms()
    private var offline: (storage: UInt32, playback: UInt32)?

    /// Throws `invalidParameter` for a value that is not known. Parameters that are not known are ignored.
    init(_ request: Request) throws(FairPlayServerError) {
        let parameters = request.uri.queryParameters
        func value<Choice: RawRepresentable & CaseIterable>(
            _ name: String, _ type: Choice.Type
        ) throws(FairPlayServerError) -> Choice? where Choice.RawValue == String {
            guard let text = parameters[Substring(name)] else { return nil }
            guard let choice = Choice(rawValue: String(text)) else {
                let names = Choice.allCases.map(\.rawValue).joined(separator: ", ")
                throw .invalidParameter("“\(name)” is one of \(names)")
            }
            return choice
        }
        func seconds(_ name: String) throws(FairPlayServerError) -> UInt32? {
            guard let text = parameters[Substring(name)] else { return nil }
            guard let number = UInt32(text) else { throw .invalidParameter("“\(name)” is a number of seconds") }
            return number
        }
        form = try value("form", Form.self) ?? .raw
        requiresIntegrity = try value("integrity", Required.self) != nil
        terms.lease = try seconds("lease")
        terms.rental = try seconds("rental")
        terms.outputRequirement = try value("hdcp", HDCP.self)?.requirement
        let (storage, playback) = (try seconds("storage"), try seconds("playback"))
        switch try value("persist", Persist.self) {
        case nil: break
        case .unlimited: terms.persistence = .unlimited
        case .rental:
            guard terms.rental != nil else { throw .invalidParameter("“persist=rental” needs “rental”") }
            terms.persistence = .forRentalDuration
        case .dual:
            guard let storage, let playback else {
                throw .invalidParameter("“persist=dual” needs “storage” and “playback”")
            }
            terms.persistence = .unlimited
            offline = (storage, playback)
        }
    }

    /// The terms for one asset. The stream that a stored key is for is named by the start of the asset identifier.
    func terms(for request: FairPlayServerRequest) -> FairPlayTerms {
        guard let offline else { return terms }
        var result = terms
        let streamID = Array((request.assetIdentifier + [UInt8](repeating: 0, count: 16)).prefix(16))
        result.offlineKey = OfflineKeyTerms(streamID: streamID, storage: offline.storage, playback: offline.playback)
        return result
    }

    private enum Required: String, CaseIterable {
        case required
    }

    private enum HDCP: String, CaseIterable {
        case none
        case type0 = "0"
        case type1 = "1"

        var requirement: OutputRequirement {
            switch self {
            case .none: .unprotected
            case .type0: .hdcpType0
            case .type1: .hdcpType1
            }
        }
    }
}
