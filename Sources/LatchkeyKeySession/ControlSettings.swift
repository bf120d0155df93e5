// SPDX-License-Identifier: MPL-2.0

public import LatchkeyHTTP
import LatchkeyKeySystems
public import LatchkeyProtection

/// What configuration can say about getting keys. Prints without the values of headers and without the URL's query.
public struct ControlSettings: Sendable, Equatable {
    /// The path of a keys file (see `KeysFile`).
    public var keysFile: String?
    /// Where licenses come from. Wins over URLs that media names.
    public var licenseURL: String?
    /// Which license URLs that media names are asked.
    public var mediaLicenseURLs = MediaLicenseURLs.https
    /// The key system of `licenseURL`. Nil: Clear Key.
    public var keySystem: KeySystem?
    /// How long media waits for a key. Nil: the element's own.
    public var keyTimeout: Duration?
    /// How long one exchange with a license service may take. Nil: the transport's own.
    public var httpTimeout: Duration?
    /// Sent to `licenseURL`, and nowhere else.
    public var httpHeaders: [HTTPHeader]
    /// Nil: no FairPlay-style keys from a server.
    public var fairPlay: FairPlaySettings?
    /// Nil: no PlayReady-style licenses.
    public var playReady: PlayReadySettings?
    /// The session server. Nil: no server counts what is played.
    public var viewing: ViewingSettings?
    /// The HLS key formats that are preferred where a playlist offers several, best first. Empty: no preference.
    public var keyFormats: [String]
    /// Whether HLS segments may be in Latchkey's own envelopes (`LatchkeyEnvelope`). The start of a segment is fetched to
    /// find out then.
    public var readsEnvelopes = false
    /// The most `EXT-X-KEY` tags of a playlist, and the most `EXT-X-MAP` tags. Nil: 2,000.
    public var playlistKeys: Int?
    /// In bytes: what the HLS playlists of a presentation may take of memory as long as they are played. Nil: 48 MiB.
    public var playlistMemory: Int?
    /// What becomes of qualities, languages of sound, and text whose keys may not be used.
    public var partialLicenses = PartialLicenses.play
    /// Where the header fields and cookies go that the application gives its source element, beside the origin of the manifest:
    /// origins, as `https://host`, or `*` for all.
    public var sourceHeaderOrigins: [String] = []

    /// Where PlayReady-style licenses are kept: without `playReady`, in the user's own store. Nil if there is no place for
    /// that. Throws `invalidConfiguration` as `PlayReadySettings.makeStoreConfiguration`.
    public var licenseStore: LicenseStoreConfiguration? {
        get throws(KeyError) {
            if let playReady { return try playReady.makeStoreConfiguration() }
            return LicenseStoreConfiguration(environment: PlayReadySettings().environment)
        }
    }

    /// The stored FairPlay-style keys; nil if none are kept.
    public var storedKeys: PersistableKeys? { fairPlay?.storedKeys(beside: playReady) }

    /// The group of a configuration file.
    public static let group = ConfigurationGroup(
        "latchkey",
        keys: [
            "keys-file", "license-url", "media-license-urls", "key-system", "key-timeout", "http-timeout",
            "key-formats", "envelopes", "playlist-keys", "playlist-memory", "partial-licenses",
            "source-header-origins",
        ])
    /// The group of header fields for every license request; its keys are the names of the fields.
    public static let headersGroup = ConfigurationGroup("http-headers", keys: nil)
    /// Every group that a configuration file may have; each part adds its own here.
    public static let groups =
        [group, headersGroup] + FairPlaySettings.groups + PlayReadySettings.groups + ViewingSettings.groups

    /// Without arguments nothing is configured: keys come from what media names.
    public init(
        keysFile: String? = nil, licenseURL: String? = nil, keySystem: KeySystem? = nil, keyTimeout: Duration? = nil,
        httpTimeout: Duration? = nil, httpHeaders: [HTTPHeader] = [], fairPlay: FairPlaySettings? = nil,
        playReady: PlayReadySettings? = nil, viewing: ViewingSettings? = nil, keyFormats: [String] = []
    ) {
        self.keysFile = keysFile
        self.licenseURL = licenseURL
        self.keySystem = keySystem
        self.keyTimeout = keyTimeout
        self.httpTimeout = httpTimeout
        self.httpHeaders = httpHeaders
        self.fairPlay = fairPlay
        self.playReady = playReady
        self.viewing = viewing
        self.keyFormats = keyFormats
    }

    /// The loaders that these settings ask for, in order: the keys file, then the FairPlay-style key server, then
    /// PlayReady-style licenses, then the license service.
    ///
    /// What cannot be used becomes a loader that says so to the requests it is for. With `keySystem` FairPlay, the key
    /// server is at `licenseURL` and gets its headers, unless `fairPlay` names another; with PlayReady, the same holds of
    /// `playReady`.
    /// The last one also takes Clear Key requests whose media names a URL, unless `keySystem` is another one.
    /// `sharesCertificates` is as in `FairPlaySettings.makeLoader`.
    public func makeLoaders(
        transport: any HTTPTransport = CurlTransport.shared, sharesCertificates: Bool = false
    ) -> [any ResourceLoader] {
        var loaders: [any ResourceLoader] = []
        if let keysFile { loaders.append(KeysFileLoader(path: keysFile)) }
        if let fairPlay = fairPlayOrLicenseURL {
            do throws(KeyError) {
                loaders.append(
                    try fairPlay.makeLoader(
                        transport: transport, beside: playReady, sharesCertificates: sharesCertificates))
            } catch {
                loaders.append(
                    CallbackLoader(name: "FairPlay") { request in
                        guard request.keySystem == .fairPlay, request.keyURI != nil else { return false }
                        request.finishLoading(with: error)
                        return true
                    })
            }
        }
        if let loader = playReadyLoader(transport) { loaders.append(loader) }
        if keySystem ?? .clearKey == .clearKey {
            let loader = ClearKeyLoader(
                url: licenseURL, headers: httpHeaders, timeout: httpTimeout, mediaLicenseURLs: mediaLicenseURLs,
                transport: transport, keyTimeout: keyWait)
            // A service that is named as this key system's own comes before licenses that are for any.
            loaders.insert(loader, at: keySystem == nil ? loaders.count : clearKeyPlace(loaders))
        }
        return loaders
    }

    /// What a session for these settings is made with, beside what the application registered.
    ///
    /// Throws `invalidConfiguration` where a file of secrets cannot be read, or the folder of session records not made.
    public func makeConfiguration(
        _ registered: KeySessionConfiguration = ResourceLoaderFactory.default.configuration
    ) throws(KeyError) -> KeySessionConfiguration {
        var configuration = registered
        try fairPlay?.apply(to: &configuration, beside: playReady)
        if let viewing { configuration.viewing = try viewing.makeConfiguration() }
        return configuration
    }

    /// How long what is not a decryptor waits for a key.
    package var keyWait: Duration {
        let timeout = keyTimeout ?? .seconds(30)
        return timeout > .zero ? timeout : .seconds(86_400)
    }

    private func clearKeyPlace(_ loaders: [any ResourceLoader]) -> Int {
        loaders.firstIndex { $0 is PlayReadyLoader } ?? loaders.count
    }

    private func playReadyLoader(_ transport: any HTTPTransport) -> (any ResourceLoader)? {
        guard let settings = playReadyOrLicenseURL else { return nil }
        do throws(KeyError) {
            return try settings.makeLoader(transport: transport)
        } catch {
            return CallbackLoader(name: "PlayReady") { request in
                guard PlayReadyLoader.isFor(request, hasService: settings.licenseURL != nil) else { return false }
                request.finishLoading(with: error)
                return true
            }
        }
    }

    private var playReadyOrLicenseURL: PlayReadySettings? {
        let isNamed = keySystem == .playReady && licenseURL != nil
        guard var settings = playReady ?? (isNamed ? PlayReadySettings() : nil) else { return nil }
        if keySystem == .playReady, settings.licenseURL == nil, let licenseURL {
            settings.licenseURL = licenseURL
            settings.headers += httpHeaders
        }
        if settings.timeout == nil { settings.timeout = httpTimeout }
        settings.mediaLicenseURLs = mediaLicenseURLs
        return settings
    }

    private var fairPlayOrLicenseURL: FairPlaySettings? {
        guard var settings = fairPlay else { return nil }
        if keySystem == .fairPlay, settings.service.url == nil, let licenseURL {
            settings.service.url = licenseURL
            settings.service.headers += httpHeaders
        }
        if settings.service.timeout == nil { settings.service.timeout = httpTimeout }
        settings.service.mediaLicenseURLs = mediaLicenseURLs
        return settings
    }
}

extension ControlSettings: Redacted {
    /// What is configured, in one line for a log: URLs without query, headers by name.
    public var description: String {
        let url = licenseURL.map { HTTPRequest(url: $0).printableURL }
        let parts: [(String, String?)] = [
            ("keys file", keysFile), ("license URL", url), ("key system", keySystem?.rawValue),
            ("key timeout", keyTimeout?.description), ("HTTP timeout", httpTimeout?.description),
            ("FairPlay", fairPlay?.description),
            ("PlayReady", playReady?.description),
            ("viewing sessions", viewing?.description),
            ("key formats", keyFormats.isEmpty ? nil : keyFormats.joined(separator: ", ")),
            ("headers", httpHeaders.isEmpty ? nil : httpHeaders.map(\.name).joined(separator: ", ")),
        ]
        return parts.compactMap { name, value in value.map { "\(name): \($0)" } }.joined(separator: "; ")
    }
}

/// A group of the configuration file and the keys that it may have.
///
/// Each part that reads settings names its groups; the reader adds them up and refuses every other group and key, so
/// that a misspelt one is not silent.
public struct ConfigurationGroup: Sendable, Hashable {
    /// The name of the group, as it stands in brackets.
    public let name: String
    /// Nil: the file chooses the names, as those of headers.
    public let keys: [String]?

    /// A nil for `keys` takes every key.
    public init(_ name: String, keys: [String]?) {
        self.name = name
        self.keys = keys
    }

    /// Throws `invalidConfiguration` with the group, the key and the known ones for the first key that is not known.
    public func check(_ names: [String]) throws(KeyError) {
        guard let keys, let unknown = names.first(where: { !keys.contains($0) }) else { return }
        throw .invalidConfiguration(
            "[\(name)] has \(Self.quoted(unknown, "unknown key")); known are \(keys.joined(separator: ", "))")
    }

    /// What looks like a misspelt name is quoted. Anything else may be a secret in a wrong place.
    private static func quoted(_ name: String, _ what: String) -> String {
        let isName = name.utf8.count <= 32 && name.utf8.allSatisfy { 0x61...0x7A ~= $0 || "-_[]".utf8.contains($0) }
        return isName ? "the \(what) “\(name)”" : "an \(what), which is not shown because it may be a secret"
    }

    /// What a setting that has a few words to choose from says; nil where it is not set. Throws `invalidConfiguration` with
    /// those words for any other.
    static func choice(
        _ name: String, _ values: [String: String], _ choices: [String: Bool]
    ) throws(KeyError) -> Bool? {
        guard let value = values[name] else { return nil }
        guard let choice = choices[value] else {
            throw .invalidConfiguration("\(name)=\(value) is none of \(choices.keys.sorted().joined(separator: ", "))")
        }
        return choice
    }

    /// What a setting with that name says that has origins, separated by semicolons, or `*` for all. Throws `invalidConfiguration`
    /// without the text, which may be anything.
    package static func origins(_ text: String, of name: String) throws(KeyError) -> [String] {
        let origins = text.split(separator: ";").map(String.init)
        for origin in origins where origin != "*" && HTTPRequest(url: origin).origin.isEmpty {
            throw .invalidConfiguration(
                "\(name) has an entry that is neither * nor an origin such as https://host:8443")
        }
        return origins
    }

    /// The same for every group of a file, with its keys. A group that is not among `known` is refused too. Throws
    /// `invalidConfiguration`.
    public static func check(
        _ groups: [(name: String, keys: [String])], against known: [ConfigurationGroup]
    ) throws(KeyError) {
        for (name, keys) in groups {
            guard let group = known.first(where: { $0.name == name }) else {
                let names = known.map { "[\($0.name)]" }.joined(separator: ", ")
                throw .invalidConfiguration("there is \(quoted(name, "unknown group")); known are \(names)")
            }
            try group.check(keys)
        }
    }
}
