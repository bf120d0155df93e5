// SPDX-License-Identifier: MPL-2.0

import HTTP
import KeySystems

/// What configuration can say about getting keys. Prints without the values of headers and without the URL's query.
public struct ControlSettings: Sendable, Equatable {
    /// The path of a keys file (see `KeysFile`).
    public var keysFile: String?
    /// Where licences come from. Wins over URLs that media names.
    public var licenseURL: String?
    /// The key system of `licenseURL`. Nil: Clear Key.
    public var keySystem: KeySystem?
    /// How long media waits for a key. Nil: the element's own.
    public var keyTimeout: Duration?
    /// How long one exchange with a licence service may take. Nil: the transport's own.
    public var httpTimeout: Duration?
    /// Sent to `licenseURL`, and nowhere else.
    public var httpHeaders: [HTTPHeader]

    public init(
        keysFile: String? = nil, licenseURL: String? = nil, keySystem: KeySystem? = nil, keyTimeout: Duration? = nil,
        httpTimeout: Duration? = nil, httpHeaders: [HTTPHeader] = []
    ) {
        self.keysFile = keysFile
        self.licenseURL = licenseURL
        self.keySystem = keySystem
        self.keyTimeout = keyTimeout
        self.httpTimeout = httpTimeout
        self.httpHeaders = httpHeaders
    }

    /// The loaders that these settings ask for, in order: the keys file, then the licence service.
    ///
    /// The last one also takes Clear Key requests whose media names a URL, unless `keySystem` is another one.
    public func makeLoaders(transport: any HTTPTransport = CurlTransport.shared) -> [any ResourceLoader] {
        var loaders: [any ResourceLoader] = []
        if let keysFile { loaders.append(KeysFileLoader(path: keysFile)) }
        if keySystem ?? .clearKey == .clearKey {
            loaders.append(
                ClearKeyLoader(url: licenseURL, headers: httpHeaders, timeout: httpTimeout, transport: transport))
        }
        return loaders
    }
}

extension ControlSettings: CustomStringConvertible, CustomReflectable {
    public var description: String {
        let url = licenseURL.map { HTTPRequest(url: $0).printableURL }
        let parts: [(String, String?)] = [
            ("keys file", keysFile), ("licence URL", url), ("key system", keySystem?.rawValue),
            ("key timeout", keyTimeout?.description), ("HTTP timeout", httpTimeout?.description),
            ("headers", httpHeaders.isEmpty ? nil : httpHeaders.map(\.name).joined(separator: ", ")),
        ]
        return parts.compactMap { name, value in value.map { "\(name): \($0)" } }.joined(separator: "; ")
    }

    public var customMirror: Mirror { Mirror(self, children: ["settings": description]) }
}
