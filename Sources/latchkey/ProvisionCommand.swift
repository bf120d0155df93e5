// SPDX-License-Identifier: MPL-2.0

import ArgumentParser
import FoundationEssentials
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection

struct ProvisionCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "provision",
        abstract: "Put model certificates and keys into a provisioning folder, and check it.",
        discussion: """
            PlayReady-style licenses need the certificate and private key of a device model, the public key that all \
            certificates go back to, and that of the license services. Latchkey comes with none of them. This command \
            checks that they belong together, copies them into a folder, and makes the device's own keys and \
            certificate there. Without options it checks the folder that is there.

            FILES
              a certificate chain   binary, as it was delivered (CHAI…)
              a private key         P-256 in PEM, without a pass phrase
              a public key          P-256: x and y, 64 bytes, or in hexadecimal

            EXAMPLE
              latchkey-server --make-authority authority
              latchkey provision --authority authority provisioning
              latchkey provision provisioning
            """)

    @Option(help: ArgumentHelp("The model's certificate chain.", valueName: "file"))
    var modelCertificate: String?

    @Option(help: ArgumentHelp("The model's private key.", valueName: "file"))
    var modelKey: String?

    @Option(help: ArgumentHelp("The public key that all certificates go back to.", valueName: "file"))
    var rootKey: String?

    @Option(help: ArgumentHelp("The public key that challenges are encrypted for.", valueName: "file"))
    var serverKey: String?

    @Option(
        help: ArgumentHelp(
            "The public key of the time service's chain, where that is not the root's.", valueName: "file"))
    var timeKey: String?

    @Option(help: ArgumentHelp("A revocation list: Latchkey's own format, LKRL….", valueName: "file"))
    var revocationList: String?

    @Option(help: ArgumentHelp("All of them, out of the folder of a test authority.", valueName: "dir"))
    var authority: String?

    @Argument(help: ArgumentHelp("The provisioning folder.", valueName: "folder"))
    var folder: String

    func validate() throws {
        let parts = [modelCertificate, modelKey, rootKey, serverKey]
        let given = parts.count { $0 != nil }
        guard given > 0 || authority != nil || timeKey == nil && revocationList == nil else {
            throw ValidationError("--time-key and --revocation-list belong to a new bundle; give its other parts, too")
        }
        guard authority == nil || given == 0 else {
            throw ValidationError("--authority brings all files; leave the other options out")
        }
        guard given == 0 || given == parts.count else {
            throw ValidationError(
                "--model-certificate, --model-key, --root-key and --server-key belong together; give all of them")
        }
    }

    func run() throws {
        let target = ProvisioningFolder(path: folder)
        let source = authority.map { ProvisioningFolder(path: $0) }
        if let modelCertificate = modelCertificate ?? source?.path(of: .modelCertificate),
            let modelKey = modelKey ?? source?.path(of: .modelKey),
            let rootKey = rootKey ?? source?.path(of: .rootKey),
            let serverKey = serverKey ?? source?.path(of: .serverKey)
        {
            try write(target, modelCertificate, modelKey: modelKey, rootKey: rootKey, serverKey: serverKey)
        }
        let bundle = try target.provisioning()
        let device = try target.makeDevice()
        print("model: security level \(bundle.modelCertificate.leaf.basic.securityLevel)")
        for list in bundle.revocations.lists { print("\(list)") }
        print("device: certificate \(Hex.encode(device.chain.leaf.basic.id))")
        print(
            "\nFor the configuration file, latchkey.conf:\n\n\(Self.configuration(of: target).joined(separator: "\n"))")
    }

    /// The lines that have players use the folder.
    static func configuration(of folder: ProvisioningFolder) -> [String] {
        let entries: [(name: String, file: ProvisioningFolder.File)] = [
            ("model-certificate", .modelCertificate), ("model-private-key", .modelKey), ("root-key", .rootKey),
            ("server-key", .serverKey), ("time-key", .timeKey), ("revocation-lists", .revocationList),
        ]
        let paths = entries.map { ($0.name, URL(fileURLWithPath: folder.path(of: $0.file)).path) }
        return ["[playready]"]
            + paths.filter { FileManager.default.fileExists(atPath: $0.1) }.map { "\($0.0)=\($0.1)" }
    }

    private func write(
        _ target: ProvisioningFolder, _ certificate: String, modelKey: String, rootKey: String, serverKey: String
    ) throws {
        let chain = try ProvisioningFolder.contents(of: certificate)
        let (root, server) = (try publicKey(rootKey), try publicKey(serverKey))
        let time = try timeKey.map { try publicKey($0) }
        let list = try revocationList.map { try ProvisioningFolder.contents(of: $0) }
        var key = try ProvisioningFolder.contents(of: modelKey, isSecret: true)
        defer { wipe(&key) }
        do throws(ProvisioningError) {
            try target.write(
                modelCertificate: chain, modelPrivateKeyPEM: key, rootKey: root, serverKey: server, timeKey: time,
                revocationList: list)
        } catch {
            // It has not been copied: what is wrong is the file that was given.
            var sources: [String: String] = [
                target.path(of: .modelCertificate): certificate, target.path(of: .modelKey): modelKey,
                target.path(of: .rootKey): rootKey, target.path(of: .serverKey): serverKey,
            ]
            sources[target.path(of: .timeKey)] = timeKey
            sources[target.path(of: .revocationList)] = revocationList
            throw ProvisioningError(path: sources[error.path] ?? error.path, reason: error.reason)
        }
    }

    private func publicKey(_ path: String) throws -> [UInt8] {
        guard let key = ProvisioningFolder.publicKey(try ProvisioningFolder.contents(of: path)) else {
            throw ProvisioningError(path: path, reason: "no public key of P-256: 64 bytes, x and y")
        }
        return key
    }
}
