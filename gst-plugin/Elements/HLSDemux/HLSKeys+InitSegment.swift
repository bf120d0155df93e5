// SPDX-License-Identifier: MPL-2.0

import MediaFormats
import ProtectionModel

extension HLSKeys {
    /// An init segment as the elements behind the stock demuxer need it: it names the key of the playlist by the KID that
    /// the session knows it by.
    func prepare(_ bytes: [UInt8], _ protection: HLSInitSegment.Protection) throws(FormatError) -> [UInt8] {
        switch protection {
        case .unchanged:
            return bytes
        case .key(let key):
            let segment = try InitSegment(bytes)
            let keyID = keyID(of: key, mediaKeyID: segment.keyID)
            return try segment.rewriting(
                keyID: keyID, protectionBoxes: [key.initializationData(keyID: keyID)])
        case .clear(let key):
            let segment = try InitSegment(bytes)
            let key = key ?? HLSKey(method: .sampleAES, uri: "")
            let keyID = keyID(of: key, mediaKeyID: segment.keyID)
            return try segment.markingProtected(
                scheme: key.method.scheme ?? .cbcs, keyID: keyID,
                protectionBoxes: [key.initializationData(keyID: keyID)])
        }
    }
}

extension InitSegment {
    /// The KID of the encrypted track; nil for none, and for several that differ.
    fileprivate var keyID: KeyID? {
        let keyIDs = Set(tracks.filter(\.isProtected).compactMap { $0.encryption?.keyID })
        return keyIDs.count == 1 ? keyIDs.first : nil
    }
}
