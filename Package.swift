// swift-tools-version: 6.3
// SPDX-License-Identifier: MPL-2.0

import PackageDescription

// The modules under Sources need no GStreamer. LATCHKEY_NO_GSTREAMER=1 leaves the others out, so that the control
// library builds and tests on a machine without GStreamer's headers.
let withGStreamer = Context.environment["LATCHKEY_NO_GSTREAMER"] == nil

// LATCHKEY_NO_SERVER=1 leaves the reference server, the command-line tool and the packages that they need out.
let withServer = Context.environment["LATCHKEY_NO_SERVER"] == nil

// LATCHKEY_PROTECTED=1 makes the build that logs nothing, and does not decrypt where somebody looks into the process.
let isProtected = Context.environment["LATCHKEY_PROTECTED"] != nil

let settings: [SwiftSetting] =
    [.enableUpcomingFeature("MemberImportVisibility"), .enableUpcomingFeature("ExistentialAny")]
    + (isProtected ? [.define("LATCHKEY_PROTECTED")] : [])

var products: [Product] = [
    .library(
        name: "LatchkeyControl",
        targets: [
            "ContentCache", "LicenseControl", "SessionControl", "OutputControl", "KeySystems", "HTTP",
            "ProtectionModel",
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
        name: "COpenSSL", path: "Sources/COpenSSL", pkgConfig: "libcrypto", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(
        name: "CGcrypt", path: "Sources/CGcrypt", pkgConfig: "libgcrypt", providers: [.apt(["libgcrypt20-dev"])]),
    .systemLibrary(
        name: "CCurl", path: "Sources/CCurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
    .systemLibrary(
        name: "CSQLite", path: "Sources/CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
    .systemLibrary(name: "CKeyring", path: "Sources/CKeyring"),
    .systemLibrary(name: "CWayland", path: "Sources/CWayland"),
    .systemLibrary(
        name: "CExpat", path: "Sources/CExpat", pkgConfig: "expat", providers: [.apt(["libexpat1-dev"])]),
    .systemLibrary(name: "CLatchkeyHeaders", path: "gst-plugin/CLatchkey/include"),
    .systemLibrary(
        name: "CLibDRM", path: "Sources/CLibDRM", pkgConfig: "libdrm", providers: [.apt(["libdrm-dev"])]),
    .systemLibrary(
        name: "CLibUdev", path: "Sources/CLibUdev", pkgConfig: "libudev", providers: [.apt(["libudev-dev"])]),

    // The control library
    .target(name: "ProtectionModel", swiftSettings: settings),
    .target(name: "MediaFormats", dependencies: ["ProtectionModel", "CExpat"], swiftSettings: settings),
    .target(name: "SampleDecryption", dependencies: ["ProtectionModel", "CGcrypt"], swiftSettings: settings),
    .target(
        name: "KeySystems", dependencies: ["ProtectionModel", "MediaFormats", "COpenSSL"], swiftSettings: settings),
    .target(
        name: "HTTP",
        dependencies: [
            "CCurl",
            .product(name: "NIOCore", package: "swift-nio"),
            .product(name: "NIOHTTP1", package: "swift-nio"),
            .product(name: "NIOPosix", package: "swift-nio"),
        ],
        swiftSettings: settings),
    .target(name: "Storage", dependencies: ["HTTP", "CSQLite"], swiftSettings: settings),
    .target(
        name: "LicenseControl",
        dependencies: [
            "ProtectionModel", "MediaFormats", "KeySystems", "HTTP", "SessionControl", "Storage", "CKeyring",
            "COpenSSL",
        ],
        swiftSettings: settings),
    .target(
        name: "ContentCache",
        dependencies: ["MediaFormats", "HTTP", "ProtectionModel", "LicenseControl", "Storage", "COpenSSL"],
        swiftSettings: settings),
    .target(name: "SessionControl", dependencies: ["ProtectionModel", "HTTP"], swiftSettings: settings),
    .target(
        name: "OutputControl", dependencies: ["ProtectionModel", "CLibDRM", "CLibUdev", "CWayland"],
        swiftSettings: settings),

    // examples/fairplay: the three ways to a FairPlay-style key
    .executableTarget(
        name: "latchkey-loader-example",
        dependencies: ["LicenseControl", "KeySystems", "HTTP", "ProtectionModel"], path: "examples/fairplay",
        exclude: ["run.sh"], swiftSettings: settings),

    // Their tests
    .target(name: "TestSupport", path: "Tests/TestSupport", swiftSettings: settings),
    .testTarget(name: "ProtectionModelTests", dependencies: ["ProtectionModel"], swiftSettings: settings),
    .testTarget(
        name: "MediaFormatsTests", dependencies: ["TestSupport", "MediaFormats", "ProtectionModel"],
        swiftSettings: settings),
    .testTarget(
        name: "SampleDecryptionTests",
        dependencies: ["TestSupport", "SampleDecryption", "MediaFormats", "ProtectionModel", "COpenSSL"],
        swiftSettings: settings),
    .testTarget(
        name: "SampleAESTests",
        dependencies: ["TestSupport", "MediaFormats", "SampleDecryption", "ProtectionModel", "COpenSSL"],
        swiftSettings: settings),
    .testTarget(
        name: "KeySystemsTests", dependencies: ["TestSupport", "KeySystems", "MediaFormats", "ProtectionModel"],
        exclude: ["Golden"], swiftSettings: settings),
    .target(name: "LoopbackSupport", path: "Tests/LoopbackSupport", swiftSettings: settings),
    .testTarget(name: "HTTPTests", dependencies: ["HTTP", "LoopbackSupport"], swiftSettings: settings),
    .testTarget(
        name: "SessionControlTests",
        dependencies: [
            "TestSupport", "LoopbackSupport", "SessionControl", "HTTP", "ProtectionModel", "session-holder",
        ],
        swiftSettings: settings),
    // A compositor of libwayland-server's, and an application's connection to it.
    .target(
        name: "WaylandStandIn", dependencies: ["CWayland"], path: "Tests/WaylandStandIn",
        exclude: ["weston-content-protection.xml", "weston-content-protection-protocol.c"],
        linkerSettings: [.linkedLibrary("wayland-client"), .linkedLibrary("wayland-server")]),
    .testTarget(
        name: "OutputControlTests", dependencies: ["OutputControl", "ProtectionModel", "WaylandStandIn"],
        swiftSettings: settings),
    .target(name: "StoreFaults", dependencies: ["CSQLite"], path: "Tests/StoreFaults"),
    .executableTarget(
        name: "store-writer", dependencies: ["LicenseControl", "ProtectionModel", "StoreFaults"],
        path: "Tests/StoreWriter", swiftSettings: settings),
    .testTarget(
        name: "ContentCacheTests",
        dependencies: [
            "TestSupport", "ContentCache", "LicenseControl", "KeySystems", "MediaFormats", "HTTP", "ProtectionModel",
            "Storage",
        ],
        swiftSettings: settings),
    .executableTarget(
        name: "license-benchmark",
        dependencies: ["HTTP", "KeySystems", "LicenseControl", "MediaFormats", "ProtectionModel"],
        path: "Tests/Benchmarks/License", swiftSettings: settings),
    .executableTarget(
        name: "session-holder", dependencies: ["SessionControl"], path: "Tests/SessionHolder", swiftSettings: settings),
    .executableTarget(
        name: "session-benchmark", dependencies: ["SessionControl", "TestSupport"], path: "Tests/Benchmarks/Session",
        swiftSettings: settings),
    .executableTarget(
        name: "session-load", dependencies: ["SessionControl"], path: "Tests/SessionLoad", swiftSettings: settings),
    .testTarget(
        name: "LicenseControlTests",
        dependencies: [
            "TestSupport", "LicenseControl", "SessionControl", "KeySystems", "MediaFormats", "HTTP", "ProtectionModel",
            "CSQLite", "store-writer",
        ],
        swiftSettings: settings),
    .target(
        name: "FuzzTargets",
        dependencies: [
            "LicenseControl", "KeySystems", "MediaFormats", "SampleDecryption", "SessionControl", "HTTP",
            "ProtectionModel",
        ],
        path: "Tests/Fuzz/FuzzTargets", swiftSettings: settings),
    .testTarget(
        name: "FuzzTests", dependencies: ["FuzzTargets", "TestSupport"], path: "Tests/Fuzz/FuzzTests",
        swiftSettings: settings),
]

// LATCHKEY_FUZZ=1 makes the library that Tests/suites/long/60-fuzz links to libFuzzer.
if Context.environment["LATCHKEY_FUZZ"] != nil {
    products.append(.library(name: "FuzzTargets", type: .dynamic, targets: ["FuzzTargets"]))
}

if withServer {
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
            name: "ReferenceServer",
            dependencies: [
                "ProtectionModel", "MediaFormats", "KeySystems",
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
            swiftSettings: settings),
        .executableTarget(
            name: "latchkey-server",
            dependencies: [
                "ReferenceServer", "MediaFormats", "ProtectionModel",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings),
        // The command, in the library: the executable has only a main function, gst-plugin/command.c.
        .target(
            name: "latchkey",
            dependencies: [
                "CLatchkeyHeaders", "HTTP", "LicenseControl", "KeySystems", "MediaFormats", "OutputControl",
                "ProtectionModel", "SessionControl",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ] + (withGStreamer ? ["ContentCache", "Diagnosis", "Latchkey"] : []),
            swiftSettings: settings + (withGStreamer ? [.define("LATCHKEY_GSTREAMER")] : [])),
        .testTarget(
            name: "CommandTests",
            dependencies: [
                "latchkey", "LicenseControl", "KeySystems", "MediaFormats", "ProtectionModel",
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ] + (withGStreamer ? ["Latchkey"] : []),
            swiftSettings: settings + (withGStreamer ? [.define("LATCHKEY_GSTREAMER")] : [])),
        .testTarget(
            name: "ReferenceServerTests",
            dependencies: [
                "ReferenceServer", "latchkey-server", "latchkey-loader-example", "KeySystems", "MediaFormats",
                "ProtectionModel", "SessionControl", "HTTP", "TestSupport",
                .product(name: "HTTPTypes", package: "swift-http-types"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "NIOCore", package: "swift-nio"),
                .product(name: "NIOHTTP1", package: "swift-nio"),
                .product(name: "NIOPosix", package: "swift-nio"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            swiftSettings: settings),
    ]
}

if withGStreamer {
    products += [
        .library(name: "ElementKit", targets: ["ElementKit"]),
        .library(name: "Latchkey", targets: ["Latchkey"]),
        .library(name: "LatchkeyLogging", targets: ["LatchkeyLogging"]),
        .library(
            name: "latchkey-1.0", type: .dynamic, targets: ["CLatchkey"] + (withServer ? ["latchkey"] : [])),
    ]
    targets += [
        .systemLibrary(
            name: "CGStreamer", path: "gst-plugin/CGStreamer", pkgConfig: "gstreamer-video-1.0",
            providers: [.apt(["libgstreamer1.0-dev", "libgstreamer-plugins-base1.0-dev"])]),
        .systemLibrary(
            name: "CGStreamerCheck", path: "gst-plugin/Tests/CGStreamerCheck", pkgConfig: "gstreamer-check-1.0",
            providers: [.apt(["libgstreamer1.0-dev"])]),
        .target(
            name: "ElementKit", dependencies: ["CGStreamer"], path: "gst-plugin/ElementKit",
            exclude: ["README.md"], swiftSettings: settings),
        .target(
            name: "Elements",
            dependencies: [
                "ElementKit", "CGStreamer", "LicenseControl", "SessionControl", "KeySystems", "MediaFormats",
                "OutputControl", "SampleDecryption", "ProtectionModel", "HTTP",
            ],
            path: "gst-plugin/Elements", swiftSettings: settings),
        .target(
            name: "Diagnosis", dependencies: ["ElementKit", "CGStreamer", "MediaFormats"],
            path: "gst-plugin/Diagnosis", swiftSettings: settings),
        .testTarget(
            name: "DiagnosisTests", dependencies: ["Diagnosis", "ElementKit", "ElementTestSupport", "MediaFormats"],
            path: "gst-plugin/Tests/DiagnosisTests", swiftSettings: settings),
        .target(
            name: "Latchkey",
            dependencies: [
                "CGStreamer", "CLatchkeyHeaders", "ContentCache", "ElementKit", "Elements", "HTTP", "KeySystems",
                "LicenseControl", "MediaFormats", "OutputControl", "ProtectionModel", "SessionControl",
            ],
            path: "gst-plugin/Latchkey", swiftSettings: settings),
        .target(
            name: "LatchkeyLogging",
            dependencies: ["Latchkey", .product(name: "Logging", package: "swift-log")],
            path: "gst-plugin/LatchkeyLogging", swiftSettings: settings),
        // The sample application of the agent.
        .executableTarget(
            name: "play-protected",
            dependencies: [
                "ContentCache", "ElementKit", "HTTP", "KeySystems", "Latchkey", "LicenseControl", "MediaFormats",
                "OutputControl", "ProtectionModel",
            ],
            path: "examples/play-protected", swiftSettings: settings),
        .executableTarget(
            name: "agent-benchmark", dependencies: ["Latchkey", "CGStreamer"], path: "Tests/Benchmarks/Agent",
            swiftSettings: settings),
        .testTarget(
            name: "AgentTests",
            dependencies: [
                "Latchkey", "ContentCache", "Elements", "ElementKit", "CGStreamer", "ElementTestSupport", "TestSupport",
                "LicenseControl", "KeySystems", "MediaFormats", "HTTP", "ProtectionModel", "LatchkeyLogging",
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "gst-plugin/Tests/AgentTests", swiftSettings: settings),
        .target(
            name: "CLatchkey",
            dependencies: [
                "CLatchkeyHeaders", "Latchkey", "Elements", "ElementKit", "LicenseControl", "KeySystems",
                "OutputControl", "ContentCache", "MediaFormats", "HTTP", "ProtectionModel", "SessionControl",
            ],
            path: "gst-plugin/CLatchkey", exclude: ["include"], swiftSettings: settings),
        .target(
            name: "ElementTestSupport",
            dependencies: ["ElementKit", "CGStreamer", "CGStreamerCheck", "COpenSSL", "ProtectionModel"],
            path: "gst-plugin/Tests/ElementTestSupport", swiftSettings: settings),
        .testTarget(
            name: "ElementKitTests", dependencies: ["ElementKit", "CGStreamer", "ElementTestSupport"],
            path: "gst-plugin/Tests/ElementKitTests", swiftSettings: settings),
        .testTarget(
            name: "ElementsTests",
            dependencies: [
                "Latchkey", "Elements", "ElementKit", "CGStreamer", "CGStreamerCheck", "TestSupport",
                "ElementTestSupport", "LicenseControl", "KeySystems", "MediaFormats", "OutputControl",
                "SampleDecryption", "SessionControl", "ProtectionModel", "WaylandStandIn",
            ],
            path: "gst-plugin/Tests/ElementsTests", swiftSettings: settings),
        .testTarget(
            name: "HLSDemuxTests",
            dependencies: [
                "Latchkey", "Elements", "ElementKit", "CGStreamer", "CGStreamerCheck", "COpenSSL",
                "ElementTestSupport", "LicenseControl", "KeySystems", "MediaFormats", "SampleDecryption", "HTTP",
                "ProtectionModel",
            ],
            path: "gst-plugin/Tests/HLSDemuxTests", swiftSettings: settings),
    ]
}

// LATCHKEY_SANITIZED_TESTS=1 leaves out what has no part in the tests that sanitizer runs run: a quarter of the code that is
// ours, and six products to link. The name of a target in place of the 1 leaves that in.
if let wanted = Context.environment["LATCHKEY_SANITIZED_TESTS"] {
    let withoutPart: Set<String> = [
        "KeySystemsTests", "ProtectionModelTests", "LicenseControlTests", "HLSDemuxTests", "store-writer",
        "StoreFaults", "DiagnosisTests", "ContentCacheTests",
        "SessionControlTests", "session-holder", "session-load", "session-benchmark", "license-benchmark",
        "FuzzTargets", "FuzzTests", "latchkey-loader-example", "CLatchkey", "play-protected",
        "agent-benchmark", "ReferenceServer", "ReferenceServerTests", "latchkey-server", "latchkey", "CommandTests",
    ]
    targets.removeAll { withoutPart.contains($0.name) && $0.name != wanted }
    products.removeAll()
}

// LATCHKEY_TESTS=A,B builds these test targets and no other: the work of minutes, while one works on one part.
if let wanted = Context.environment["LATCHKEY_TESTS"]?.split(separator: ",").map(String.init) {
    targets.removeAll { $0.isTest && !wanted.contains($0.name) }
}

let package = Package(
    name: "latchkey",
    products: products,
    dependencies: dependencies,
    targets: targets
)
