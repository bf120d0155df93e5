// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyManifests

@Suite("A server's own words")
struct ServerTextTests {
    private func words(_ body: String, _ type: String? = nil, hiding secrets: [String] = []) -> String? {
        ServerText.words(in: Array(body.utf8), contentType: type, hiding: secrets)
    }

    @Test func plainTextJSONAndFaultsAreQuotedAndNothingElseIs() {
        #expect(words("No active subscription\r\n", "text/plain; charset=utf-8") == "No active subscription")
        #expect(words("No active subscription") == nil)
        #expect(words("No active subscription", "application/octet-stream") == nil)
        #expect(words("<!doctype html><p>Forbidden</p>", "text/html") == nil)
        #expect(words("<p>Forbidden</p>", "text/plain") == nil)
        #expect(words(#"{"message": "no rights", "code": 3}"#) == #"{"message": "no rights", "code": 3}"#)
        #expect(words("  [1]", "text/html") == "[1]")
        #expect(words(#""no rights""#, "application/problem+json") == #""no rights""#)
        #expect(words("", "text/plain") == nil)
        #expect(words(" \n", "text/plain") == nil)
        #expect(ServerText.words(in: [0x41, 0xFF], contentType: "text/plain") == nil)
        #expect(ServerText.words(in: [0x41, 0x00], contentType: "text/plain") == nil)
    }

    @Test func aFaultGivesItsTextAlone() {
        let old =
            "<s:Envelope xmlns:s='e'><s:Body><s:Fault><faultcode>s:Client</faultcode>"
            + "<faultstring> no  rights </faultstring><detail>x</detail></s:Fault></s:Body></s:Envelope>"
        #expect(words(old, "text/xml") == "no rights")
        let new =
            "<s:Envelope xmlns:s='e'><s:Body><s:Fault><s:Reason><s:Text xml:lang='en'>no rights</s:Text></s:Reason>"
            + "</s:Fault></s:Body></s:Envelope>"
        #expect(words(new, "application/soap+xml") == "no rights")
        #expect(words("<error>no rights</error>", "text/xml") == nil)
    }

    @Test func twoHundredCharactersAreQuoted() {
        let text = String(repeating: "ü ab ", count: 50)
        let quoted = words(text, "text/plain")
        #expect(quoted == text.prefix(200) + "…")
        #expect(words(String(text.prefix(199)), "text/plain") == String(text.prefix(199)))
    }

    @Test(arguments: [
        "00112233445566778899aabbccddeeff", "00:11:22:33:44:55:66:77:88:99:aa:bb:cc:dd:ee:ff",
        "AAECAwQFBgcICQoLDA0ODw==",
        "AAECAwQFBgcICQoLDA0ODw", "-_ECAwQFBgcICQoLDA0ODw", #"AAECAw\/FBgcICQoLDA0\/\/=="#,
        "AAECAwQFBgcICQoLDA0ODw%3D%3D",
        "eyJhbGciOiJIUzI1NiJ9eyJzdWIiOiIxIn0", "YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4",
    ])
    func longRunsGo(run: String) {
        #expect(words(#"{"key":"\#(run)","m":"no"}"#) == #"{"key":"[…]","m":"no"}"#)
    }

    @Test func wordsStay() {
        let text =
            "InvalidAuthenticationTokenException: not_authorized_for_this_content /rights/of/this/account 12345678"
        #expect(words(text, "text/plain") == text)
    }

    @Test func whatTheRequestHadGoes() {
        #expect(
            words("Bearer tok-1 of user anna, tok-1", "text/plain", hiding: ["Bearer tok-1", "tok-1", "x", ""])
                == "[…] of user anna, […]")
    }

    @Test func whatTheRequestHadGoesInEveryForm() {
        let secret = "anna/4711&co"
        #expect(words(#"{"error":"bad data: anna\/4711&co"}"#, hiding: [secret])?.contains("4711") == false)
        let fault = "<a><Fault><faultstring>bad data: anna/4711&amp;co</faultstring></Fault></a>"
        #expect(
            ServerText.removing([secret], from: Array(fault.utf8)).elementsEqual(
                "<a><Fault><faultstring>bad data: […]</faultstring></Fault></a>".utf8))
    }

    @Test func controlCharactersGo() {
        #expect(words("a\u{1B}[31mb\u{85}c\td", "text/plain") == "a [31mb c d")
    }
}
