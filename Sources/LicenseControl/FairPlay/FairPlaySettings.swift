// SPDX-License-Identifier: MPL-2.0

public import HTTP
import KeySystems
public import ProtectionModel

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
    /// The folder of stored keys. Nil: none are stored.
    public var storedKeysFolder: String?
    /// The file of the device secret. Nil: `device-secret` in the folder of stored keys.
    public var deviceSecretFile: String?

    /// No certificate, and no keys are stored; the fields above add to that.
    public init(service: LicenseService = LicenseService()) { self.service = service }

    /// The group of a configuration file.
    public static let group = ConfigurationGroup(
        "fairplay",
        keys: [
            "certificate-file", "certificate-url", "preset", "key-server-url", "key-uri-scheme", "content-id",
            "test-ask-file", "device-id", "stored-keys", "device-secret",
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
        if let text = values["device-id"] {
            guard let bytes = Hex.decode(text), bytes.count == 20 else {
                throw .invalidConfiguration("device-id is not 40 hexadecimal digits")
            }
            deviceIdentifier = bytes
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
    /// folder of stored keys cannot be made. `sharesCertificates`: what a loader of this process fetched from the
    /// certificate's URL within the last hour need not be fetched again.
    public func makeLoader(
        transport: any HTTPTransport = CurlTransport.shared, sharesCertificates: Bool = false
    ) throws(KeyError) -> FairPlayLoader {
        let store = try storedKeysFolder.map { folder throws(KeyError) in
            PersistableKeys(try FilePersistableKeyStore(folder: folder))
        }
        return FairPlayLoader(
            service: service,
            certificate: ApplicationCertificate(
                try certificateSource(), transport: transport, loaded: sharesCertificates ? .shared : nil),
            persistableKeys: store, transport: transport)
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

    /// Adds what a session needs for these settings. Reads the files of secrets. Throws `invalidConfiguration` with the
    /// file that cannot be used.
    public func apply(to configuration: inout KeySessionConfiguration) throws(KeyError) {
        if let deviceIdentifier { configuration.deviceIdentifier = deviceIdentifier }
        if let path = deviceSecretFile ?? storedKeysFolder.map({ "\($0)/device-secret" }) {
            if let storedKeysFolder { _ = try FilePersistableKeyStore(folder: storedKeysFolder) }
            configuration.deviceSecret = try FileDeviceSecret(path: path).keyForPersistableKeys()
        }
        guard let testASkFile else { return }
        var bytes = try RegularFile(path: testASkFile, kind: "test application secret key").contents(limit: 256)
        defer { wipe(&bytes) }
        var digits = bytes.filter { $0 > 0x20 }
        defer { wipe(&digits) }
        guard let ask = ContentKey(hex: String(decoding: digits, as: UTF8.self)) else {
            throw .invalidConfiguration("test application secret key \(testASkFile): not 32 hexadecimal digits")
        }
        configuration.keyPayloadProvider = DerivedKeyPayloadProvider(derivation: TestDerivationFunction(), ask: ask)
    }
}

extension FairPlaySettings: CustomStringConvertible, CustomReflectable {
    /// Service and certificate, without query, and headers and parameters by name.
    public var description: String {
        let url = certificateURL.map { HTTPRequest(url: $0).printableURL }
        return (certificateFile ?? url).map { "\(service.description), certificate \($0)" } ?? service.description
    }

    /// The same; values do not show in `dump`.
    public var customMirror: Mirror { Mirror(self, children: ["settings": description]) }
}
