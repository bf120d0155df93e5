// SPDX-License-Identifier: MPL-2.0

/// How one license service wants to be asked for FairPlay keys, and how it answers. Data, not code: a service that is
/// not among the shipped ones is a value of this type.
///
/// Presets hold no credentials and no server names of an account; those come from the configuration.
public struct LicenseServicePreset: Sendable, Hashable {
    /// A field that goes with every request.
    public struct Header: Sendable, Hashable {
        /// The field's name.
        public var name: String
        /// What goes there.
        public var value: LicenseRequestValue

        /// `value` is filled in for each request. A parameter goes only to a server that the configuration names; without the
        /// parameter, the field is left out.
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

/// The services whose request and response forms are public: in the services' own documentation, and in the sources of
/// players that are open (shaka-player, THEOplayer's samples, Bitmovin's documentation).
extension LicenseServicePreset {
    /// Every shipped preset.
    public static let all: [LicenseServicePreset] = [
        standard, appleEME, appleClassic, azure, keyOS, expressPlay, ezdrm, ezdrmQuery, verimatrix, verimatrixCore,
        axinom, pallyCon, drmToday, irdeto, nagra, vuDRM, uplynk, comcast,
    ]

    /// The preset of a name in settings.
    public static func named(_ name: String) -> LicenseServicePreset? { all.first { $0.name == name } }

    /// The SPC as it is to the configured URL, or to the one that the key URI is; the answer in any form. What key
    /// servers without a form of their own take.
    public static let standard = LicenseServicePreset(
        name: "standard",
        contentIdentifier: .firstOf([.queryParameter("cid"), .afterScheme]),
        url: LicenseRequestURL(.configuredOrKeyURI))

    /// Apple's sample for Encrypted Media Extensions, and WebKit's test key server.
    public static let appleEME = LicenseServicePreset(
        name: "apple-eme",
        contentIdentifier: .keyURI,
        body: .json(
            .object([
                .init(
                    "fairplay-streaming-request",
                    .object([
                        .init("version", .number(1)),
                        .init(
                            "streaming-keys",
                            .array([
                                .object([
                                    .init("id", .number(1)), .init("uri", .string(.keyURI)),
                                    .init("spc", .string(.spc)),
                                ])
                            ])),
                    ]))
            ])),
        response: .json(["fairplay-streaming-response", "streaming-keys", "ckc"]))

    private static let classicIdentifier = ContentIdentifierRule.firstOf([.query, .base64Text, .lastPathComponent])

    /// Apple's first sample key server.
    public static let appleClassic = LicenseServicePreset(
        name: "apple-classic",
        contentIdentifier: classicIdentifier,
        body: .form([
            .field("spc", .spc, isEncoded: true), .field("assetId", .contentIdentifier, isEncoded: true),
        ]),
        response: .ckcElement)

    /// Azure Media Services: the configuration brings `Authorization: Bearer …`.
    public static let azure = LicenseServicePreset(
        name: "azure",
        contentIdentifier: classicIdentifier,
        body: .form([
            .field("spc", .spc, isEncoded: true), .field("assetId", .contentIdentifier, isEncoded: true),
        ]),
        expected: [[.header("Authorization")]],
        response: .ckcElement)

    /// BuyDRM KeyOS. Its fields are not percent-encoded.
    public static let keyOS = LicenseServicePreset(
        name: "keyos",
        contentIdentifier: classicIdentifier,
        body: .form([
            .field("spc", .spc, isEncoded: false), .field("assetId", .contentIdentifier, isEncoded: false),
        ]),
        expected: [[.header("x-keyos-authorization")]],
        response: .base64)

    /// Intertrust ExpressPlay, and Adobe Primetime on it: the token is in the URL, which is configured, comes from an
    /// entitlement server, or is the key URI.
    public static let expressPlay = LicenseServicePreset(
        name: "expressplay",
        contentIdentifier: .afterScheme,
        url: LicenseRequestURL(.configuredOrKeyURI))

    /// EZDRM, with the identifier in the path: configure `https://…/api/licenses`.
    public static let ezdrm = LicenseServicePreset(
        name: "ezdrm",
        contentIdentifier: .afterLast(";"),
        url: LicenseRequestURL(path: "/api/licenses", pathItems: [.contentIdentifier]))

    /// EZDRM, with the account in the query: configure `https://…/auth?px=…`.
    public static let ezdrmQuery = LicenseServicePreset(name: "ezdrm-query", contentIdentifier: .afterLast(";"))

    /// Verimatrix MultiRights, the older service. Its field is Base64 as it is, as open players send it; some servers want it
    /// percent-encoded (`LicenseService.encodesFormFields`).
    public static let verimatrix = LicenseServicePreset(
        name: "verimatrix",
        contentIdentifier: .afterScheme,
        body: .form([.field("spc", .spc, isEncoded: false)]),
        response: .ckcElement)

    /// Verimatrix Core: JSON in both directions, and a token in `Authorization`.
    public static let verimatrixCore = LicenseServicePreset(
        name: "verimatrix-core",
        contentIdentifier: .beforeQuery,
        body: .json(.object([.init("spc", .string(.spc))])),
        expected: [[.header("Authorization")]],
        response: .json(["ckc"]))

    /// Axinom DRM: `skd://KID` or `skd://KID:IV`.
    public static let axinom = LicenseServicePreset(
        name: "axinom",
        contentIdentifier: .afterScheme,
        expected: [[.header("X-AxDRM-Message")]])

    /// PallyCon, now DoveRunner. `siteId` is a parameter, for the certificate.
    public static let pallyCon = LicenseServicePreset(
        name: "pallycon",
        contentIdentifier: .afterScheme,
        url: LicenseRequestURL(path: "/ri/licenseManager.do"),
        body: .form([.field("spc", .spc, isEncoded: true)]),
        expected: [[.header("pallycon-customdata-v2")]],
        response: .base64,
        certificateURL: LicenseRequestURL(
            path: "/ri/fpsKeyManager.do", replacesPath: true, query: [.init("siteId", .parameter("siteId"))]))

    /// castLabs DRMtoday: `skd://drmtoday?assetId=…&variantId=…`.
    public static let drmToday = LicenseServicePreset(
        name: "drmtoday",
        contentIdentifier: .query,
        url: LicenseRequestURL(persistentQuery: [.init("offline", .text("true"))]),
        body: .form([.field("spc", .spc, isEncoded: true), .keyURIQuery]),
        expected: [[.header("x-dt-custom-data"), .header("x-dt-auth-token"), .header("dt-custom-data")]],
        response: .base64)

    /// Irdeto Control: `skd://…?contentId=…&keyId=…`. `applicationId` is a parameter, for the certificate.
    public static let irdeto = LicenseServicePreset(
        name: "irdeto",
        contentIdentifier: .queryParameter("contentId"),
        url: LicenseRequestURL(query: [
            .init("contentId", .keyURIParameter("contentId")), .init("keyId", .keyURIParameter("keyId")),
        ]))

    /// Nagra, formerly Conax. Some accounts also want `nv-tenant-id`.
    public static let nagra = LicenseServicePreset(
        name: "nagra",
        contentIdentifier: .base64Decoded(.beforeQuery),
        expected: [[.header("nv-authorizations")]],
        response: .json(["CkcMessage"]))

    /// VuDRM (Vualto, now JW Player). `token` is a parameter, or the configuration brings `x-vudrm-token` alone.
    public static let vuDRM = LicenseServicePreset(
        name: "vudrm",
        contentIdentifier: classicIdentifier,
        body: .json(
            .object([
                .init("token", .string(.parameter("token")), isOptional: true),
                .init("contentId", .string(.contentIdentifier)), .init("payload", .string(.spc)),
            ])),
        headers: [Header("x-vudrm-token", .parameter("token"))],
        expected: [[.parameter("token"), .header("x-vudrm-token")]])

    /// Uplynk: the key URI is the license service's URL.
    public static let uplynk = LicenseServicePreset(
        name: "uplynk",
        contentIdentifier: .afterScheme,
        url: LicenseRequestURL(.keyURI),
        body: .json(.object([.init("spc", .string(.spc))])),
        response: .json(["ckc"]))

    /// Comcast Technology Solutions. `releasePid` is a parameter. So are `token` and `account`, or the configuration brings
    /// `Authorization: Basic …`.
    public static let comcast = LicenseServicePreset(
        name: "comcast",
        contentIdentifier: .replacing("FairPlay", parameter: "releasePid"),
        url: LicenseRequestURL(query: [
            .init("token", .parameter("token"), isOptional: true),
            .init("account", .parameter("account"), isOptional: true), .init("form", .text("json")),
        ]),
        body: .json(
            .object([
                .init(
                    "getFairplayLicense",
                    .object([
                        .init("releasePid", .string(.parameter("releasePid"))), .init("spcMessage", .string(.spc)),
                    ]))
            ])),
        expected: [
            [.parameter("token"), .header("Authorization")], [.parameter("account"), .header("Authorization")],
        ],
        response: .json(["getFairplayLicenseResponse", "ckcResponse"]))
}
