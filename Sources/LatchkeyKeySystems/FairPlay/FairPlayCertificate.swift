// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import LatchkeyContainers
import LatchkeyProtection

/// An application certificate as services and people hand it out: DER, PEM, or either in Base64.
public struct FairPlayCertificate: Sendable, Hashable {
    /// What `FairPlayExchange` takes.
    public let der: [UInt8]
    /// The last second of its validity, since 1970-01-01 00:00 UTC.
    public let notAfter: Int64

    /// The most bytes that are read.
    public static let maximumSize = 128 * 1024

    /// How the common name begins in a certificate of a test authority.
    package static let testAuthorityName = "Latchkey test authority"

    /// Throws `noCertificate` for no bytes, and `invalidCertificate` where the bytes are none, or its key is not one
    /// that SPCs are made for. The dates are not compared with any clock: key servers know certificates by their hash.
    public init(reading bytes: [UInt8]) throws(FairPlayError) {
        guard !bytes.isEmpty else { throw .noCertificate("the file or the answer is empty") }
        guard bytes.count <= Self.maximumSize else {
            throw .invalidCertificate("\(bytes.count) bytes are too many; \(Self.maximumSize) are read")
        }
        let forms = [bytes, Self.pem(bytes), Self.base64(bytes[...])]
        for case let der? in forms {
            guard let certificate = X509Certificate(der: der), let notAfter = Self.notAfter(der) else { continue }
            guard [1024, 2048].contains(certificate.publicKey.bits) else {
                throw .invalidCertificate(
                    "an RSA key of \(certificate.publicKey.bits) bits; 1024 and 2048 are possible")
            }
            self.der = der
            self.notAfter = notAfter
            return
        }
        throw .invalidCertificate("the bytes are no X.509 certificate with an RSA key in DER, PEM or Base64")
    }

    /// What stands between the first pair of PEM lines (RFC 7468).
    private static func pem(_ bytes: [UInt8]) -> [UInt8]? {
        let lines = bytes.split { $0 == 0x0A || $0 == 0x0D }
        guard let start = lines.firstIndex(where: { $0.starts(with: "-----BEGIN CERTIFICATE-----".utf8) }) else {
            return nil
        }
        let body = lines[(start + 1)...].prefix { !$0.starts(with: "-----".utf8) }
        return base64(Array(body.joined())[...])
    }

    private static func base64(_ bytes: ArraySlice<UInt8>) -> [UInt8]? {
        let text = bytes.filter { $0 != 0x20 && !(0x09...0x0D ~= $0) }
        guard let decoded = String(validating: text, as: UTF8.self).flatMap({ Base64.decode($0) }) else { return nil }
        return pem(decoded) ?? decoded
    }

    private static func notAfter(_ der: [UInt8]) -> Int64? {
        der.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            // SAFETY: OpenSSL reads at most `count` bytes from `position`; what it makes is freed here.
            guard let certificate = d2i_X509(nil, &position, bytes.count) else { return nil }
            defer { X509_free(certificate) }
            guard let epoch = ASN1_TIME_set(nil, 0) else { return nil }
            defer { ASN1_TIME_free(epoch) }
            var days: Int32 = 0
            var seconds: Int32 = 0
            guard ASN1_TIME_diff(&days, &seconds, epoch, X509_get0_notAfter(certificate)) == 1 else { return nil }
            return Int64(days) * 86_400 + Int64(seconds)
        }
    }
}
