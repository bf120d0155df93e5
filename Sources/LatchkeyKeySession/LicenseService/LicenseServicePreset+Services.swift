// SPDX-License-Identifier: MPL-2.0

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

    /// VuDRM (Vualto, now JW Player). `token` is a parameter.
    public static let vuDRM = LicenseServicePreset(
        name: "vudrm",
        contentIdentifier: classicIdentifier,
        body: .json(
            .object([
                .init("token", .string(.parameter("token"))), .init("contentId", .string(.contentIdentifier)),
                .init("payload", .string(.spc)),
            ])),
        headers: [Header("x-vudrm-token", .parameter("token"))])

    /// Uplynk: the key URI is the licence service's URL.
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
