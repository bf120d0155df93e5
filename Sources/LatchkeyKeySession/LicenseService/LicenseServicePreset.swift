// SPDX-License-Identifier: MPL-2.0

/// How one licence service wants to be asked for FairPlay keys, and how it answers. Data, not code: a service that is
/// not among the shipped ones is a value of this type.
///
/// Presets hold no credentials and no server names of anybody's account; those come from the configuration.
public struct LicenseServicePreset: Sendable, Hashable {
    /// A field that goes with every request.
    public struct Header: Sendable, Hashable {
        /// The field's name.
        public var name: String
        /// What goes there.
        public var value: LicenseRequestValue

        /// `value` is filled in for each request. A parameter goes only to a server that the configuration names.
        public init(_ name: String, _ value: LicenseRequestValue) {
            self.name = name
            self.value = value
        }
    }

    /// Something that the configuration brings.
    public enum Expected: Sendable, Hashable {
        /// A header field of this name.
        case header(String)
        /// A parameter of this name.
        case parameter(String)
    }

    /// The form of the answer. The reader understands every form; this says which one the service uses.
    public enum Response: Sendable, Hashable {
        /// The content key context's (CKC's) bytes.
        case raw
        /// Base64 text.
        case base64
        /// `<ckc>` around Base64 text.
        case ckcElement
        /// A JSON text, and the members that lead to the Base64 text. A list on the way counts as its first item, or
        /// the one whose `uri` is the key URI.
        case json([String])
    }

    /// The name in settings.
    public var name: String
    /// How the content identifier comes out of the key URI.
    public var contentIdentifier: ContentIdentifierRule
    /// Where requests go: the configured URL, or what the key URI names.
    public var url: LicenseRequestURL
    /// What requests carry, and in which form.
    public var body: LicenseRequestBody
    /// Sent beside the Content-Type of the body.
    public var headers: [Header]
    /// What the service may need from the configuration: one of each inner list. If all of a list are missing, the request
    /// is made all the same, and `LicenseService.advice` names them.
    public var expected: [[Expected]]
    /// Where the CKC is in a response.
    public var response: Response
    /// Where the service has the application certificate; nil where it has no place of its own for it.
    public var certificateURL: LicenseRequestURL?

    /// The defaults are those of a service that takes the SPC's bytes by POST and answers with the CKC's bytes.
    public init(
        name: String, contentIdentifier: ContentIdentifierRule, url: LicenseRequestURL = LicenseRequestURL(),
        body: LicenseRequestBody = .raw, headers: [Header] = [], expected: [[Expected]] = [],
        response: Response = .raw, certificateURL: LicenseRequestURL? = nil
    ) {
        self.name = name
        self.contentIdentifier = contentIdentifier
        self.url = url
        self.body = body
        self.headers = headers
        self.expected = expected
        self.response = response
        self.certificateURL = certificateURL
    }
}

extension LicenseServicePreset.Expected: CustomStringConvertible {
    /// For error texts.
    public var description: String {
        switch self {
        case .header(let name): "the header \(name)"
        case .parameter(let name): "the parameter “\(name)”"
        }
    }
}
