// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySession

/// What a service repeats of a request is in no error text.
@Suite struct PlayReadyServiceRequestTests {
    /// Answers with a status and a body, as a transport that adds a session's token does.
    private struct Service: HTTPTransport {
        let status: Int
        let body: String

        func send(_ request: HTTPRequest) async throws(HTTPError) -> HTTPResponse {
            var response = HTTPResponse(
                status: status, headers: [HTTPHeader(name: "Content-Type", value: "text/plain")],
                body: Array(body.utf8), url: request.url)
            response.sentSecrets = ["tok.ab12"]
            return response
        }
    }

    private func send(_ service: Service) async throws(KeyError) -> [UInt8] {
        try await PlayReadyServiceRequest(
            .acquireLicense, url: "https://licenses.example/r?t=q1w2e3",
            headers: [HTTPHeader(name: "X-User", value: "benno")],
            challenge: [], timeout: nil, customData: "anna/4711", transport: service
        ).send()
    }

    @Test func aRefusalDoesNotRepeatTokenAndCustomData() async throws {
        let error = await #expect(throws: KeyError.self) {
            try await send(Service(status: 403, body: "session tok.ab12 may not use anna/4711 here"))
        }
        #expect(error?.description.contains("session […] may not use […] here") == true)
    }

    /// They go along in a field of the transport's own.
    @Test(arguments: [
        ("benno:pa%2Fss1", "benno may not use pa/ss1, pa%2Fss1", "YmVubm86cGEvc3Mx", "[…] may not use […], […]"),
        ("benno", "no benno", "YmVubm86", "no […]"),
    ])
    func aRefusalDoesNotRepeatUserNameAndPassword(
        info: String, words: String, basic: String, shown: String
    ) async throws {
        let error = await #expect(throws: KeyError.self) {
            try await PlayReadyServiceRequest(
                .acquireLicense, url: "https://\(info)@licenses.example/r", headers: [], challenge: [], timeout: nil,
                transport: Service(status: 403, body: "\(words) (Basic \(basic))")
            ).send()
        }
        #expect(error?.description.contains("\(shown) (Basic […])") == true, "\(error?.description ?? "")")
    }

    @Test func aFaultDoesNotRepeatThemEither() async throws {
        let answer = PlayReadyFault(code: 0x8004_C600, text: "session tok.ab12 may not use anna/4711").serialized
        let body = try await send(Service(status: 500, body: String(decoding: answer, as: UTF8.self)))
        #expect(PlayReadyFault(response: body)?.text == "session […] may not use […]")
    }

    /// Nor what the address and the fields of the request had, unless it is part of the address to ask next.
    @Test func aFaultDoesNotRepeatTheAddressAndTheFields() async throws {
        var fault = PlayReadyFault(code: 0x8004_C600, text: "benno may not use q1w2e3")
        var body = try await send(Service(status: 500, body: String(decoding: fault.serialized, as: UTF8.self)))
        #expect(PlayReadyFault(response: body)?.text == "[…] may not use […]")
        (fault.code, fault.redirectURL) = (PlayReadyFault.redirect, "https://other.example/r?t=q1w2e3")
        body = try await send(Service(status: 500, body: String(decoding: fault.serialized, as: UTF8.self)))
        #expect(PlayReadyFault(response: body)?.redirectURL == fault.redirectURL)
    }

    /// A value that the document has elsewhere, as a word of its markup, an id or data for the application, stays there.
    @Test(arguments: ["utf-8", "soap", "StatusCode", "0x8004C605", "1b4e28ba-2fa1-11d2-883f-0016d3cca427", "film 12"])
    func aFaultKeepsWhatIsNotItsText(value: String) async throws {
        let account = "1b4e28ba-2fa1-11d2-883f-0016d3cca427"
        let answer = """
            <?xml version="1.0" encoding="utf-8"?><soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body>
            <soap:Fault><faultcode>soap:Client</faultcode><faultstring>no \(value)!</faultstring><detail>
            <StatusCode>0x8004C605</StatusCode><AccountId>\(account)</AccountId><CustomData>film 12</CustomData></detail>
            </soap:Fault></soap:Body></soap:Envelope>
            """
        let body = try await PlayReadyServiceRequest(
            .acquireLicense, url: "https://licenses.example/r", headers: [HTTPHeader(name: "X-Value", value: value)],
            challenge: [], timeout: nil, transport: Service(status: 500, body: answer)
        ).send()
        let fault = try #require(PlayReadyFault(response: body))
        #expect(fault.code == PlayReadyFault.domainRequired && fault.text == "no […]!" && fault.customData == "film 12")
        #expect(fault.accountID == GUID(account) && fault.accountID != nil)
    }
}
