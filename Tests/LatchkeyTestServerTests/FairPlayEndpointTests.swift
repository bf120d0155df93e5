// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import Foundation
import HTTPTypes
import LatchkeyKeySystems
import LatchkeyContainers
import NIOCore
import LatchkeyProtection
import Testing

@testable import LatchkeyTestServer

@Suite struct FairPlayEndpointTests {
    private static let authorities = SPCContainer.Version.allCases.compactMap {
        try? FairPlayTestAuthority.generate($0)
    }
    private static let keys = """
        skd://asset/1 00000000000000000000000000000001 000000000000000000000000000000f1
        skd://asset/1?a=b%20c&ü== 00000000000000000000000000000002 000000000000000000000000000000f2
        skd:bare 00000000000000000000000000000003
        https://keys.example/x 00000000000000000000000000000004 000000000000000000000000000000f4
        00112233445566778899aabbccddeeff 00000000000000000000000000000005 000000000000000000000000000000f5
        """

    private let server: ServerApplication

    init() throws {
        let settings = ServerSettings(
            keysFileEntries: try KeysFile(contents: Array(Self.keys.utf8), name: "test").entries,
            fairPlayAuthorities: Self.authorities)
        server = try #require(ServerApplication(settings: settings.patient))
    }

    private func send(
        _ uri: String, method: HTTPRequest.Method = .post, type: String? = nil, _ body: [UInt8] = [],
        to server: ServerApplication? = nil
    ) async throws -> TestResponse {
        try await withTestClient(of: server ?? self.server) { client in
            try await client.execute(
                uri: uri, method: method, headers: type.map { [.contentType: $0] } ?? [:], body: ByteBuffer(bytes: body)
            )
        }
    }

    private func exchange(
        _ identifier: String = "skd://asset/1", version: SPCContainer.Version = .v1,
        state: MediaPlaybackState.State? = .readyToStart
    ) throws -> FairPlayExchange {
        let authority = try #require(Self.authorities.first { $0.version == version })
        return try FairPlayExchange(
            certificate: authority.certificate, contentIdentifier: Array(identifier.utf8),
            options: state.map { .init(state: $0, time: 1_700_000_000, sessionID: 1) } ?? .init(),
            provider: authority.provider)
    }

    /// Without the IV.
    private func digits(_ key: ContentKey?) -> String? { key?.withBytes { Hex.encode($0) } }

    private func error(_ response: TestResponse) throws -> ErrorBody {
        try JSONDecoder().decode(ErrorBody.self, from: Data(response.bytes))
    }

    @Test(arguments: SPCContainer.Version.allCases)
    func aRequestForTheServersCertificateIsAnswered(version: SPCContainer.Version) async throws {
        let certificate = try await send("/fairplay/certificate?version=\(version.rawValue)", method: .get)
        #expect(certificate.status == .ok)
        #expect(certificate.headers[.contentType] == "application/x-x509-ca-cert")
        let authority = try #require(Self.authorities.first { $0.version == version })
        #expect(certificate.bytes == authority.certificate)
        let exchange = try FairPlayExchange(
            certificate: certificate.bytes, contentIdentifier: Array("skd://asset/1".utf8),
            provider: authority.provider)
        let response = try await send("/fairplay/license", type: "application/octet-stream", exchange.request)
        #expect(response.status == .ok)
        #expect(response.headers[.contentType] == "application/octet-stream")
        #expect(response.headers[.cacheControl] == "no-store")
        let license = try exchange.open(response: response.bytes)
        #expect(digits(license.contentKey) == "00000000000000000000000000000001")
        #expect(license.initializationVector?.low == 0xF1)
        let entry = try #require(server.state.log.last)
        #expect(entry.path == "/fairplay/license" && entry.status == 200)
        #expect(entry.assetID == "skd://asset/1" && entry.deviceID?.count == 40)
    }

    @Test func theCertificateOfVersion1IsTheUsualOne() async throws {
        let first = try await send("/fairplay/certificate", method: .get)
        #expect(first.bytes == Self.authorities.first?.certificate)
        #expect(try await send("/fairplay/certificate?version=3", method: .get).status == .badRequest)
        let head = try await send("/fairplay/certificate", method: .head)
        #expect(head.status == .ok && head.bytes.isEmpty)
        #expect(try await send("/fairplay/certificate").headers[.allow] == "GET, HEAD")
        #expect(try await send("/fairplay/license", method: .get).headers[.allow] == "POST")
        #expect(try await send("/fairplay/license", method: .get).status == .methodNotAllowed)
    }

    @Test(arguments: [
        ("asset/1", 1), ("skd://asset/1", 1), ("skd://asset/1?a=b%20c&ü==", 2), ("asset/1?a=b%20c&ü==", 2), ("bare", 3),
        ("skd:bare", 3), ("https://keys.example/x", 4), ("00112233445566778899AABBCCDDEEFF", 5),
        ("00112233-4455-6677-8899-aabbccddeeff", 5), ("SKD://asset/1", 1),
    ])
    func findsTheKeyByContentIdentifier(identifier: String, number: Int) async throws {
        let exchange = try exchange(identifier)
        let license = try exchange.open(response: try await send("/fairplay/a/b/c", exchange.request).bytes)
        #expect(digits(license.contentKey) == String(repeating: "0", count: 31) + "\(number)")
        #expect(license.initializationVector?.low == (number == 3 ? 0 : 0xF0 + UInt64(number)))
    }

    @Test func aKIDOfSixteenBytesAndAStarAreFoundToo() throws {
        let keys = try KeysFile(contents: Array("\(Self.keys)\n* 00000000000000000000000000000009".utf8), name: "test")
        let found = ContentIdentifierKeys(keys.entries)
        let keyID = try #require(KeyID(hex: "00112233445566778899aabbccddeeff"))
        #expect(digits(found[keyID.bytes]?.key) == "00000000000000000000000000000005")
        #expect(digits(found[[0xFF, 0xFE]]?.key) == "00000000000000000000000000000009")
    }

    @Test func takesEveryFormOfARequest() async throws {
        func escaped(_ text: String) -> String {
            text.replacing("%", with: "%25").replacing("+", with: "%2B").replacing("/", with: "%2F")
                .replacing("=", with: "%3D").replacing("&", with: "%26").replacing("?", with: "%3F")
        }
        let identifier = "skd://asset/1?a=b%20c&ü=="
        for (type, body): (String?, (String) -> String) in [
            ("application/x-www-form-urlencoded", { "spc=\(escaped($0))&assetId=\(escaped(identifier))" }),
            ("application/x-www-form-urlencoded; charset=utf-8", { "other=1&spc=\($0)" }),
            ("application/json", { #"{"spc":"\#($0)","assetId":"\#(identifier)","x":1}"# }),
            ("text/plain", { "\($0)\r\n" }), (nil, { $0 }), (nil, { "spc=\($0)" }), (nil, { #"{"spc":"\#($0)"}"# }),
            ("x/y", { $0 }),
        ] {
            let exchange = try exchange(identifier)
            let text = body(Data(exchange.request).base64EncodedString())
            let response = try await send("/fairplay/license", type: type, Array(text.utf8))
            #expect(response.status == .ok, "\(type ?? "none"): \(response.text)")
            _ = try exchange.open(response: response.bytes)
        }
    }

    @Test(arguments: [nil, "application/x-www-form-urlencoded", "text/plain", "application/json"])
    func theBytesOfAnSPCAreTakenForOneWhateverTheTypeSays(type: String?) async throws {
        let exchange = try exchange()
        let response = try await send("/fairplay/license", type: type, exchange.request)
        #expect(try exchange.open(response: response.bytes).contentKey != nil)
    }

    @Test func writesEveryFormOfAnAnswer() async throws {
        for (form, type, read): (String, String, (String) throws -> String) in [
            ("base64", "text/plain", { $0 }),
            ("xml", "text/xml", { String($0.dropFirst("<ckc>".count).dropLast("</ckc>".count)) }),
            (
                "json", "application/json",
                { try JSONDecoder().decode([String: String].self, from: Data($0.utf8))["ckc"] ?? "" }
            ),
        ] {
            let exchange = try exchange()
            let response = try await send("/fairplay/license?form=\(form)", exchange.request)
            #expect(response.headers[.contentType] == type)
            let ckc = try #require(Base64.decode(try read(response.text)))
            #expect(try exchange.open(response: ckc).contentKey != nil)
        }
    }

    @Test func theQuerySaysTheTerms() async throws {
        func license(_ query: String) async throws -> FairPlayLicense {
            let exchange = try exchange()
            return try exchange.open(response: try await send("/fairplay/license?\(query)", exchange.request).bytes)
        }
        let lease = try await license("lease=60&hdcp=0")
        #expect(lease.leaseDuration == .seconds(60) && lease.rentalDuration == nil)
        #expect(lease.outputRequirement == .hdcpType0 && lease.persistence == .notAllowed)
        let both = try await license("lease=60&rental=3600&hdcp=1")
        #expect(both.leaseDuration == .seconds(60) && both.rentalDuration == .seconds(3600))
        #expect(both.outputRequirement == .hdcpType1)
        let stored = try await license("persist=unlimited&hdcp=none")
        #expect(stored.persistence == .unlimited && stored.offlineKey == nil)
        #expect(stored.outputRequirement == .unprotected)
        let rented = try await license("persist=rental&rental=3600")
        #expect(rented.persistence == .forRentalDuration && rented.rentalDuration == .seconds(3600))
        let dual = try await license("persist=dual&storage=86400&playback=7200")
        #expect(dual.persistence == .unlimited)
        #expect(dual.offlineKey?.storage == 86400 && dual.offlineKey?.playback == 7200)
        #expect(dual.offlineKey?.streamID.starts(with: "skd://asset/1".utf8) == true)
    }

    @Test(arguments: [
        "lease=x", "lease=-1", "rental=99999999999", "hdcp=2", "persist=yes", "persist=rental",
        "persist=dual&storage=1",
        "form=pdf", "integrity=maybe",
    ])
    func refusesAQueryThatMakesNoSense(query: String) async throws {
        let response = try await send("/fairplay/license?\(query)", try exchange().request)
        #expect(response.status == .badRequest)
        #expect(try error(response).code == -42585)
    }

    @Test func everyErrorHasItsNumberAndStatus() async throws {
        let unknown = try await send("/fairplay/license", try exchange("skd://nobody").request)
        #expect(unknown.status == .notFound)
        #expect(try error(unknown).code == -42584)
        #expect(try error(unknown).error.contains("skd://nobody"))

        let request = try exchange().request
        #expect(try await send("/fairplay/license", request).status == .ok)
        let replay = try await send("/fairplay/license", request)
        #expect(replay.status == .conflict)
        #expect(try error(replay).code == -42585)

        let untimed = try await send("/fairplay/license?lease=60", try exchange(state: nil).request)
        #expect(untimed.status == .badRequest)
        #expect(try error(untimed).code == -42583)

        let form = "spc=\(Data(try exchange().request).base64EncodedString())&assetId=other"
        let other = try await send("/fairplay/license", type: "application/x-www-form-urlencoded", Array(form.utf8))
        #expect(try error(other).code == -42585)

        for (type, body) in [
            ("application/octet-stream", "x"), ("application/json", "{}"), ("application/json", #"{"spc":"?"}"#),
            ("text/plain", "%%%"), ("application/x-www-form-urlencoded", "spc"),
            ("application/x-www-form-urlencoded", "asset=1"), ("application/x-www-form-urlencoded", "spc=%zz"),
        ] {
            let response = try await send("/fairplay/license", type: type, Array(body.utf8))
            #expect(response.status == .badRequest)
            #expect(try error(response).code == -42581)
        }
        let twice = try await send("/fairplay/x", type: "application/x-www-form-urlencoded", Array("spc=&spc=".utf8))
        #expect(try error(twice).code == -42585)
        let version = try await send("/fairplay/license", [0, 0, 0, 9] + [UInt8](repeating: 1, count: 400))
        #expect(try error(version).code == -42580)
        let large = [UInt8](repeating: 0, count: FairPlayRequestBody.maximumSize + 1)
        #expect(try await send("/fairplay/license", large).status == .contentTooLarge)
    }

    @Test func canInsistOnTheCodeOverTheWholeMessage() async throws {
        let authority = try #require(Self.authorities.first)
        var options = FairPlayExchange.Options()
        options.sendsIntegrity = false
        let exchange = try FairPlayExchange(
            certificate: authority.certificate, contentIdentifier: Array("bare".utf8), options: options,
            provider: authority.provider)
        let refused = try await send("/fairplay/license?integrity=required", exchange.request)
        #expect(try error(refused).code == -42583)
        #expect(try await send("/fairplay/license", exchange.request).status == .ok)
        let with = try self.exchange("bare")
        #expect(try await send("/fairplay/license?integrity=required", with.request).status == .ok)
    }

    @Test func withoutAnAuthorityThereIsNoKeyServer() async throws {
        let bare = try #require(ServerApplication(settings: ServerSettings().patient))
        for response in [
            try await send("/fairplay/certificate", method: .get, to: bare),
            try await send("/fairplay/license", try exchange().request, to: bare),
        ] {
            #expect(response.status == .notFound)
            #expect(try error(response).error.contains("--fairplay"))
        }
    }

    @Test func faultsHoldForTheKeyServerToo() async throws {
        let response = try await send("/fairplay/license?fault=status:503", try exchange().request)
        #expect(response.status == .serviceUnavailable)
    }
}
