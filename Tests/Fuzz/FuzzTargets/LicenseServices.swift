// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyProtection

extension FuzzTarget {
    static let licenseServices: [FuzzTarget] = [
        // The first byte chooses the preset; the answer follows.
        FuzzTarget("license-response") { bytes in
            guard let service = service(bytes.first) else { return }
            let uri = KeyURI("skd://host/content?id=1")
            // Base64 of larger ones is more than is read.
            guard bytes.count <= LicenseResponse.maximumSize / 2,
                let context = try? service.ckc(in: Array(bytes.dropFirst()), for: uri)
            else { return }
            promise(!context.isEmpty, "an answer without a CKC is refused")
            promise(context.count < bytes.count, "a CKC takes bytes")
            let text = Base64.encode(context)
            promise(
                (try? service.ckc(in: Array("<ckc>\(text)</ckc>".utf8), for: uri)) == context,
                "what is found reads the same in <ckc>")
            promise(
                (try? service.ckc(in: Array("{\"ckc\":\"\(text)\"}".utf8), for: uri)) == context,
                "what is found reads the same in JSON")
        },
        // The first byte chooses the preset; the key URI, as a playlist has it, follows.
        FuzzTarget("license-request") { bytes in
            guard let service = service(bytes.first) else { return }
            let uri = KeyURI(String(decoding: bytes.dropFirst(), as: UTF8.self))
            promise(!uri.printable.utf8.contains { $0 < 0x20 }, "what is printed is one line")
            guard let identifier = try? service.contentIdentifier(of: uri) else { return }
            promise(!identifier.isEmpty, "a URI without an identifier is refused")
            let request = try? service.request(for: uri, contentIdentifier: identifier, spc: [1, 2, 3])
            guard let request else { return }
            promise(
                !request.url.utf8.contains { $0 <= 0x20 || $0 == 0x7F }, "a URL has no spaces and no control characters"
            )
            promise(
                !request.headers.contains { $0.value.utf8.contains { $0 == 0x0A || $0 == 0x0D } },
                "a header is one line")
        },
    ]

    private static func service(_ number: UInt8?) -> LicenseService? {
        guard let number else { return nil }
        let preset = LicenseServicePreset.all[Int(number) % LicenseServicePreset.all.count]
        let fields = preset.expected.compactMap { expected -> HTTPHeader? in
            guard case .header(let name)? = expected.first else { return nil }
            return HTTPHeader(name: name, value: "value")
        }
        let parameters = ["token": "a/b", "account": "c", "releasePid": "d", "siteId": "e"]
        return LicenseService(
            preset, url: preset.url.base == .configured ? "https://keys.example/{content-id}" : nil, headers: fields,
            parameters: parameters)
    }
}
