// SPDX-License-Identifier: MPL-2.0

import HTTP
import LicenseControl
import ProtectionModel
import Testing

@Suite("Licence services", .timeLimit(.minutes(8)))
struct LicenseServiceTests {
    @Test(arguments: LicenseServiceCase.all) func eachServiceGetsItsShapeAndItsAnswerIsRead(
        _ expected: LicenseServiceCase
    ) async throws {
        let uri = KeyURI(expected.keyURI)
        let id = try expected.service.contentIdentifier(of: uri)
        #expect(String(decoding: id, as: UTF8.self) == expected.contentIdentifier)
        let request = try expected.service.request(
            for: uri, contentIdentifier: id, spc: LicenseServiceCase.spc, isPersistent: expected.isPersistent)
        #expect(request.url == expected.url)
        #expect(request.body == expected.body, "\(String(decoding: request.body, as: UTF8.self))")
        #expect(request.maximumResponseSize == LicenseResponse.maximumSize)
        let response = try await expected.transport().send(request)
        #expect(response.status == 200)
        #expect(try expected.service.ckc(in: response.body, for: uri) == LicenseServiceCase.ckc)
    }

    @Test func everyPresetHasACaseAndAName() {
        let tested = Set(LicenseServiceCase.all.map(\.service.preset.name))
        #expect(tested == Set(LicenseServicePreset.all.map(\.name)))
        #expect(Set(LicenseServicePreset.all.map(\.name)).count == LicenseServicePreset.all.count)
        for preset in LicenseServicePreset.all { #expect(LicenseServicePreset.named(preset.name) == preset) }
        #expect(LicenseServicePreset.named("none") == nil)
    }

    @Test(arguments: LicenseServicePreset.all) func aMissingHeaderIsNamed(preset: LicenseServicePreset) throws {
        guard let names = preset.requiredHeaders.first else { return }
        let service = LicenseService(preset, url: "https://keys.example/")
        let error = #expect(throws: KeyError.self) {
            try service.request(for: KeyURI("skd://a?b"), contentIdentifier: [1], spc: [1])
        }
        #expect(error?.isSameKind(as: .invalidConfiguration("")) == true)
        for name in names { #expect(error?.description.contains(name) == true) }
    }

    @Test func whatIsMissingIsNamedAndNoSecretIs() {
        let uri = KeyURI("skd://?token=secret")
        func failure(_ service: LicenseService) -> KeyError? {
            #expect(throws: KeyError.self) {
                try service.request(
                    for: uri, contentIdentifier: try service.contentIdentifier(of: uri), spc: [1])
            }
        }
        #expect(
            failure(LicenseService(.comcast, url: "https://a/"))?.description.contains("content identifier") == true)
        #expect(failure(LicenseService(.standard))?.description.contains("names no server") == true)
        #expect(failure(LicenseService(.irdeto, url: "https://a/"))?.isSameKind(as: .malformedRequest("")) == true)
        let withoutToken = LicenseService(.vuDRM, url: "https://a/")
        #expect(failure(withoutToken)?.description.contains("“token”") == true)
        let withoutURL = LicenseService(.verimatrix)
        #expect(failure(withoutURL)?.isSameKind(as: .invalidConfiguration("")) == true)
        for service in [
            withoutToken, withoutURL, LicenseService(.standard), LicenseService(.irdeto, url: "https://a/"),
        ] {
            #expect(failure(service)?.description.contains("secret") == false)
        }
    }

    @Test func credentialsGoOnlyToTheConfiguredServer() throws {
        let header = [HTTPHeader(name: "Authorization", value: "Bearer secret")]
        let uri = KeyURI("skd://evil.example/rights?cid=1")
        let own = LicenseService(.standard, url: "https://keys.example/", headers: header)
        #expect(
            try own.request(for: uri, contentIdentifier: [1], spc: [1]).headers.map(\.name).contains("Authorization"))
        var preset = LicenseServicePreset.standard
        preset.headers = [.init("x-token", .parameter("token"))]
        let named = LicenseService(preset, headers: header, parameters: ["token": "secret"])
        let request = try named.request(for: uri, contentIdentifier: [1], spc: [1])
        #expect(request.url == "https://evil.example/rights?cid=1")
        #expect(request.headers.map(\.name) == ["Content-Type"])
    }

    @Test func aConfiguredFieldReplacesThePresets() throws {
        let service = LicenseService(
            .verimatrix, url: "https://a/", headers: [HTTPHeader(name: "content-type", value: "text/plain")])
        let request = try service.request(for: KeyURI("skd://a"), contentIdentifier: [1], spc: [1])
        #expect(request.headers == [HTTPHeader(name: "content-type", value: "text/plain")])
    }

    @Test func theCertificateHasAPlace() throws {
        let service = LicenseService(
            .pallyCon, url: "https://license.example/ri/licenseManager.do?x=y", parameters: ["siteId": "A&B"])
        #expect(try service.certificateURL() == "https://license.example/ri/fpsKeyManager.do?siteId=A%26B")
        #expect(try LicenseService(.axinom, url: "https://a/").certificateURL() == nil)
    }

    @Test func theKeyURIsSchemeCanBeHTTPOnATestBench() throws {
        let service = LicenseService(.expressPlay, keyURIScheme: "http")
        let request = try service.request(for: KeyURI("SKD://127.0.0.1:80/t?a=b c"), contentIdentifier: [1], spc: [1])
        #expect(request.url == "http://127.0.0.1:80/t?a=b%20c")
    }

    @Test func texts() {
        let service = LicenseService(
            .vuDRM, url: "https://me:secret@host/a?token=secret", headers: [HTTPHeader(name: "X", value: "secret")],
            parameters: ["token": "secret"])
        var dumped = ""
        dump(service, to: &dumped)
        for text in [service.description, "\(service)", String(reflecting: service), dumped] {
            #expect(!text.contains("secret"))
            #expect(text.contains("https://host/a"))
        }
    }
}
