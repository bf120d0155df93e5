// SPDX-License-Identifier: MPL-2.0

public import LatchkeyHTTP
public import LatchkeyProtection

/// One license service as it is configured: a preset, and what only its customer knows. Prints without the URL's query
/// and without values of headers and parameters.
public struct LicenseService: Sendable, Hashable {
    /// The form of requests and responses.
    public var preset: LicenseServicePreset
    /// The key server's URL. `{content-id}` and `{parameter}` in it are replaced by their values. It may be nil where
    /// the preset takes the key URI for it.
    public var url: String?
    /// Tokens and whatever else the service wants. They go to `url` and never to a server that the media names. A field
    /// that the preset has too takes its place.
    public var headers: [HTTPHeader]
    /// Values that the preset asks for by name. As `headers`, they never go to a server that the media names.
    public var parameters: [String: String]
    /// In place of the preset's rule.
    public var contentIdentifier: ContentIdentifierRule?
    /// What replaces the key URI's scheme where it is the key server's URL: `https`, or `http` on a test bench.
    public var keyURIScheme: String
    /// Whether a server that the key URI names is asked. Counts where neither `url` nor the preset names one.
    public var mediaLicenseURLs = MediaLicenseURLs.https
    /// Whether fields of a form are percent-encoded. Nil: as the preset says.
    public var encodesFormFields: Bool?
    /// For one exchange. Nil: the transport's own.
    public var timeout: Duration?

    /// Nothing is checked here: what the preset needs and does not find, it names with the first request.
    public init(
        _ preset: LicenseServicePreset = .standard, url: String? = nil, headers: [HTTPHeader] = [],
        parameters: [String: String] = [:], contentIdentifier: ContentIdentifierRule? = nil,
        keyURIScheme: String = "https", encodesFormFields: Bool? = nil, timeout: Duration? = nil
    ) {
        self.preset = preset
        self.url = url
        self.headers = headers
        self.parameters = parameters
        self.contentIdentifier = contentIdentifier
        self.keyURIScheme = keyURIScheme
        self.encodesFormFields = encodesFormFields
        self.timeout = timeout
    }

    /// The content identifier that a key URI stands for. Throws `malformedRequest` where it has none, `denied` if it would
    /// need a parameter and the settings name no server.
    public func contentIdentifier(of uri: KeyURI) throws(KeyError) -> [UInt8] {
        let rule = contentIdentifier ?? preset.contentIdentifier
        let isTrusted = isNamedBySettings
        guard let identifier = rule.contentIdentifier(in: uri, parameters: isTrusted ? parameters : [:]) else {
            if !isTrusted, let name = rule.parameterName {
                throw LicenseRequestValues.parameterIsDenied(name, to: "“\(preset.name)”")
            }
            throw .malformedRequest(
                "\(uri.printable) has no content identifier where “\(preset.name)” looks for it; "
                    + "set another rule or preset")
        }
        return identifier
    }

    /// The request that asks for the key of `keyURI`, which media from `mediaURL` names; nil: not known.
    ///
    /// Throws `invalidConfiguration` where a URL is missing or a parameter without which no request can be made, `denied`
    /// where `mediaLicenseURLs` does not allow the server of the key URI, or it would need a parameter, `malformedRequest`
    /// where the key URI lacks what the service wants.
    public func request(
        for keyURI: KeyURI, contentIdentifier: [UInt8], spc: [UInt8], isPersistent: Bool = false,
        mediaURL: String? = nil
    ) throws(KeyError) -> HTTPRequest {
        let isTrusted = isNamedBySettings
        let values = values(keyURI, contentIdentifier, spc, isTrusted: isTrusted)
        var request = HTTPRequest(
            method: "POST",
            url: try preset.url.text(
                configured: url, values: values, scheme: keyURIScheme, isPersistent: isPersistent),
            headers: try fields(values, isTrusted: isTrusted),
            body: try preset.body.bytes(values, encodesFormFields: encodesFormFields))
        // What is more than the SPC has parameters in it, and those may be tokens.
        if case .raw = preset.body {} else { request.staysWithinOrigin = true }
        request.maximumResponseSize = LicenseResponse.maximumSize
        request.mayCarrySessionToken = isTrusted
        if let timeout { request.timeout = timeout }
        if !isTrusted { try mediaLicenseURLs.check(&request, mediaURL: mediaURL) }
        return request
    }

    /// Whether the settings name the service; otherwise the key URI of a playlist does.
    var isNamedBySettings: Bool { preset.url.isTrusted(configured: url) }

    /// The URL of the application certificate, where the preset knows one. Throws as `request` does.
    public func certificateURL() throws(KeyError) -> String? {
        guard let rule = preset.certificateURL else { return nil }
        // Without a key URI, no media names the server.
        let values = values(KeyURI(""), [], [], isTrusted: true)
        return try rule.text(configured: url, values: values, scheme: keyURIScheme, isPersistent: false)
    }

    /// The CKC in an answer. Throws as `LicenseResponse.ckc(in:)` does.
    public func ckc(in body: [UInt8], for keyURI: KeyURI) throws(KeyError) -> [UInt8] {
        try LicenseResponse.ckc(in: body, form: preset.response, keyURI: keyURI.text)
    }

    private func values(
        _ uri: KeyURI, _ identifier: [UInt8], _ spc: [UInt8], isTrusted: Bool
    ) -> LicenseRequestValues {
        LicenseRequestValues(
            service: "“\(preset.name)”", keyURI: uri, contentIdentifier: identifier, spc: spc,
            parameters: isTrusted ? parameters : [:], isTrusted: isTrusted)
    }

    private func fields(_ values: LicenseRequestValues, isTrusted: Bool) throws(KeyError) -> [HTTPHeader] {
        var fields = [HTTPHeader(name: "Content-Type", value: preset.body.contentType)]
        let names = Set(isTrusted ? headers.map { $0.name.lowercased() } : [])
        for header in preset.headers where !names.contains(header.name.lowercased()) {
            // A parameter may be a credential.
            if case .parameter(let name) = header.value, !isTrusted || parameters[name] == nil { continue }
            fields.append(HTTPHeader(name: header.name, value: try values.text(of: header.value)))
        }
        if isTrusted {
            fields.removeAll { names.contains($0.name.lowercased()) }
            fields += headers
        }
        return fields
    }

    /// What the service may need and the configuration does not have, as a sentence without a period. Nil: it has all.
    public var advice: String? {
        let fields = Set(headers.map { $0.name.lowercased() })
        let missing = preset.expected.filter { choice in
            !choice.contains { expected in
                switch expected {
                case .header(let name): fields.contains(name.lowercased())
                case .parameter(let name): parameters[name] != nil
                }
            }
        }
        guard !missing.isEmpty else { return nil }
        let choices = missing.map { $0.map(\.description).joined(separator: " or ") }
        return "“\(preset.name)” may need \(choices.joined(separator: ", and ")), which the configuration does not have"
    }
}

extension LicenseService: Redacted {
    /// Preset, URL without its query, headers and parameters by name.
    public var description: String {
        let names = headers.map(\.name) + parameters.keys.sorted()
        return "“\(preset.name)”" + (url.map { " at \(HTTPRequest(url: $0).printableURL)" } ?? "")
            + (names.isEmpty ? "" : " with \(names.joined(separator: ", "))")
    }
}
