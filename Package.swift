// swift-tools-version: 6.3
// SPDX-License-Identifier: MPL-2.0

import PackageDescription

// The modules under Sources need no GStreamer. LATCHKEY_NO_GSTREAMER=1 leaves the others out, so that the control
// library builds and tests on a machine without GStreamer's headers.
let withGStreamer = Context.environment["LATCHKEY_NO_GSTREAMER"] == nil

// LATCHKEY_PROGRAMS=1 adds the command, the test services with their server, their tests, and the packages that these
// need. A package that depends on Latchkey does without them.
let withPrograms = Context.environment["LATCHKEY_PROGRAMS"] != nil

// LATCHKEY_PROTECTED=1 makes the build that logs nothing, and does not decrypt where somebody looks into the process.
let isProtected = Context.environment["LATCHKEY_PROTECTED"] != nil

// LATCHKEY_BUILD_DATE=YYYYMMDD is the date that the log names with the version. meson-helpers/swift_build.py sets it.
let buildDate = Context.environment["LATCHKEY_BUILD_DATE"].flatMap(Int.init)

let settings: [SwiftSetting] =
    [.enableUpcomingFeature("MemberImportVisibility"), .enableUpcomingFeature("ExistentialAny")]
    + (isProtected ? [.define("LATCHKEY_PROTECTED")] : [])

var products: [Product] = [
    .library(
        name: "LatchkeyControl",
        targets: [
            "LatchkeyContainers", "LatchkeyManifests", "LatchkeyOffline", "LatchkeyKeySession",
            "LatchkeyViewingSession", "LatchkeyOutputs",
            "LatchkeyKeySystems", "LatchkeyHTTP", "LatchkeyProtection",
        ])
]

// The libraries take the tested version or a later one, so that applications can choose. What the server and the tests
// alone use is exact. meson-helpers/packaging/swift-dependencies.json has the versions of all, also of what these need.
var dependencies: [Package.Dependency] = [
    .package(url: "https://github.com/apple/swift-log", from: "1.16.2"),
    .package(url: "https://github.com/apple/swift-nio", from: "2.101.2"),
]

var targets: [Target] = [
    // System libraries
    .systemLibrary(
        name: "CLatchkeyOpenSSL", path: "Sources/CLatchkeyOpenSSL", pkgConfig: "libcrypto",
        providers: [.apt(["libssl-dev"])]),
    .systemLibrary(
        name: "CLatchkeyGcrypt", path: "Sources/CLatchkeyGcrypt", pkgConfig: "libgcrypt",
        providers: [.apt(["libgcrypt20-dev"])]),
    .systemLibrary(
        name: "CLatchkeyCurl", path: "Sources/CLatchkeyCurl", pkgConfig: "libcurl",
        providers: [.apt(["libcurl4-openssl-dev"])]),
    .systemLibrary(
        name: "CLatchkeySQLite", path: "Sources/CLatchkeySQLite", pkgConfig: "sqlite3",
        providers: [.apt(["libsqlite3-dev"])]),
    .systemLibrary(name: "CLatchkeyKeyring", path: "Sources/CLatchkeyKeyring"),
    .systemLibrary(name: "CLatchkeyWayland", path: "Sources/CLatchkeyWayland"),
    .systemLibrary(
        name: "CLatchkeyExpat", path: "Sources/CLatchkeyExpat", pkgConfig: "expat", providers: [.apt(["libexpat1-dev"])]
    ),
    .systemLibrary(name: "CLatchkeyHeaders", path: "gst-plugin/CLatchkey/include"),
    .systemLibrary(
        name: "CLatchkeyDRM", path: "Sources/CLatchkeyDRM", pkgConfig: "libdrm", providers: [.apt(["libdrm-dev"])]),
    .systemLibrary(
        name: "CLatchkeyUdev", path: "Sources/CLatchkeyUdev", pkgConfig: "libudev", providers: [.apt(["libudev-dev"])]),

    // The control library
    .target(name: "LatchkeyProtection", dependencies: ["CLatchkeyGcrypt"]),
    .target(name: "LatchkeyContainers", dependencies: ["LatchkeyProtection"]),
    .target(name: "LatchkeyManifests", dependencies: ["LatchkeyProtection", "LatchkeyContainers", "CLatchkeyExpat"]),
    .target(
        name: "LatchkeyKeySystems",
        dependencies: ["LatchkeyProtection", "LatchkeyContainers", "LatchkeyManifests", "CLatchkeyOpenSSL"]),
    .target(
        name: "LatchkeyHTTP",
        dependencies: [
            "LatchkeyProtection", "CLatchkeyCurl",
            .product(name: "NIOCore", package: "swift-nio"),
            .product(name: "NIOHTTP1", package: "swift-nio"),
            .product(name: "NIOPosix", package: "swift-nio"),
        ]),
    .target(name: "LatchkeyStorage", dependencies: ["LatchkeyHTTP", "CLatchkeySQLite"]),
    .target(
        name: "LatchkeyKeySession",
        dependencies: [
            "LatchkeyProtection", "LatchkeyContainers", "LatchkeyManifests", "LatchkeyKeySystems", "LatchkeyHTTP",
            "LatchkeyViewingSession",
            "LatchkeyStorage", "CLatchkeyKeyring", "CLatchkeyOpenSSL",
        ]),
    .target(
        name: "LatchkeyOffline",
        dependencies: [
            "LatchkeyContainers", "LatchkeyManifests", "LatchkeyHTTP", "LatchkeyProtection", "LatchkeyKeySession",
            "LatchkeyStorage",
            "CLatchkeyOpenSSL",
        ]),
    .target(name: "LatchkeyViewingSession", dependencies: ["LatchkeyProtection", "LatchkeyHTTP"]),
    .target(
        name: "LatchkeyOutputs",
        dependencies: ["LatchkeyProtection", "CLatchkeyDRM", "CLatchkeyUdev", "CLatchkeyWayland"]),

    // examples/fairplay: the three ways to a FairPlay-style key
    .executableTarget(
        name: "latchkey-loader-example",
        dependencies: ["LatchkeyKeySession", "LatchkeyKeySystems", "LatchkeyHTTP", "LatchkeyProtection"],
        path: "examples/fairplay",
        exclude: ["run.sh"]),

    // Their tests. The services of which tests get licenses, and the authorities that tests trust.
    .target(
        name: "LatchkeyTestAuthorities",
        dependencies: [
            "LatchkeyProtection", "LatchkeyContainers", "LatchkeyManifests", "LatchkeyKeySystems", "CLatchkeyOpenSSL",
        ],
        path: "Tests/Services/LatchkeyTestAuthorities"),
    .target(name: "LatchkeyTestSupport", path: "Tests/LatchkeyTestSupport"),
    .testTarget(name: "LatchkeyProtectionTests", dependencies: ["LatchkeyTestSupport", "LatchkeyProtection"]),
    .testTarget(
        name: "LatchkeyContainersTests",
        dependencies: ["LatchkeyTestSupport", "LatchkeyContainers", "LatchkeyManifests", "LatchkeyProtection"]),
    .testTarget(
        name: "LatchkeyManifestsTests",
        dependencies: [
            "LatchkeyTestSupport", "LatchkeyManifests", "LatchkeyKeySystems", "LatchkeyContainers",
            "LatchkeyProtection",
        ]),
    .testTarget(
        name: "LatchkeyCipherTests",
        dependencies: [
            "LatchkeyTestSupport", "LatchkeyProtection", "LatchkeyContainers", "LatchkeyManifests", "CLatchkeyOpenSSL",
        ]),
    .testTarget(
        name: "LatchkeySampleAESTests",
        dependencies: [
            "LatchkeyTestSupport", "LatchkeyContainers", "LatchkeyManifests", "LatchkeyProtection", "CLatchkeyOpenSSL",
        ]),
    .testTarget(
        name: "LatchkeyKeySystemsTests",
        dependencies: [
            "LatchkeyTestAuthorities", "LatchkeyTestSupport", "LatchkeyKeySystems", "LatchkeyContainers",
            "LatchkeyManifests",
            "LatchkeyProtection",
        ],
        exclude: ["Golden"]),
    .target(name: "LatchkeyLoopbackSupport", path: "Tests/LatchkeyLoopbackSupport"),
    .testTarget(
        name: "LatchkeyHTTPTests",
        dependencies: ["LatchkeyHTTP", "LatchkeyLoopbackSupport", "LatchkeyProtection", "CLatchkeyCurl"]),
    .testTarget(
        name: "LatchkeyViewingSessionTests",
        dependencies: [
            "LatchkeyTestSupport", "LatchkeyLoopbackSupport", "LatchkeyViewingSession", "LatchkeyHTTP",
            "LatchkeyProtection", "latchkey-session-holder",
        ]),
    // A compositor of libwayland-server's, and an application's connection to it.
    .target(
        name: "CLatchkeyWaylandStandIn", dependencies: ["CLatchkeyWayland"], path: "Tests/CLatchkeyWaylandStandIn",
        exclude: ["weston-content-protection.xml", "weston-content-protection-protocol.c"],
        linkerSettings: [.linkedLibrary("wayland-client"), .linkedLibrary("wayland-server")]),
    .testTarget(
        name: "LatchkeyOutputsTests",
        dependencies: ["LatchkeyOutputs", "LatchkeyProtection", "CLatchkeyWaylandStandIn"]),
    .target(name: "CLatchkeyStoreFaults", dependencies: ["CLatchkeySQLite"], path: "Tests/CLatchkeyStoreFaults"),
    .executableTarget(
        name: "latchkey-store-writer",
        dependencies: ["LatchkeyKeySession", "LatchkeyProtection", "CLatchkeyStoreFaults"],
        path: "Tests/StoreWriter"),
    .testTarget(
        name: "LatchkeyOfflineTests",
        dependencies: [
            "LatchkeyTestSupport", "LatchkeyOffline", "LatchkeyKeySession", "LatchkeyKeySystems", "LatchkeyContainers",
            "LatchkeyManifests",
            "LatchkeyHTTP", "LatchkeyProtection", "LatchkeyStorage",
        ]),
    .executableTarget(
        name: "latchkey-license-benchmark",
        dependencies: [
            "LatchkeyTestAuthorities", "LatchkeyHTTP", "LatchkeyKeySystems", "LatchkeyKeySession", "LatchkeyContainers",
            "LatchkeyManifests",
            "LatchkeyProtection",
        ],
        path: "Tests/Benchmarks/License"),
    .executableTarget(
        name: "latchkey-session-holder", dependencies: ["LatchkeyViewingSession"], path: "Tests/SessionHolder"),
    .executableTarget(
        name: "latchkey-session-benchmark", dependencies: ["LatchkeyViewingSession", "LatchkeyTestSupport"],
        path: "Tests/Benchmarks/Session"),
    .executableTarget(
        name: "latchkey-session-load", dependencies: ["LatchkeyViewingSession"], path: "Tests/SessionLoad"),
    .testTarget(
        name: "LatchkeyKeySessionTests",
        dependencies: [
            "LatchkeyTestAuthorities", "LatchkeyTestSupport", "LatchkeyKeySession", "LatchkeyViewingSession",
            "LatchkeyKeySystems", "LatchkeyContainers", "LatchkeyManifests", "LatchkeyHTTP", "LatchkeyProtection",
            "CLatchkeySQLite",
            "latchkey-store-writer",
        ],
        exclude: ["Store/EarlierStore"]),
    .target(
        name: "LatchkeyFuzzTargets",
        dependencies: [
            "LatchkeyTestAuthorities", "LatchkeyKeySession", "LatchkeyKeySystems", "LatchkeyContainers",
            "LatchkeyManifests",
            "LatchkeyProtection", "LatchkeyViewingSession", "LatchkeyHTTP",
        ],
        path: "Tests/Fuzz/FuzzTargets"),
    .testTarget(
        name: "LatchkeyFuzzTests", dependencies: ["LatchkeyFuzzTargets", "LatchkeyTestSupport"],
        path: "Tests/Fuzz/FuzzTests"),
]

// LATCHKEY_FUZZ=1 makes the library that Tests/suites/long/60-fuzz links to libFuzzer.
if Context.environment["LATCHKEY_FUZZ"] != nil {
    products.append(.library(name: "LatchkeyFuzzTargets", type: .dynamic, targets: ["LatchkeyFuzzTargets"]))
}

if withPrograms {
    products += [.executable(name: "latchkey-server", targets: ["latchkey-server"])]
    dependencies += [
        .package(url: "https://github.com/apple/swift-argument-parser", from: "1.8.2"),
        .package(url: "https://github.com/apple/swift-http-types", exact: "1.8.0"),
        .package(url: "https://github.com/apple/swift-nio-extras", exact: "1.35.2"),
        .package(url: "https://github.com/hummingbird-project/hummingbird", exact: "2.28.1", traits: []),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", exact: "2.13.0"),
    ]
    targets += [
        .target(
            name: "LatchkeyTestServer",
            dependencies: [
                "LatchkeyTestAuthorities", "LatchkeyProtection", "LatchkeyContainers", "LatchkeyManifests",
                "LatchkeyKeySystems",
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "HummingbirdCore", package: "hummingbird"),
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTPTypes", package: "swift-nio-extras"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
                .product(name: "UnixSignals", package: "swift-service-lifecycle"),
            ],
            path: "Tests/Services/LatchkeyTestServer"),
        .executableTarget(
            name: "latchkey-server",
            dependencies: [
                "LatchkeyTestAuthorities", "LatchkeyTestServer", "LatchkeyContainers", "LatchkeyManifests",
                "LatchkeyProtection",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Tests/Services/latchkey-server"),
        // The command, in the library: the executable has only a main function, gst-plugin/command.c.
        .target(
            name: "latchkey",
            dependencies: [
                "CLatchkeyHeaders", "LatchkeyHTTP", "LatchkeyKeySession", "LatchkeyKeySystems", "LatchkeyContainers",
                "LatchkeyManifests",
                "LatchkeyOutputs", "LatchkeyProtection", "LatchkeyViewingSession",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ] + (withGStreamer ? ["LatchkeyOffline", "LatchkeyDiagnosis", "Latchkey"] : []),
            swiftSettings: withGStreamer ? [.define("LATCHKEY_GSTREAMER")] : []),
        .testTarget(
            name: "LatchkeyCommandTests",
            dependencies: [
                "LatchkeyTestAuthorities", "latchkey", "LatchkeyKeySession", "LatchkeyKeySystems", "LatchkeyContainers",
                "LatchkeyManifests",
                "LatchkeyProtection",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ] + (withGStreamer ? ["Latchkey", "LatchkeyOffline"] : []),
            swiftSettings: withGStreamer ? [.define("LATCHKEY_GSTREAMER")] : []),
        .testTarget(
            name: "LatchkeyTestServerTests",
            dependencies: [
                "LatchkeyTestAuthorities", "LatchkeyTestServer", "latchkey-server", "latchkey-loader-example",
                "LatchkeyKeySystems", "LatchkeyContainers", "LatchkeyManifests", "LatchkeyProtection",
                "LatchkeyViewingSession",
                "LatchkeyHTTP", "LatchkeyTestSupport",
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ]),
    ]
}

if withGStreamer {
    products += [
        .library(name: "LatchkeyElementKit", targets: ["LatchkeyElementKit"]),
        .library(name: "Latchkey", targets: ["Latchkey"]),
        .library(name: "LatchkeyLogging", targets: ["LatchkeyLogging"]),
        .executable(name: "play-protected", targets: ["latchkey-play-protected"]),
        .library(
            name: "latchkey-1.0", type: .dynamic, targets: ["CLatchkey"] + (withPrograms ? ["latchkey"] : [])),
    ]
    targets += [
        .systemLibrary(
            name: "CLatchkeyGStreamer", path: "gst-plugin/CGStreamer", pkgConfig: "gstreamer-video-1.0",
            providers: [.apt(["libgstreamer1.0-dev", "libgstreamer-plugins-base1.0-dev"])]),
        .systemLibrary(
            name: "CLatchkeyGStreamerCheck", path: "gst-plugin/Tests/CGStreamerCheck", pkgConfig: "gstreamer-check-1.0",
            providers: [.apt(["libgstreamer1.0-dev"])]),
        .target(
            name: "LatchkeyElementKit", dependencies: ["CLatchkeyGStreamer"], path: "gst-plugin/ElementKit",
            exclude: ["README.md"]),
        .target(
            name: "LatchkeyElements",
            dependencies: [
                "LatchkeyElementKit", "CLatchkeyGStreamer", "LatchkeyKeySession", "LatchkeyViewingSession",
                "LatchkeyKeySystems", "LatchkeyContainers", "LatchkeyManifests", "LatchkeyOutputs",
                "LatchkeyProtection", "LatchkeyHTTP",
            ],
            path: "gst-plugin/Elements"),
        .target(
            name: "LatchkeyDiagnosis",
            dependencies: ["LatchkeyElementKit", "CLatchkeyGStreamer", "LatchkeyContainers", "LatchkeyManifests"],
            path: "gst-plugin/Diagnosis"),
        .testTarget(
            name: "LatchkeyDiagnosisTests",
            dependencies: [
                "LatchkeyDiagnosis", "LatchkeyElementKit", "LatchkeyElementTestSupport", "LatchkeyContainers",
                "LatchkeyManifests",
            ],
            path: "gst-plugin/Tests/DiagnosisTests"),
        .target(
            name: "CLatchkeyBuild", path: "gst-plugin/CLatchkeyBuild",
            cSettings: buildDate.map { [.define("LATCHKEY_BUILD_DATE", to: String($0))] }),
        .target(
            name: "Latchkey",
            dependencies: [
                "CLatchkeyBuild", "CLatchkeyGStreamer", "CLatchkeyHeaders", "LatchkeyOffline", "LatchkeyElementKit",
                "LatchkeyElements",
                "LatchkeyHTTP", "LatchkeyKeySystems", "LatchkeyKeySession", "LatchkeyContainers", "LatchkeyManifests",
                "LatchkeyOutputs",
                "LatchkeyProtection", "LatchkeyViewingSession",
            ],
            path: "gst-plugin/Latchkey"),
        .target(
            name: "LatchkeyLogging",
            dependencies: ["Latchkey", .product(name: "Logging", package: "swift-log")],
            path: "gst-plugin/LatchkeyLogging"),
        // The sample application of the agent.
        .executableTarget(
            name: "latchkey-play-protected",
            dependencies: [
                "LatchkeyOffline", "LatchkeyElementKit", "LatchkeyHTTP", "LatchkeyKeySystems", "Latchkey",
                "LatchkeyKeySession", "LatchkeyContainers", "LatchkeyManifests", "LatchkeyOutputs",
                "LatchkeyProtection",
            ],
            path: "examples/play-protected"),
        .executableTarget(
            name: "latchkey-agent-benchmark", dependencies: ["Latchkey", "CLatchkeyGStreamer"],
            path: "Tests/Benchmarks/Agent"),
        .testTarget(
            name: "LatchkeyAgentTests",
            dependencies: [
                "Latchkey", "LatchkeyOffline", "LatchkeyElements", "LatchkeyElementKit", "CLatchkeyGStreamer",
                "LatchkeyElementTestSupport", "LatchkeyTestSupport", "LatchkeyKeySession", "LatchkeyKeySystems",
                "LatchkeyContainers", "LatchkeyManifests", "LatchkeyHTTP", "LatchkeyProtection",
                "LatchkeyViewingSession",
                "LatchkeyLogging", .product(name: "Logging", package: "swift-log"),
            ],
            path: "gst-plugin/Tests/AgentTests"),
        .target(
            name: "CLatchkey",
            dependencies: [
                "CLatchkeyHeaders", "Latchkey", "LatchkeyElements", "LatchkeyElementKit", "LatchkeyKeySession",
                "LatchkeyKeySystems", "LatchkeyOutputs", "LatchkeyOffline", "LatchkeyContainers", "LatchkeyManifests",
                "LatchkeyHTTP",
                "LatchkeyProtection", "LatchkeyViewingSession",
            ],
            path: "gst-plugin/CLatchkey", exclude: ["include"]),
        .target(
            name: "LatchkeyElementTestSupport",
            dependencies: [
                "LatchkeyElementKit", "CLatchkeyGStreamer", "CLatchkeyGStreamerCheck", "CLatchkeyOpenSSL",
                "LatchkeyProtection",
            ],
            path: "gst-plugin/Tests/ElementTestSupport"),
        .testTarget(
            name: "LatchkeyElementKitTests",
            dependencies: [
                "LatchkeyElementKit", "CLatchkeyGStreamer", "LatchkeyElementTestSupport", "LatchkeyTestSupport",
            ],
            path: "gst-plugin/Tests/ElementKitTests"),
        .testTarget(
            name: "LatchkeyElementsTests",
            dependencies: [
                "Latchkey", "LatchkeyElements", "LatchkeyElementKit", "CLatchkeyGStreamer", "CLatchkeyGStreamerCheck",
                "LatchkeyTestSupport", "LatchkeyElementTestSupport", "LatchkeyKeySession", "LatchkeyKeySystems",
                "LatchkeyContainers", "LatchkeyManifests", "LatchkeyOutputs", "LatchkeyProtection",
                "LatchkeyViewingSession",
                "CLatchkeyWaylandStandIn",
            ],
            path: "gst-plugin/Tests/ElementsTests"),
        .testTarget(
            name: "LatchkeyHLSDemuxTests",
            dependencies: [
                "Latchkey", "LatchkeyElements", "LatchkeyElementKit", "CLatchkeyGStreamer", "CLatchkeyGStreamerCheck",
                "CLatchkeyOpenSSL", "LatchkeyElementTestSupport", "LatchkeyKeySession", "LatchkeyKeySystems",
                "LatchkeyContainers", "LatchkeyManifests", "LatchkeyProtection", "LatchkeyHTTP",
            ],
            path: "gst-plugin/Tests/HLSDemuxTests"),
    ]
}

// LATCHKEY_SANITIZED_TESTS=1 leaves out what has no part in the tests that sanitizer runs run: a quarter of the code that is
// ours, and six products to link. The name of a target in place of the 1 leaves that in; CLatchkey also the library of the
// plug-in, without the command.
if let wanted = Context.environment["LATCHKEY_SANITIZED_TESTS"] {
    let withoutPart: Set<String> = [
        "LatchkeyProtectionTests", "LatchkeyKeySessionTests", "LatchkeyHLSDemuxTests", "latchkey-store-writer",
        "CLatchkeyStoreFaults", "LatchkeyDiagnosisTests", "LatchkeyOfflineTests", "LatchkeyViewingSessionTests",
        "latchkey-session-holder", "latchkey-session-load", "latchkey-session-benchmark", "latchkey-license-benchmark",
        "LatchkeyFuzzTargets", "LatchkeyFuzzTests", "latchkey-loader-example", "CLatchkey", "latchkey-play-protected",
        "latchkey-agent-benchmark", "LatchkeyTestServer", "LatchkeyTestServerTests", "latchkey-server",
        "latchkey", "LatchkeyCommandTests",
    ]
    targets.removeAll { withoutPart.contains($0.name) && $0.name != wanted }
    products = wanted == "CLatchkey" ? [.library(name: "latchkey-1.0", type: .dynamic, targets: ["CLatchkey"])] : []
}

// LATCHKEY_TESTS=A,B builds these test targets and no other: the work of minutes, while one works on one part.
if let wanted = Context.environment["LATCHKEY_TESTS"]?.split(separator: ",").map(String.init) {
    targets.removeAll { $0.isTest && !wanted.contains($0.name) }
}

for target in targets where target.type != .system {
    target.swiftSettings = settings + (target.swiftSettings ?? [])
}

let package = Package(
    name: "latchkey",
    products: products,
    dependencies: dependencies,
    targets: targets
)
