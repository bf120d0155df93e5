// SPDX-License-Identifier: MPL-2.0

import Glibc
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection

/// Gets one key from a running `latchkey-server`, in one of three ways. Exits with 1 where the key does not come.
///
/// ```
/// latchkey-loader-example WAY SERVER ASK-FILE [--key-uri URI] [--user NAME] [--enforce-device] [--device HEX]
/// WAY: on-premise, derived, entitlement, token-url
/// ```
@main
struct LoaderExample {
    static func main() async {
        do throws(KeyError) {
            try await Arguments(CommandLine.arguments).run()
        } catch {
            print("FAILED: \(error)")
            exit(1)
        }
    }
}

struct Arguments {
    var way = ""
    var server = ""
    var askFile = ""
    var keyURI = "skd://movie-1"
    var user = "anna"
    var enforcesDevice = false
    var device: String?

    init(_ arguments: [String]) throws(KeyError) {
        var words = arguments.dropFirst()
        var positions: [String] = []
        while let word = words.popFirst() {
            switch word {
            case "--key-uri": keyURI = words.popFirst() ?? keyURI
            case "--user": user = words.popFirst() ?? user
            case "--device": device = words.popFirst()
            case "--enforce-device": enforcesDevice = true
            default: positions.append(word)
            }
        }
        guard positions.count == 3 else { throw .invalidConfiguration("three arguments: WAY SERVER ASK-FILE") }
        (way, server, askFile) = (positions[0], positions[1], positions[2])
    }

    func run() async throws(KeyError) {
        // What an integrator brings for a real key server: a certificate, and a provider with its own derivation.
        let certificate = ApplicationCertificate(.url("\(server)/fairplay/certificate"))
        var settings = FairPlaySettings()
        settings.testASkFile = askFile
        settings.deviceIdentifier = device.flatMap { Hex.decode($0) }
        var configuration = KeySessionConfiguration()
        try settings.apply(to: &configuration)
        configuration.log = { print($0) }

        // One call, and every pipeline of this process has it; this example has a session of its own instead.
        let factory = ResourceLoaderFactory.default
        factory.configuration = configuration
        var keyURI = keyURI
        switch way {
        case "on-premise":
            factory.register(OnPremiseLoader(keyServer: "\(server)/fairplay/license", certificate: certificate))
        case "derived":
            keyURI = "skd:\(server)/fairplay/license?cid=\(KeyURI(keyURI).afterScheme)"
            factory.register(OnPremiseLoader(keyServer: nil, certificate: certificate))
        case "entitlement":
            factory.register(entitlement.loader(certificate: certificate))
        case "token-url":
            let token = try await entitlement.tokenURL(for: Array(KeyURI(keyURI).afterScheme.utf8))
            keyURI = "skd://\(KeyURI(token).afterScheme)"
            factory.register(TokenURL.loader(certificate: certificate))
        default:
            throw .invalidConfiguration("the way “\(way)” is none of on-premise, derived, entitlement, token-url")
        }
        try await key(for: keyURI, factory)
    }

    private var entitlement: Entitlement { Entitlement(server: server, user: user, enforcesDevice: enforcesDevice) }

    /// What a pipeline does when it meets an encrypted segment.
    private func key(for keyURI: String, _ factory: ResourceLoaderFactory) async throws(KeyError) {
        let session = KeySession(loaders: factory.makeLoaders(), configuration: factory.configuration)
        let (events, continuation) = AsyncStream.makeStream(of: KeyEvent.self)
        let observation = session.observe { continuation.yield($0) }
        defer { observation.cancel() }
        let keyID = session.keyID(forURI: keyURI)
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .fairPlay))
        for await event in events {
            switch event {
            case .usable:
                print("a key for \(KeyURI(keyURI).printable) by \(way)")
                return
            case .failed(_, _, let error): throw error
            case .untaken: throw .noLoader("no loader takes \(KeyURI(keyURI).printable)")
            default: continue
            }
        }
    }
}
