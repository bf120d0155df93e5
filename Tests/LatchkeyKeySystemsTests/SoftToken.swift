// SPDX-License-Identifier: MPL-2.0

import Foundation
import Testing

/// A token of SoftHSM's, with private keys on P-256 in it. The folder goes with its owner.
///
/// SoftHSM and the module that OpenSSL loads find it by `SOFTHSM2_CONF`, so a process has one.
final class SoftToken: Sendable {
    private static let module = ["/usr/lib/softhsm/libsofthsm2.so", "/usr/lib64/softhsm/libsofthsm2.so"]
    private static let pin = "1234"

    private let folder: URL

    init() throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("latchkey-token-\(UUID().uuidString)")
        try FileManager.default.createDirectory(
            at: folder.appendingPathComponent("tokens"), withIntermediateDirectories: true)
        let configuration = folder.appendingPathComponent("softhsm2.conf")
        try Data("directories.tokendir = \(folder.path)/tokens\nobjectstore.backend = file\nlog.level = ERROR\n".utf8)
            .write(to: configuration)
        setenv("SOFTHSM2_CONF", configuration.path, 1)
        // The engine reads the first, the provider the second.
        setenv("PKCS11_MODULE_PATH", try modulePath, 1)
        setenv("PKCS11_PROVIDER_MODULE", try modulePath, 1)
        try run("softhsm2-util", "--init-token", "--free", "--label", "latchkey", "--so-pin", "0000", "--pin", Self.pin)
    }

    deinit { try? FileManager.default.removeItem(at: folder) }

    private var modulePath: String {
        get throws {
            try #require(
                Self.module.first { FileManager.default.fileExists(atPath: $0) },
                "SoftHSM is missing: meson-helpers/install-deps --for-tests installs it")
        }
    }

    /// Makes a key that stays in the token, and gives its URI.
    func makeKey(_ name: String, id: String) throws -> String {
        try run(
            "pkcs11-tool", "--module", try modulePath, "--token-label", "latchkey", "--login", "--pin", Self.pin,
            "--keypairgen", "--key-type", "EC:prime256v1", "--usage-sign", "--usage-derive", "--label", name, "--id", id
        )
        return uri(name)
    }

    /// Puts a key into the token, from PEM, and gives its URI.
    func importKey(_ name: String, id: String, pem: [UInt8]) throws -> String {
        let file = folder.appendingPathComponent("\(name).pem")
        try Data(pem).write(to: file)
        defer { try? FileManager.default.removeItem(at: file) }
        try run(
            "softhsm2-util", "--import", file.path, "--token", "latchkey", "--label", name, "--id", id, "--pin",
            Self.pin)
        return uri(name)
    }

    func uri(_ name: String, pin: String = pin) -> String {
        "pkcs11:token=latchkey;object=\(name);type=private?pin-value=\(pin)"
    }

    private func run(_ arguments: String...) throws {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = arguments
        let output = Pipe()
        (process.standardOutput, process.standardError) = (output, output)
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        try #require(process.terminationStatus == 0, "\(arguments[0]): \(text)")
    }
}
