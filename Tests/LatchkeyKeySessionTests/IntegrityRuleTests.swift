// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import Foundation
import LatchkeyHTTP
import LatchkeyContainers
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyKeySystems
@testable import LatchkeyKeySession

/// What a man in the middle can do to a key server's answers, with the settings that ship.
@Suite(.timeLimit(.minutes(8)))
struct IntegrityRuleTests {
    /// A key server as an integrator has it: its certificate is not named as one of the test authority.
    private let authority: FairPlayTestAuthority
    private let folder = TemporaryFolder()

    private static let foreign = Result { try IntegrityRuleTests.makeAuthority() }

    init() throws { authority = try Self.foreign.get() }

    private static func makeAuthority() throws -> FairPlayTestAuthority {
        let own = try FairPlayServer.authority.get()
        let certificate = try X509Certificate.selfSigned(
            key: own.privateKey, commonName: "A key server", random: .system)
        return FairPlayTestAuthority(
            certificate: certificate.der, version: own.version, ask: own.ask,
            certificateHash: try Digest.sha1(certificate.der), privateKey: own.privateKey)
    }

    /// A process: what it remembers goes with it.
    private struct Process {
        let settings: ControlSettings
        let memory = IntegritySenders.Memory()

        func session(_ server: FairPlayServer) throws -> KeySession {
            var configuration = try settings.makeConfiguration()
            configuration.integrityMemory = memory
            return KeySession(loaders: settings.makeLoaders(transport: server), configuration: configuration)
        }

        /// Why there is no key; nil if there is one.
        func failure(_ server: FairPlayServer, uri: String = "skd://movie") async throws -> KeyError? {
            let session = try session(server)
            let watcher = Watcher(session)
            let keyID = session.keyID(forURI: uri)
            session.demand(KeyDemand(keyIDs: [keyID], keySystem: .fairPlay))
            _ = await watcher.next { $0.isFailed || $0.isUsable || $0.isUntaken }
            if session.status(of: keyID).key != nil { return nil }
            return session.status(of: keyID).error ?? .noLoader("")
        }
    }

    /// From a configuration. `state` is the folder for what outlives the process.
    private func process(
        _ authority: FairPlayTestAuthority? = nil, url: String? = "https://keys.example/r", integrity: String? = nil,
        state: String? = "state/latchkey/key-servers"
    ) throws -> Process {
        let authority = authority ?? self.authority
        let digits = authority.ask.withBytes { Hex.encode($0) }
        let text = Base64.encode(authority.certificate)
        var values = [
            "certificate-file": folder.write(text, to: Hex.encode(authority.certificateHash)),
            "test-ask-file": folder.write(digits, to: "ask"),
        ]
        values["key-server-url"] = url
        values["integrity"] = integrity
        var settings = try FairPlaySettings(values)
        settings.integrityFolder = state.map { "\(folder.path)/\($0)" }
        return Process(settings: ControlSettings(fairPlay: settings))
    }

    @Test func aServerThatHasSentTheCodeHasToSendItAgain() async throws {
        let server = FairPlayServer(authority)
        let first = try process()
        server.setLeavesOutCode(true)
        #expect(try await first.failure(server) == nil)
        server.setLeavesOutCode(false)
        #expect(try await first.failure(server) == nil)
        server.setLeavesOutCode(true)
        #expect(try await first.failure(server)?.reason.contains("sent it before") == true)
        // After a restart.
        let error = try await process().failure(server)
        #expect(error?.isSameKind(as: .malformedResponse("")) == true)
        #expect(error?.reason.contains("sent it before") == true)
        #expect(try await process(integrity: "required").failure(server) != nil)
        // Another server, another certificate, a rule that lets it pass, and nothing that outlived the first process.
        #expect(try await process(url: "https://other.example/r").failure(server) == nil)
        #expect(try await process(integrity: "if-offered").failure(server) == nil)
        #expect(try await process(state: "empty").failure(server) == nil)
        #expect(try await process(state: nil).failure(server) == nil)
        let other = try Self.makeAuthority()
        let otherServer = FairPlayServer(other)
        otherServer.setLeavesOutCode(true)
        #expect(try await process(other).failure(otherServer) == nil)
    }

    /// A request that an application asks the key server itself for, and the answer.
    private struct OwnExchange {
        let session: KeySession
        let watcher: Watcher
        let keyID: KeyID
        let request: KeyLoadingRequest
        let answer: [UInt8]
    }

    private func ownExchange(_ process: Process, _ server: FairPlayServer) async throws -> OwnExchange {
        var configuration = try process.settings.makeConfiguration()
        configuration.integrityMemory = process.memory
        let session = KeySession(configuration: configuration)
        let watcher = Watcher(session)
        let keyID = session.keyID(forURI: "skd://movie")
        session.demand(KeyDemand(keyIDs: [keyID], keySystem: .fairPlay))
        let request = try #require(await watcher.next { $0.request != nil }?.request)
        let spc = try request.streamingContentKeyRequestData(
            forApp: authority.certificate, contentIdentifier: Array("movie".utf8))
        let answer = try await server.send(HTTPRequest(method: "POST", url: "https://k/", body: spc))
        return OwnExchange(session: session, watcher: watcher, keyID: keyID, request: request, answer: answer.body)
    }

    /// Over an origin that is not known, the certificate decides.
    @Test func anExchangeOfTheApplicationIsCheckedToo() async throws {
        func failure(_ process: Process, _ server: FairPlayServer) async throws -> KeyError? {
            let own = try await ownExchange(process, server)
            own.session.respond(toRequest: own.request.id, with: .success(.license(own.answer)))
            _ = await own.watcher.next { $0.isFailed || $0.isUsable }
            let status = own.session.status(of: own.keyID)
            return status.key == nil ? status.error ?? .noLoader("") : nil
        }
        let server = FairPlayServer(authority)
        server.setLeavesOutCode(true)
        #expect(try await failure(process(), server) == nil)
        server.setLeavesOutCode(false)
        // A loader of this project met the server before.
        #expect(try await process().failure(server) == nil)
        server.setLeavesOutCode(true)
        #expect(try await failure(process(), server)?.reason.contains("sent it before") == true)
        #expect(try await failure(process(state: nil), server) == nil)
    }

    /// A changed playlist can name another server, which has nothing but the answers of the real one.
    @Test func aServerThatThePlaylistNamesIsKnownByItsCertificate() async throws {
        let server = FairPlayServer(authority)
        let process = try process(url: nil)
        #expect(try await process.failure(server, uri: "skd://keys.example/movie") == nil)
        server.setLeavesOutCode(true)
        for host in ["keys.example", "other.example"] {
            let error = try await process.failure(server, uri: "skd://\(host)/movie")
            #expect(error?.reason.contains("sent it before") == true, "\(host)")
        }
        let other = try self.process(url: nil, state: "empty")
        #expect(try await other.failure(server, uri: "skd://keys.example/movie") == nil)
    }

    /// A proxy without any key flips one bit of each answer, each in a process of its own. Before, the server sent one
    /// unchanged answer.
    @Test func aFlippedBitOnTheWayIsRefused() async throws {
        let flip = Mutex<Int?>(nil)
        let size = Mutex(0)
        let server = FairPlayServer(
            authority,
            wrap: { ckc in
                size.withLock { $0 = ckc.count * 8 }
                guard let bit = flip.withLock({ $0 }) else { return ckc }
                var ckc = ckc
                ckc[bit / 8 % ckc.count] ^= 1 << UInt8(bit % 8)
                return ckc
            })
        server.setTerms(FairPlayTerms(lease: 60, outputRequirement: .hdcpType1))
        #expect(try await process().failure(server) == nil)
        var accepted: [Int] = []
        for bit in stride(from: Int.random(in: 0..<11), to: size.withLock({ $0 }), by: 11) {
            flip.withLock { $0 = bit }
            if try await process().failure(server) == nil { accepted.append(bit) }
        }
        #expect(accepted == [])
    }

    /// Every bit, of a server that has sent the code once. The rule alone refuses an answer whose code was renamed.
    @Test func noBitCanBeFlipped() async throws {
        let server = FairPlayServer(authority)
        server.setTerms(FairPlayTerms(lease: 60, outputRequirement: .hdcpType1))
        let own = try await ownExchange(process(), server)
        #expect(try own.request.open(keyVendorResponse: own.answer)?.hasIntegrity == true)
        var accepted: [Int] = []
        for bit in 0..<own.answer.count * 8 {
            var changed = own.answer
            changed[bit / 8] ^= 1 << UInt8(bit % 8)
            if (try? own.request.open(keyVendorResponse: changed)) != nil { accepted.append(bit) }
        }
        #expect(accepted == [])
    }

    @Test func whatIsStoredIsBounded() throws {
        let store = FilePersistableKeyStore(onDemand: folder.path + "/a/b", kind: "record")
        #expect(try store.names() == [])
        let senders = IntegritySenders(memory: .init(), store: store)
        var exchange = try FairPlayExchange(
            certificate: authority.certificate, contentIdentifier: [1, 2], provider: authority.provider)
        for number in 0..<IntegritySenders.limit + 20 {
            exchange.keyServer = "https://\(number).example"
            senders.add(exchange) { Issue.record("\($0)") }
        }
        let names = try store.names()
        #expect(IntegritySenders.limit == 256 && names.count == IntegritySenders.limit)
        // Neither the names nor the contents of the files tell of the services.
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path + "/a/b") {
            #expect(name.wholeMatch(of: #/sender-[0-9a-f]{64}\.\w+/#) != nil, "\(name)")
            #expect(FileManager.default.contents(atPath: folder.path + "/a/b/" + name) == Data())
        }
        // The last one is there, for a process that comes later.
        #expect(IntegritySenders(memory: .init(), store: store).contains(exchange))
        exchange.keyServer = "https://unknown.example"
        #expect(!senders.contains(exchange))
    }

    /// Its names are in the order in which they were stored, or in the reverse one: file systems have both.
    private final class OrderedStore: PersistableKeyStore {
        private let isReversed: Bool
        private let kept = Mutex<[String]>([])

        init(isReversed: Bool) { self.isReversed = isReversed }

        func data(named name: String) -> [UInt8]? { kept.withLock { $0.contains(name) ? [] : nil } }
        func store(_ data: [UInt8], named name: String) { kept.withLock { $0.append(name) } }
        func remove(named name: String) { kept.withLock { $0.removeAll { $0 == name } } }
        func names() -> [String] { kept.withLock { isReversed ? $0.reversed() : $0 } }
    }

    /// The server with this certificate, and the certificate alone: neither makes place for the other.
    @Test(arguments: [false, true]) func theLastSenderIsKeptInAFullStore(isReversed: Bool) throws {
        let store = OrderedStore(isReversed: isReversed)
        for number in 0..<IntegritySenders.limit + 20 { store.store([], named: "sender-\(number)") }
        var exchange = try FairPlayExchange(
            certificate: authority.certificate, contentIdentifier: [1, 2], provider: authority.provider)
        exchange.keyServer = "https://a.example"
        IntegritySenders(memory: .init(), store: store).add(exchange) { Issue.record("\($0)") }
        #expect(store.names().count == IntegritySenders.limit)
        let later = IntegritySenders(memory: .init(), store: store)
        #expect(later.contains(exchange))
        exchange.keyServer = nil
        #expect(later.contains(exchange))
    }

    @Test func aFolderThatCannotBeWrittenIsSaidOnce() throws {
        let file = folder.write("", to: "file")
        let senders = IntegritySenders(
            memory: .init(), store: FilePersistableKeyStore(onDemand: file + "/x", kind: "record"))
        var exchange = try FairPlayExchange(
            certificate: authority.certificate, contentIdentifier: [1, 2], provider: authority.provider)
        exchange.keyServer = "https://a.example"
        var texts: [String] = []
        for _ in 0..<2 { senders.add(exchange) { texts.append($0) } }
        // One for the server, and one for its certificate.
        #expect(texts.count == 2 && texts.allSatisfy { $0.contains(file) })
        #expect(senders.contains(exchange))
    }

    /// They could take away that a key server has sent the code.
    @Test func aFolderThatOthersMayWriteKeepsNothingAndThatIsSaid() throws {
        let path = folder.path + "/senders"
        #expect(mkdir(path, 0o700) == 0 && chmod(path, 0o777) == 0)
        let store = FilePersistableKeyStore(onDemand: path, kind: "record")
        let senders = IntegritySenders(memory: .init(), store: store)
        var exchange = try FairPlayExchange(
            certificate: authority.certificate, contentIdentifier: [1, 2], provider: authority.provider)
        exchange.keyServer = "https://a.example"
        var texts: [String] = []
        senders.add(exchange) { texts.append($0) }
        #expect(texts.count == 2 && texts.allSatisfy { $0.contains("\(path): others may write to it") })
        #expect(senders.contains(exchange))
        #expect(try store.names() == [])
    }

    @Test func theFolderIsThatOfTheSpecification() throws {
        #expect(ViewingSettings.stateFolder("a", ["XDG_STATE_HOME": "/s", "HOME": "/h"]) == "/s/latchkey/a")
        #expect(ViewingSettings.stateFolder("a", ["HOME": "/h"]) == "/h/.local/state/latchkey/a")
        #expect(ViewingSettings.stateFolder("a", ["XDG_STATE_HOME": "s"]) == nil)
        let own = ViewingSettings.stateFolder("key-servers", ViewingSettings.processEnvironment)
        #expect(try FairPlaySettings([:]).integrityFolder == own)
    }

    @Test func theRuleIsRead() throws {
        #expect(try FairPlaySettings([:]).integrity == nil)
        #expect(try FairPlaySettings(["integrity": "required"]).integrity == .required)
        #expect(try FairPlaySettings(["integrity": "if-offered"]).integrity == .ifOffered)
        let error = #expect(throws: KeyError.self) { try FairPlaySettings(["integrity": "no"]) }
        #expect(error?.reason.contains("required, if-offered") == true)
    }

    /// From the first answer on.
    @Test func theTestAuthoritysOwnCertificateRequiresTheCode() async throws {
        let authority = try FairPlayServer.authority.get()
        let server = FairPlayServer(authority)
        #expect(try await process(authority, state: nil).failure(server) == nil)
        server.setLeavesOutCode(true)
        let error = try await process(authority, state: nil).failure(server)
        #expect(
            error?.reason.contains("the code over the whole message, is missing") == true,
            "\(String(describing: error))")
        #expect(try await process(authority, integrity: "if-offered", state: nil).failure(server) == nil)
    }

    /// A service that does not know the code, with a provider that is not the test authority's: the rule has it sent.
    @Test func aRuleThatRequiresTheCodeHasItOffered() async throws {
        let authority = try FairPlayServer.authority.get()
        let server = FairPlayServer(authority)
        #expect(try await process(authority, integrity: "required").failure(server) == nil)
        #expect(server.opened.map(\.hasIntegrity) == [true])
    }
}
