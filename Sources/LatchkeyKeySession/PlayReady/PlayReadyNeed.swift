// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyContainers
import LatchkeyProtection

/// What a key request wants of PlayReady-style licenses: KIDs, and the headers that ask for them.
struct PlayReadyNeed {
    /// Of the licenses. Never empty.
    private(set) var keyIDs: [KeyID]
    /// The request is for one key that a playlist names by a URI, and the KID is the header's.
    let isNamedByURI: Bool
    private let requested: KeyID?
    private let found: [WRMHeader]
    /// Licenses that travel with the content.
    let embedded: [XMRLicense]

    /// Throws `malformedRequest` where neither the request nor its initialization data name a KID.
    init(_ request: KeyLoadingRequest) throws(PlayReadyAcquisitionError) {
        var data = request.initializationData.filter { $0.system == .playReady || $0.system == nil }.map(\.bytes)
        if let uri = request.keyURI, let bytes = DataURI(uri)?.bytes { data.insert(bytes, at: 0) }
        let objects = data.flatMap(Self.parts).compactMap { try? PlayReadyObject(initializationData: $0) }
        found = objects.compactMap { try? $0.header() }
        embedded = Array(objects.flatMap(\.embeddedLicenses).prefix(PlayReadyExchange.maximumLicenseCount))
        let missing = request.sayMissingKeyIDs()
        let wanted = missing.isEmpty ? request.keyIDs : missing
        let named = found.flatMap(\.keys).map(\.keyID)
        if request.keyURI != nil, wanted.count == 1, let only = named.first, !named.contains(wanted[0]) {
            (keyIDs, isNamedByURI, requested) = ([only], true, wanted[0])
        } else {
            (keyIDs, isNamedByURI, requested) = (wanted.isEmpty ? Array(named.prefix(1)) : wanted, false, nil)
        }
        guard !keyIDs.isEmpty else {
            let problem = data.isEmpty ? "the media has no PlayReady header" : "its PlayReady header names no KID"
            throw .init(KeyError.malformedRequest("\(problem), so no license can be asked for"))
        }
    }

    /// The data of each `pssh` box, so that a broken one hides no other; what is no such box as it is.
    private static func parts(of bytes: [UInt8]) -> [[UInt8]] {
        guard bytes.dropFirst(4).starts(with: "pssh".utf8) else { return [bytes] }
        let boxes = PSSHBox.readableBoxes(in: bytes).filter { $0.system == .playReady }
        return boxes.isEmpty ? [bytes] : boxes.map(\.data)
    }

    /// Licenses for keys of content that is not played yet; those of the headers in `data` if `keyIDs` is empty.
    ///
    /// Throws `malformedRequest` if neither names a KID.
    init(keyIDs: [KeyID], data: [InitializationData]) throws(PlayReadyAcquisitionError) {
        let objects = data.filter { $0.system == .playReady || $0.system == nil }.flatMap { Self.parts(of: $0.bytes) }
            .compactMap { try? PlayReadyObject(initializationData: $0) }
        found = objects.compactMap { try? $0.header() }
        self.keyIDs = keyIDs.isEmpty ? found.flatMap(\.keys).map(\.keyID) : keyIDs
        (isNamedByURI, requested, embedded) = (false, nil, [])
        guard !self.keyIDs.isEmpty else {
            throw .init(KeyError.malformedRequest("the content names no KID, so no license can be asked for"))
        }
    }

    /// The same licenses again, where the request has nothing of the media's. Nil without entries.
    init?(renewing entries: [LicensesInUse.Entry]) {
        guard let first = entries.first else { return nil }
        isNamedByURI = first.origin.isNamedByURI
        // Such a request is for one key.
        let entries = isNamedByURI ? [first] : entries
        keyIDs = entries.map(\.license.license.keyID)
        requested = isNamedByURI ? first.names.first : nil
        found = entries.compactMap(\.origin.header)
        embedded = []
    }

    /// The same for some of the keys.
    func limited(to keyIDs: [KeyID]) -> PlayReadyNeed {
        var need = self
        need.keyIDs = keyIDs
        return need
    }

    /// The header that names the KID; else one of the same media.
    func header(of keyID: KeyID) -> WRMHeader? {
        found.first { $0.keys.contains { $0.keyID == keyID } } ?? found.first
    }

    /// What the session calls the key of this KID.
    func name(of keyID: KeyID) -> KeyID { keyID == keyIDs[0] ? requested ?? keyID : keyID }

    /// Whether the content's headers name all of these KIDs. Then the same headers go out for one of them alone.
    func hasHeaders(for keyIDs: [KeyID]) -> Bool { Set(found.flatMap(\.keys).map(\.keyID)).isSuperset(of: keyIDs) }

    /// Those that name the KIDs, each once, as they are; one of our own for the KIDs that none names, as where keys change
    /// while the content plays.
    func headers(for keyIDs: [KeyID]) throws(PlayReadyAcquisitionError) -> [WRMHeader] {
        var missing = Set(keyIDs)
        var headers: [WRMHeader] = []
        for header in found where header.keys.contains(where: { missing.contains($0.keyID) }) {
            missing.subtract(header.keys.map(\.keyID))
            headers.append(header)
        }
        guard !missing.isEmpty else { return headers }
        let model = found.first?.details
        do throws(FormatError) {
            headers.append(
                try WRMHeader(
                    version: .v4_3,
                    keys: keyIDs.filter(missing.contains).map { WRMHeader.Key($0, algorithm: nil) },
                    details: .init(
                        licenseAcquisitionURL: model?.licenseAcquisitionURL, domainServiceID: model?.domainServiceID,
                        customAttributes: model?.customAttributes)))
        } catch {
            throw .init(KeyError(error))
        }
        return headers
    }
}
