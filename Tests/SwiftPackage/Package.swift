// swift-tools-version: 6.3
// SPDX-License-Identifier: MPL-2.0

// A package that depends on Latchkey: meson-helpers/check_dependent.py resolves it, and Tests/suites/42-swift-package
// builds it.

import PackageDescription

let package = Package(
    name: "probe",
    dependencies: [.package(path: "../latchkey")],
    targets: [
        .executableTarget(name: "probe", dependencies: [.product(name: "LatchkeyControl", package: "latchkey")])
    ]
)
