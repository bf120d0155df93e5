// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection

extension HLSKeys {
    /// An init segment as the elements behind the stock demuxer need it: it names the key of the playlist by the KID that
    /// the session knows it by, and brings no initialization data: the key is asked for here, and for such data the stock
    /// demuxer's parser looks through GStreamer's whole registry again and again.
    func prepare(_ bytes: [UInt8], _ protection: HLSInitSegment.Protection) throws(FormatError) -> [UInt8] {
        switch protection {
        case .unchanged:
            // Workaround (GStreamer <1.26): the stock demuxer waits for ever behind one that is none.
            try InitSegment.check(bytes)
            return bytes
        case .key(let key):
            let segment = try InitSegment(bytes)
            var keyIDs: [UInt32: KeyID] = [:]
            for track in segment.tracks where track.isProtected {
                keyIDs[track.id] = keyID(of: key, mediaKeyID: track.encryption?.keyID)
            }
            let distinct = Set(keyIDs.values).sorted { $0.description < $1.description }
            for keyID in distinct { demand(key, as: keyID) }
            return try segment.rewriting(keyIDs: keyIDs, protectionBoxes: [], removesOthers: true)
        case .clear(let key):
            let segment = try InitSegment(bytes)
            let key = key ?? HLSKey(method: .sampleAES, uri: "")
            let keyID = keyID(of: key)
            return try segment.markingProtected(
                scheme: key.method.scheme ?? .cbcs, keyID: keyID, protectionBoxes: [])
        }
    }
}
