// SPDX-License-Identifier: MPL-2.0

#if LATCHKEY_GSTREAMER
    import LatchkeyKeySystems
    import Latchkey
    import LatchkeyProtection

    /// What `latchkey inspect --json` writes. The names of the members are the format.
    struct ContentDocument: Encodable {
        let type: String
        let url: String
        let isProtected: Bool
        let keySystems: [String]
        let keyIds: [String]
        let licenseUrls: [String]
        let rights: Rights
        let tracks: [Track]
        let keyNeeds: [Need]

        struct Rights: Encodable {
            let status: String
            let reason: String
            let expiresAfterFirstUse: Bool
            let begins: String?
            let ends: String?

            init(_ rights: RightsStatus) {
                status = rights.kind.rawValue
                reason = rights.reason
                expiresAfterFirstUse = rights.rightsExpireAfterFirstUse
                begins = rights.begins.map(JSONText.time)
                ends = rights.ends.map(JSONText.time)
            }
        }

        struct Track: Encodable {
            let kind: String
            let name: String?
            let language: String?
            let codecs: String?
            let bitRate: UInt64?
            let width: UInt32?
            let height: UInt32?
            let keyPeriods: [Period]
        }

        struct Period: Encodable {
            let start: Double?
            let end: Double?
            let method: String?
            let keyFormat: String?
            let keyUri: String?
            let keyIds: [String]
        }

        struct Need: Encodable {
            let keySystem: String?
            let keyIds: [String]
            let keyUri: String?
            let source: String?
        }

        init(_ info: ContentInfo, type: ContentType, url: String) {
            self.type = type.rawValue
            self.url = url
            isProtected = info.isProtected
            keySystems = info.keySystems.map(\.rawValue)
            keyIds = info.keyIDs.map(\.description)
            licenseUrls = info.licenseURLs
            rights = Rights(info.rights)
            tracks = info.tracks.map { track in
                Track(
                    kind: track.kind.rawValue, name: track.name, language: track.language, codecs: track.codecs,
                    bitRate: track.bitRate, width: track.width, height: track.height,
                    keyPeriods: track.keyPeriods.map { period in
                        Period(
                            start: period.start, end: period.end, method: period.method, keyFormat: period.keyFormat,
                            keyUri: period.keyURI, keyIds: period.keyIDs.map(\.description))
                    })
            }
            keyNeeds = info.keyNeeds.map { need in
                Need(
                    keySystem: need.keySystem?.rawValue, keyIds: need.keyIDs.map(\.description),
                    keyUri: need.keyURI, source: need.source)
            }
        }
    }
#endif
