// SPDX-License-Identifier: MPL-2.0

public import LatchkeyHTTP
import LatchkeyKeySystems
public import LatchkeyProtection

/// What configuration can say about FairPlay-style keys. Prints without values of headers and parameters and without
/// queries.
public struct FairPlaySettings: Sendable, Hashable {
    /// The application certificate; one of both. Nil: where the preset's service has it.
    public var certificateFile: String?
    /// Where the certificate is fetched from.
    public var certificateURL: String?
    /// The key server.
    public var service: LicenseService
    /// The path of a file with the application secret key, as 32 hexadecimal digits, for the project's test derivation.
    /// For tests against the project's own test authority, and of no use with any vendor's key server.
    public var testASkFile: String?
    /// 20 bytes; nil: random in each request.
    public var deviceIdentifier: [UInt8]?
    /// The folder of the license store with stored keys. Nil: none are stored.
    public var storedKeysFolder: String?
    /// The file of the device secret. Nil: `device-secret` in the folder of stored keys.
    public var deviceSecretFile: String?
    /// What the user's own folders are found by.
    public var environment = ViewingSettings.processEnvironment
    /// Whether answers have to have this project's code over the whole message. Nil: from this project's own test
    /// servers, and from servers that have sent it before.
    public var integrity: IntegrityRule?
    /// The folder in which it is written down which servers have sent that code. Nil: the process alone remembers.
    public var integrityFolder = ViewingSettings.stateFolder("key-servers", ViewingSettings.processEnvironment)

    /// No certificate, and no keys are stored; the fields above add to that.
    public init(service: LicenseService = LicenseService()) { self.service = service }

    /// The group of a configuration file.
    public static let group = ConfigurationGroup(
        "fairplay",
        keys: [
            "certificate-file", "certificate-url", "preset", "key-server-url", "key-uri-scheme", "form-encoding",
            "content-id", "test-ask-file", "device-id", "stored-keys", "device-secret",
            "integrity",
        ])
    /// The group of header fields for the key server; its keys are the names of the fields.
    public static let headersGroup = ConfigurationGroup("fairplay-headers", keys: nil)
    /// The group of values for `{parameter}` in addresses and bodies.
    public static let parametersGroup = ConfigurationGroup("fairplay-parameters", keys: nil)
    /// All groups of these settings.
    public static let groups = [group, headersGroup, parametersGroup]

    /// Reads that group, and the groups with headers and parameters. `resolve` makes paths absolute.
    ///
    /// Throws `invalidConfiguration` with the key and what is possible.
    public init(
        _ values: [String: String], headers: [HTTPHeader] = [], parameters: [String: String] = [:],
        resolve: (String) -> String = { $0 }
    ) throws(KeyError) {
        try Self.group.check(values.keys.sorted())
        var preset = LicenseServicePreset.standard
        if let name = values["preset"] {
            guard let named = LicenseServicePreset.named(name) else {
                throw .invalidConfiguration(
                    "the preset “\(name)” is not known; known are "
                        + LicenseServicePreset.all.map(\.name).joined(separator: ", "))
            }
            preset = named
        }
        service = LicenseService(
            preset, url: values["key-server-url"], headers: headers, parameters: parameters,
            contentIdentifier: values["content-id"].map { .fixed($0) })
        if let scheme = values["key-uri-scheme"] {
            guard scheme == "https" || scheme == "http" else {
                throw .invalidConfiguration("key-uri-scheme=\(scheme) is neither https nor http")
            }
            service.keyURIScheme = scheme
        }
        if let encoding = values["form-encoding"] {
            guard encoding == "bare" || encoding == "percent" else {
                throw .invalidConfiguration("form-encoding=\(encoding) is neither bare nor percent")
            }
            service.encodesFormFields = encoding == "percent"
        }
        if let text = values["device-id"] {
            guard let bytes = Hex.decode(text), bytes.count == 20 else {
                throw .invalidConfiguration("device-id is not 40 hexadecimal digits")
            }
            deviceIdentifier = bytes
        }
        if let name = values["integrity"] {
            guard let rule = IntegrityRule(rawValue: name) else {
                throw .invalidConfiguration(
                    "integrity=\(name) is not known; known are "
                        + IntegrityRule.allCases.map(\.rawValue).joined(separator: ", "))
            }
            integrity = rule
        }
        guard values["certificate-file"] == nil || values["certificate-url"] == nil else {
            throw .invalidConfiguration("certificate-file and certificate-url exclude each other")
        }
        certificateFile = values["certificate-file"].map(resolve)
        certificateURL = values["certificate-url"]
        testASkFile = values["test-ask-file"].map(resolve)
        storedKeysFolder = values["stored-keys"].map(resolve)
        deviceSecretFile = values["device-secret"].map(resolve)
    }

    /// The loader for these settings. Throws `invalidConfiguration` where there is no application certificate, or the
    /// folder of stored keys cannot be made. `playReady` may share its store with stored keys. `sharesCertificates`: what a
    /// loader of this process fetched from the certificate's URL within the last hour need not be fetched again.
    public func makeLoader(
        transport: any HTTPTransport = CurlTransport.shared, beside playReady: PlayReadySettings? = nil,
        sharesCertificates: Bool = false
    ) throws(KeyError) -> FairPlayLoader {
        if let storedKeysFolder { _ = try FilePersistableKeyStore(folder: storedKeysFolder) }
        return FairPlayLoader(
            service: service,
            certificate: ApplicationCertificate(
                try certificateSource(), transport: transport, loaded: sharesCertificates ? .shared : nil),
            persistableKeys: storedKeys(beside: playReady), integrity: integrity, transport: transport)
    }

    /// The stored keys; nil if none are kept. They are in the store of `playReady` if that is in the same folder.
    public func storedKeys(beside playReady: PlayReadySettings? = nil) -> PersistableKeys? {
        guard let folder = storedKeysFolder else { return nil }
        if let playReady, let shared = playReady.storeFolder, StoreFiles.resolved(shared) == StoreFiles.resolved(folder)
        {
            let store = LicenseStoreConfiguration(folder: shared, environment: playReady.environment)
            return PersistableKeys(store, policy: playReady.clockPolicy)
        }
        var store = LicenseStoreConfiguration(folder: folder, environment: environment)
        store.secret = FileDeviceSecret(path: deviceSecretFile ?? "\(folder)/device-secret")
        return PersistableKeys(store)
    }

    /// Whose trusted clock judges stored keys: their own store, or the user's for keys that an application keeps.
    private func clock(beside playReady: PlayReadySettings?) throws(KeyError) -> PersistableKeys? {
        if let keys = storedKeys(beside: playReady) { return keys }
        guard let store = try ControlSettings(playReady: playReady).licenseStore else { return nil }
        return PersistableKeys(store, policy: playReady?.clockPolicy ?? TrustedClockPolicy())
    }

    private func certificateSource() throws(KeyError) -> ApplicationCertificate.Source {
        if let certificateFile { return .file(certificateFile) }
        if let certificateURL { return .url(certificateURL) }
        guard let url = try service.certificateURL() else {
            throw .invalidConfiguration(
                "no application certificate is configured; set certificate-file or certificate-url in [fairplay]")
        }
        return .url(url)
    }

    /// Adds what a session needs for these settings. Reads the files of secrets. `playReady` may share its store with stored
    /// keys. Throws `invalidConfiguration` with the file that cannot be used.
    public func apply(
        to configuration: inout KeySessionConfiguration, beside playReady: PlayReadySettings? = nil
    ) throws(KeyError) {
        if let deviceIdentifier { configuration.deviceIdentifier = deviceIdentifier }
        configuration.integrityStore = integrityFolder.map {
            FilePersistableKeyStore(onDemand: $0, kind: "record of a key server")
        }
        if let path = deviceSecretFile ?? storedKeysFolder.map({ "\($0)/device-secret" }) {
            if let storedKeysFolder { _ = try FilePersistableKeyStore(folder: storedKeysFolder) }
            configuration.deviceSecret = try FileDeviceSecret(path: path).keyForPersistableKeys()
            configuration.persistableKeys = try clock(beside: playReady)
        }
        guard let testASkFile else { return }
        var bytes = try RegularFile(path: testASkFile, kind: "test application secret key", has: .secrets).contents(
            limit: 256)
        defer { wipe(&bytes) }
        var digits = bytes.filter { $0 > 0x20 }
        defer { wipe(&digits) }
        guard let ask = ContentKey(hex: String(decoding: digits, as: UTF8.self)) else {
            throw .invalidConfiguration("test application secret key \(testASkFile): not 32 hexadecimal digits")
        }
        configuration.keyPayloadProvider = DerivedKeyPayloadProvider(derivation: TestDerivationFunction(), ask: ask)
    }
}

extension FairPlaySettings: Redacted {
    /// Service and certificate, without query, and headers and parameters by name.
    public var description: String {
        let url = certificateURL.map { HTTPRequest(url: $0).printableURL }
        return (certificateFile ?? url).map { "\(service.description), certificate \($0)" } ?? service.description
    }
}
