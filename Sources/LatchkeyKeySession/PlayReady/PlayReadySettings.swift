// SPDX-License-Identifier: MPL-2.0

public import LatchkeyHTTP
import LatchkeyKeySystems
public import LatchkeyProtection

/// What configuration can say about PlayReady-style licenses. Prints without values of headers and without queries.
public struct PlayReadySettings: Sendable, Hashable {
    /// The files of the provisioning bundle; all of them, or none where the process imported a model
    /// (`PlayReadyModel`).
    public var modelCertificateFile: String?
    /// The model's private key, in PEM.
    public var modelPrivateKeyFile: String?
    /// The public key that certificates of services go back to.
    public var rootKeyFile: String?
    /// The public key that challenges are encrypted for.
    public var serverKeyFile: String?
    /// What the time service's chain goes back to; nil: to the root.
    public var timeKeyFile: String?
    /// Lists of certificates that are not trusted any more.
    public var revocationListFiles: [String] = []
    /// Nil: where the media says.
    public var licenseURL: String?
    /// The domain service. Nil: where the service says, or else the license service.
    public var domainURL: String?
    /// The URL of the signed time service.
    public var timeURL: String?
    /// Header fields that go with requests to the configured services.
    public var headers: [HTTPHeader] = []
    /// Of one request; nil for the usual one.
    public var timeout: Duration?
    /// What the license service gets, as text.
    public var customData: String?
    /// Where `customData` may go beside `licenseURL` and `domainURL`: origins, as `https://host`, or `*` for every service.
    public var customDataOrigins: [String] = []
    /// Which license URLs that media names are asked.
    public var mediaLicenseURLs = MediaLicenseURLs.https
    /// What people call the device; a domain service may show it. For the origins of `licenseURL` and `domainURL`, and
    /// `customDataOrigins`.
    public var friendlyName: String?
    /// The folder of the license store. Nil: the user's own (`LicenseStoreConfiguration.init(environment:)`).
    public var storeFolder: String?
    /// What the user's own folders are found by.
    public var environment = ViewingSettings.processEnvironment
    /// Whether only signed time counts, and not the system clock.
    public var requiresSecureClock = false
    /// Licenses are renewed while media plays.
    public var renews = true

    /// Nothing is provisioned, and the store is in the user's own folders.
    public init() {}

    /// The group of a configuration file.
    public static let group = ConfigurationGroup(
        "playready",
        keys: [
            "model-certificate", "model-private-key", "root-key", "server-key", "time-key", "revocation-lists",
            "license-url", "domain-url", "time-url",
            "store", "custom-data", "custom-data-origins", "friendly-name", "clock", "renew",
        ])
    /// The group of header fields for the services; its keys are the names of the fields.
    public static let headersGroup = ConfigurationGroup("playready-headers", keys: nil)
    /// All groups of these settings.
    public static let groups = [group, headersGroup]

    /// Reads that group, and the group with headers. `resolve` makes paths absolute.
    ///
    /// Throws `invalidConfiguration` with the key and what is possible.
    public init(
        _ values: [String: String], headers: [HTTPHeader] = [], environment: [String: String]? = nil,
        resolve: (String) -> String = { $0 }
    ) throws(KeyError) {
        try Self.group.check(values.keys.sorted())
        modelCertificateFile = values["model-certificate"].map(resolve)
        modelPrivateKeyFile = values["model-private-key"].map(resolve)
        rootKeyFile = values["root-key"].map(resolve)
        serverKeyFile = values["server-key"].map(resolve)
        timeKeyFile = values["time-key"].map(resolve)
        revocationListFiles = values["revocation-lists"]?.split(separator: ";").map { resolve(String($0)) } ?? []
        licenseURL = values["license-url"]
        domainURL = values["domain-url"]
        timeURL = values["time-url"]
        customData = values["custom-data"]
        if let origins = values["custom-data-origins"] {
            customDataOrigins = try ConfigurationGroup.origins(origins, of: "custom-data-origins")
        }
        friendlyName = values["friendly-name"]
        storeFolder = values["store"].map(resolve)
        requiresSecureClock =
            try ConfigurationGroup.choice("clock", values, ["system": false, "secure": true]) ?? false
        renews = try ConfigurationGroup.choice("renew", values, ["true": true, "false": false]) ?? true
        self.headers = headers
        if let environment { self.environment = environment }
    }

    /// The loader for these settings. Reads the files of the bundle; the store is opened at the first use.
    ///
    /// Throws `invalidConfiguration` where something of the bundle is missing or cannot be used.
    public func makeLoader(
        transport: any HTTPTransport = CurlTransport.shared, log: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(KeyError) -> PlayReadyLoader {
        PlayReadyLoader(
            client: PlayReadyClient(configuration: try makeConfiguration(log: log), transport: transport),
            renews: renews)
    }

    /// The same for an application that calls the client itself.
    public func makeConfiguration(
        log: @escaping @Sendable (String) -> Void = { _ in }
    ) throws(KeyError) -> PlayReadyClient.Configuration {
        var configuration = PlayReadyClient.Configuration(
            provisioning: try ExitGate.pass { () throws(KeyError) in try provisioning() },
            store: try makeStoreConfiguration())
        configuration.licenseURL = licenseURL
        configuration.domainURL = domainURL
        configuration.timeURL = timeURL
        configuration.headers = headers
        configuration.timeout = timeout
        configuration.customData = customData
        configuration.customDataOrigins = customDataOrigins
        configuration.mediaLicenseURLs = mediaLicenseURLs
        configuration.friendlyName = friendlyName
        configuration.clockPolicy = clockPolicy
        if requiresSecureClock { configuration.features.append(.secureClock) }
        configuration.log = log
        return configuration
    }

    /// How strict the trusted clock is.
    public var clockPolicy: TrustedClockPolicy {
        var policy = TrustedClockPolicy()
        policy.takesSystemClock = !requiresSecureClock
        return policy
    }

    /// Where licenses are kept. Needs nothing of the bundle. Throws `invalidConfiguration` where there is no place.
    public func makeStoreConfiguration() throws(KeyError) -> LicenseStoreConfiguration {
        if let storeFolder { return LicenseStoreConfiguration(folder: storeFolder, environment: environment) }
        guard let own = LicenseStoreConfiguration(environment: environment) else {
            throw .invalidConfiguration("there is no place for the license store; set store in [playready], or HOME")
        }
        return own
    }

    private func provisioning() throws(KeyError) -> PlayReadyProvisioning {
        do {
            let files = [modelCertificateFile, modelPrivateKeyFile, rootKeyFile, serverKeyFile]
            if files.allSatisfy({ $0 == nil }), let imported = try PlayReadyModel.provisioning() { return imported }
            guard let modelCertificateFile, let modelPrivateKeyFile, let rootKeyFile, let serverKeyFile else {
                throw KeyError.invalidConfiguration(
                    "set model-certificate, model-private-key, root-key and server-key in [playready]")
            }
            var key = try Self.read(modelPrivateKeyFile, "model private key", has: .secrets)
            defer { wipe(&key) }
            return try PlayReadyProvisioning(
                modelCertificate: try Self.read(modelCertificateFile, "model certificate"), modelPrivateKeyPEM: key,
                rootKey: try Self.read(rootKeyFile, "root key"), serverKey: try Self.read(serverKeyFile, "server key"),
                timeKey: try timeKeyFile.map { try Self.read($0, "time key") },
                revocationLists: try revocationListFiles.map {
                    try RegularFile(path: $0, kind: "revocation list", has: .settings)
                        .contents(limit: RevocationList.maximumSize)
                })
        } catch let error as PlayReadyError {
            throw error.keyError
        } catch let error as KeyError {
            throw error
        } catch {
            throw .invalidConfiguration("\(error)")
        }
    }

    private static func read(
        _ path: String, _ kind: String, has contents: RegularFile.Contents = .settings
    ) throws(KeyError) -> [UInt8] {
        try RegularFile(path: path, kind: kind, has: contents).contents(limit: 64 * 1024)
    }
}

extension PlayReadySettings: Redacted {
    /// The URL of the license service without its query.
    public var description: String {
        licenseURL.map { "license service \(HTTPRequest(url: $0).printableURL)" } ?? "license service of the media"
    }
}
