// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyProtection

/// What the user sets on a decryptor.
struct DecryptorSettings: Sendable {
    /// Read at once, so that the text with the keys does not stay; where it cannot be read, the start fails.
    var keys: Result<StaticKeys, KeyError>?
    var keysFile: String?
    var keySystem: String?
    var licenseURL: String?
    /// Names the key of media that does not name it itself.
    var keyURI: String?
    /// In milliseconds; nil: as configured.
    var keyTimeout: UInt32?
    /// In milliseconds, of whole files.
    var outageLimit = defaultOutageLimit

    /// Used where neither the element nor a configuration says otherwise.
    static let defaultKeyTimeout: UInt32 = 30_000
    /// As long as an agent waits.
    private static let defaultOutageLimit: UInt32 = 300_000

    static let properties: [Property] = [
        Property(
            "keys", nick: "Keys",
            blurb: "Content keys for trials, separated by commas: KID:KEY[:IV] in hexadecimal, the KID also as a UUID; "
                + "the URI of a playlist or * (media without a KID) may stand in place of the KID. Visible in the "
                + "process list and in GStreamer's log of the command line: prefer keys-file",
            kind: .string(default: nil),
            set: change { settings, value in
                settings.keys = value.text.map { text in
                    Result { () throws(KeyError) in try StaticKeys.parse(property: text) }
                }
            }),
        Property(
            "keys-file", nick: "Keys file",
            blurb: "File with content keys, a line each: KID KEY [IV], URI KEY [IV] or * KEY [IV], in hexadecimal",
            kind: .string(default: nil), get: read { .string($0.keysFile) },
            set: change { $0.keysFile = $1.text }),
        Property(
            "key-system", nick: "Key system",
            blurb: "Key system to ask for keys: clearkey, fairplay or playready; unset: what the media names",
            kind: .string(default: nil), get: read { .string($0.keySystem) },
            set: change { $0.keySystem = $1.text }),
        Property(
            "license-url", nick: "License URL", blurb: "URL of the license service",
            kind: .string(default: nil), get: read { .string($0.licenseURL) },
            set: change { $0.licenseURL = $1.text }),
        Property(
            "key-timeout", nick: "Key timeout",
            blurb: "How long to wait for a key before the stream fails, in milliseconds; 0: for ever. A request that "
                + "no loader takes waits for the application a third as long",
            kind: .uint(default: defaultKeyTimeout, range: 0...UInt32.max),
            get: read { .uint($0.keyTimeout ?? defaultKeyTimeout) },
            set: change { settings, value in
                if case .uint(let milliseconds) = value { settings.keyTimeout = milliseconds }
            }),
        Property(
            "stats", nick: "Statistics",
            blurb: "Counts since the last start: samples and bytes decrypted, samples passed on clear, nanoseconds "
                + "spent in decryption",
            kind: .structure,
            get: { element in (element as? Decryptor)?.statistics.field ?? .none }),
    ]

    /// For streams that have no place for a KID.
    static let keyURI = Property(
        "key-uri", nick: "Key URI",
        blurb:
            "URI of the key, as an HLS playlist has it in EXT-X-KEY; unset: the stream's notes tell, or the key of *",
        kind: .string(default: nil), get: read { .string($0.keyURI) }, set: change { $0.keyURI = $1.text })

    /// For whole files.
    static let outageLimit = Property(
        "outage-limit", nick: "Outage limit",
        blurb:
            "How long, in milliseconds, playback of a whole file waits where the network fails or sends something else, "
            + "in playbin3, which makes the HTTP source itself; the file comes through this element then, and latchkey-fetch "
            + "messages tell of it. 0: the source decides; set it before the file starts",
        kind: .uint(default: defaultOutageLimit, range: 0...UInt32.max),
        get: read { .uint($0.outageLimit) },
        set: change { settings, value in
            if case .uint(let milliseconds) = value { settings.outageLimit = milliseconds }
        })

    private static func read(
        _ field: @escaping @Sendable (DecryptorSettings) -> FieldValue
    ) -> @Sendable (Element) -> FieldValue {
        { element in (element as? Decryptor).map { field($0.settings) } ?? .none }
    }

    private static func change(
        _ body: @escaping @Sendable (inout DecryptorSettings, FieldValue) -> Void
    ) -> @Sendable (Element, FieldValue) -> Void {
        { element, value in (element as? Decryptor)?.changeSettings { body(&$0, value) } }
    }
}

extension FieldValue {
    /// A text that is set and not empty.
    var text: String? {
        if case .string(let text?) = self, !text.isEmpty { text } else { nil }
    }
}

/// What a decryptor has done since it last started.
struct DecryptorStatistics: Sendable {
    var samplesDecrypted: UInt64 = 0
    var bytesDecrypted: UInt64 = 0
    var samplesClear: UInt64 = 0
    /// In nanoseconds.
    var decryptTime: UInt64 = 0
    /// Since they were last logged.
    var times = DecryptionTimes()

    var field: FieldValue {
        .structure(
            "latchkey-decryptor-stats",
            [
                ("samples-decrypted", .uint64(samplesDecrypted)), ("bytes-decrypted", .uint64(bytesDecrypted)),
                ("samples-clear", .uint64(samplesClear)), ("decrypt-time", .uint64(decryptTime)),
            ])
    }
}
