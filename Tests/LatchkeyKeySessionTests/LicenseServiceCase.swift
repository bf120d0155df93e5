// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySession
import Testing

/// A service's public request and response form, written down by hand and not by the code under test.
struct LicenseServiceCase: CustomTestStringConvertible, Sendable {
    /// Its Base64 text has every character that encodings disagree about: `+//+AQ==`.
    static let spc: [UInt8] = [0xFB, 0xFF, 0xFE, 0x01]
    /// `AAAAAf/+`
    static let ckc: [UInt8] = [0, 0, 0, 1, 0xFF, 0xFE]

    let service: LicenseService
    let keyURI: String
    var isPersistent = false
    /// As UTF-8.
    let contentIdentifier: String
    let url: String
    let headers: [String: String]
    let body: [UInt8]
    let answer: [UInt8]

    var testDescription: String { "\(service.preset.name) \(keyURI)" }

    init(
        _ service: LicenseService, _ keyURI: String, isPersistent: Bool = false, id: String, url: String,
        headers: [String: String], body: String? = nil, answer: String? = nil
    ) {
        self.service = service
        self.keyURI = keyURI
        self.isPersistent = isPersistent
        contentIdentifier = id
        self.url = url
        self.headers = headers
        self.body = body.map { Array($0.utf8) } ?? Self.spc
        self.answer = answer.map { Array($0.utf8) } ?? Self.ckc
    }

    /// A server that takes this request and no other, and answers in its form.
    func transport() -> FakeTransport {
        FakeTransport { request, _ throws(HTTPError) in
            let headers = Dictionary(request.headers.map { ($0.name, $0.value) }, uniquingKeysWith: { "\($0), \($1)" })
            guard request.method == "POST", request.url == url, headers == self.headers, request.body == body else {
                return HTTPResponse(status: 400, url: request.url)
            }
            return HTTPResponse(status: 200, body: answer, url: request.url)
        }
    }
}

private let octets = ["Content-Type": "application/octet-stream"]
private let form = ["Content-Type": "application/x-www-form-urlencoded"]
private let json = ["Content-Type": "application/json"]

extension [String: String] {
    fileprivate func with(_ name: String, _ value: String) -> [String: String] {
        merging([name: value]) { $1 }
    }
}

private func field(_ name: String, _ value: String) -> [HTTPHeader] { [HTTPHeader(name: name, value: value)] }

extension LicenseServiceCase {
    /// The 14 services of the public table, those with variants more than once.
    static let all: [LicenseServiceCase] = [
        LicenseServiceCase(
            LicenseService(.appleEME, url: "https://keys.example/fps"), "skd://twelve/a?b=c",
            id: "skd://twelve/a?b=c", url: "https://keys.example/fps", headers: json,
            body: #"{"fairplay-streaming-request":{"version":1,"streaming-keys":"#
                + #"[{"id":1,"uri":"skd://twelve/a?b=c","spc":"+//+AQ=="}]}}"#,
            answer: #"{"fairplay-streaming-response":{"version":1,"streaming-keys":"#
                + #"[{"id":1,"uri":"skd://other","ckc":"AAAAAQ=="},"#
                + #"{"id":2,"uri":"skd://twelve/a?b=c","ckc":"AAAAAf/+"}]}}"#),
        LicenseServiceCase(
            LicenseService(.appleClassic, url: "https://keys.example/"), "skd://host/path/asset-9", id: "asset-9",
            url: "https://keys.example/", headers: form, body: "spc=%2B%2F%2F%2BAQ%3D%3D&assetId=asset-9",
            answer: "\n<ckc>AAAAAf/+</ckc>\n"),
        LicenseServiceCase(
            LicenseService(
                .azure, url: "https://acc.keydelivery.example/FairPlay/?kid=7",
                headers: field("Authorization", "Bearer abc")),
            "skd://acc.keydelivery.example/FairPlay/?kid=7", id: "kid=7",
            url: "https://acc.keydelivery.example/FairPlay/?kid=7",
            headers: form.with("Authorization", "Bearer abc"), body: "spc=%2B%2F%2F%2BAQ%3D%3D&assetId=kid%3D7",
            answer: "<ckc>AAAAAf/+</ckc>"),
        LicenseServiceCase(
            LicenseService(
                .keyOS, url: "https://fp.keyos.example/getLicense",
                headers: field("x-keyos-authorization", "PEtleT4=")),
            "skd://fp.keyos.example/getLicense?NzA5Mz/E2Yg==", id: "NzA5Mz/E2Yg==",
            url: "https://fp.keyos.example/getLicense", headers: form.with("x-keyos-authorization", "PEtleT4="),
            body: "spc=+//+AQ==&assetId=NzA5Mz/E2Yg==", answer: "AAAAAf/+"),
        LicenseServiceCase(
            LicenseService(.expressPlay, url: "https://fp.service.example:80/hms/fp/rights/?ExpressPlayToken=AQ/+=="),
            "skd://content/1%20=ü", id: "content/1%20=ü",
            url: "https://fp.service.example:80/hms/fp/rights/?ExpressPlayToken=AQ/+==", headers: octets),
        LicenseServiceCase(
            LicenseService(.expressPlay), "skd://fp.service.example:80/hms/fp/rights/?ExpressPlayToken=AQ/+==",
            id: "fp.service.example:80/hms/fp/rights/?ExpressPlayToken=AQ/+==",
            url: "https://fp.service.example:80/hms/fp/rights/?ExpressPlayToken=AQ/+==", headers: octets),
        LicenseServiceCase(
            LicenseService(.ezdrm, url: "https://fps.ezdrm.example"), "skd://fps.ezdrm.example/;id/1=", id: "id/1=",
            url: "https://fps.ezdrm.example/api/licenses/id%2F1%3D", headers: octets),
        LicenseServiceCase(
            LicenseService(.ezdrmQuery, url: "https://fps.ezdrm.example/auth?px=ABC"), "skd://fps;a;id-1", id: "id-1",
            url: "https://fps.ezdrm.example/auth?px=ABC", headers: octets),
        LicenseServiceCase(
            LicenseService(.verimatrix, url: "https://vcas.example/CAB/keyfile"), "skd://Chan/1?x", id: "Chan/1?x",
            url: "https://vcas.example/CAB/keyfile", headers: form, body: "spc=+//+AQ==",
            answer: #"{"ckc":"AAAAAf\/+"}"#),
        LicenseServiceCase(
            LicenseService(.verimatrix, url: "https://vcas.example/CAB/keyfile", encodesFormFields: true),
            "skd://Chan/1?x", id: "Chan/1?x", url: "https://vcas.example/CAB/keyfile", headers: form,
            body: "spc=%2B%2F%2F%2BAQ%3D%3D", answer: "<ckc>AAAAAf/+</ckc>"),
        LicenseServiceCase(
            LicenseService(
                .verimatrixCore, url: "https://core.example/fairplay", headers: field("authorization", "token")),
            "skd://id-1?x=y", id: "id-1", url: "https://core.example/fairplay",
            headers: json.with("authorization", "token"), body: #"{"spc":"+//+AQ=="}"#, answer: #"{"ckc":"AAAAAf/+"}"#),
        LicenseServiceCase(
            LicenseService(
                .axinom, url: "https://drm.axinom.example/AcquireLicense", headers: field("X-AxDRM-Message", "jwt")),
            "skd://2585b2c1-fcbe-4b31-9b11-d8a3f8fbb6a1:00112233445566778899aabbccddeeff",
            id: "2585b2c1-fcbe-4b31-9b11-d8a3f8fbb6a1:00112233445566778899aabbccddeeff",
            url: "https://drm.axinom.example/AcquireLicense", headers: octets.with("X-AxDRM-Message", "jwt")),
        LicenseServiceCase(
            LicenseService(
                .pallyCon, url: "https://license.pallycon.example", headers: field("pallycon-customdata-v2", "eyJ=")),
            "skd://movie-7", id: "movie-7", url: "https://license.pallycon.example/ri/licenseManager.do",
            headers: form.with("pallycon-customdata-v2", "eyJ="), body: "spc=%2B%2F%2F%2BAQ%3D%3D",
            answer: "AAAAAf/+\r\n"),
        LicenseServiceCase(
            LicenseService(
                .drmToday, url: "https://lic.drmtoday.example/fairplay", headers: field("dt-custom-data", "eyJ=")),
            "skd://drmtoday?assetId=a%20b&variantId=v", isPersistent: true, id: "assetId=a%20b&variantId=v",
            url: "https://lic.drmtoday.example/fairplay?offline=true", headers: form.with("dt-custom-data", "eyJ="),
            body: "spc=%2B%2F%2F%2BAQ%3D%3D&assetId=a%20b&variantId=v", answer: "AAAAAf/+"),
        LicenseServiceCase(
            LicenseService(
                .drmToday, url: "https://lic.drmtoday.example/fairplay", headers: field("x-dt-custom-data", "eyJ=")),
            "skd://drmtoday?assetId=a", id: "assetId=a", url: "https://lic.drmtoday.example/fairplay",
            headers: form.with("x-dt-custom-data", "eyJ="), body: "spc=%2B%2F%2F%2BAQ%3D%3D&assetId=a",
            answer: "AAAAAf/+"),
        LicenseServiceCase(
            LicenseService(
                .drmToday, url: "https://lic.drmtoday.example/fairplay", headers: field("x-dt-auth-token", "jwt")),
            "skd://drmtoday?assetId=a", id: "assetId=a", url: "https://lic.drmtoday.example/fairplay",
            headers: form.with("x-dt-auth-token", "jwt"), body: "spc=%2B%2F%2F%2BAQ%3D%3D&assetId=a",
            answer: "<ckc>AAAAAf/+</ckc>"),
        LicenseServiceCase(
            LicenseService(.irdeto, url: "https://irdeto.example/licenseServer/streaming/v1/acc/getckc?ls_session=t"),
            "skd://x?contentId=c%2F1&keyId=k-1", id: "c/1",
            url: "https://irdeto.example/licenseServer/streaming/v1/acc/getckc?ls_session=t&contentId=c%2F1&keyId=k-1",
            headers: octets),
        LicenseServiceCase(
            LicenseService(
                .nagra, url: "https://nagra.example/fps",
                headers: field("nv-authorizations", "t1") + field("nv-tenant-id", "T")),
            "skd://Y29udGVudC8x?x=y", id: "content/1", url: "https://nagra.example/fps",
            headers: octets.with("nv-authorizations", "t1").with("nv-tenant-id", "T"),
            answer: #"{"SessionKey":{},"CkcMessage":"AAAAAf/+"}"#),
        LicenseServiceCase(
            LicenseService(.nagra, url: "https://nagra.example/fps", headers: field("nv-authorizations", "t1")),
            "skd://Y29udGVudC8x?x=y", id: "content/1", url: "https://nagra.example/fps",
            headers: octets.with("nv-authorizations", "t1"), answer: #"{"CkcMessage":"AAAAAf/+"}"#),
        LicenseServiceCase(
            LicenseService(
                .vuDRM, url: "https://fairplay-license.vudrm.example/license", parameters: ["token": "v|t\""]),
            "skd://fairplay-license.vudrm.example/license/content-3", id: "content-3",
            url: "https://fairplay-license.vudrm.example/license", headers: json.with("x-vudrm-token", "v|t\""),
            body: #"{"token":"v|t\"","contentId":"content-3","payload":"+//+AQ=="}"#),
        LicenseServiceCase(
            LicenseService(
                .vuDRM, url: "https://fairplay-license.vudrm.example/license", headers: field("x-vudrm-token", "v|t")),
            "skd://fairplay-license.vudrm.example/license/content-3", id: "content-3",
            url: "https://fairplay-license.vudrm.example/license", headers: json.with("x-vudrm-token", "v|t"),
            body: #"{"contentId":"content-3","payload":"+//+AQ=="}"#),
        LicenseServiceCase(
            LicenseService(.uplynk), "skd://content.uplynk.example/fp/ck?a=1&b=2",
            id: "content.uplynk.example/fp/ck?a=1&b=2", url: "https://content.uplynk.example/fp/ck?a=1&b=2",
            headers: json, body: #"{"spc":"+//+AQ=="}"#, answer: #" {"ckc" : "AAAAAf/+"} "#),
        LicenseServiceCase(
            LicenseService(
                .comcast, url: "https://widevine.entitlement.example/wv/web/FairPlay?schema=1.0",
                parameters: ["releasePid": "Pid7", "token": "t/1", "account": "http://access/2"]),
            "skd://FairPlay", id: "skd://Pid7",
            url: "https://widevine.entitlement.example/wv/web/FairPlay?schema=1.0&token=t%2F1"
                + "&account=http%3A%2F%2Faccess%2F2&form=json",
            headers: json, body: #"{"getFairplayLicense":{"releasePid":"Pid7","spcMessage":"+//+AQ=="}}"#,
            answer: #"{"getFairplayLicenseResponse":{"ckcResponse":"AAAAAf/+"}}"#),
        LicenseServiceCase(
            LicenseService(
                .comcast, url: "https://fairplay.entitlement.example/fpls/web/FairPlay?schema=1.0",
                headers: field("Authorization", "Basic OnRva2Vu"), parameters: ["releasePid": "Pid7"]),
            "skd://FairPlay", id: "skd://Pid7",
            url: "https://fairplay.entitlement.example/fpls/web/FairPlay?schema=1.0&form=json",
            headers: json.with("Authorization", "Basic OnRva2Vu"),
            body: #"{"getFairplayLicense":{"releasePid":"Pid7","spcMessage":"+//+AQ=="}}"#,
            answer: #"{"getFairplayLicenseResponse":{"ckcResponse":"AAAAAf/+"}}"#),
        LicenseServiceCase(
            LicenseService(.standard, url: "https://keys.example/{content-id}/{site}", parameters: ["site": "a/b"]),
            "skd:https://entitlement.example/sees?cid=movie%2F1", id: "movie/1",
            url: "https://keys.example/movie%2F1/a%2Fb", headers: octets),
    ]
}
