// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL

/// An X.509 certificate with an RSA key.
package struct X509Certificate: Sendable {
    /// The most bytes of a certificate that are read.
    static let maximumSize = 64 * 1024

    package let der: [UInt8]
    package let publicKey: RSAKey
    /// Of the subject, in UTF-8; empty if it has none.
    private let commonName: [UInt8]

    /// Reads DER. Nil for other bytes, for bytes behind the certificate, and for a key that is not RSA. Neither the
    /// signature nor the dates are looked at: an application certificate is trusted because the application names it.
    package init?(der: [UInt8]) {
        guard !der.isEmpty, der.count <= Self.maximumSize else { return nil }
        let contents: (key: RSAKey, name: [UInt8])? = der.withUnsafeBufferPointer { bytes in
            var position = bytes.baseAddress
            // SAFETY: OpenSSL reads at most `count` bytes from `position`, and moves it behind what it has read.
            guard let certificate = d2i_X509(nil, &position, bytes.count) else { return nil }
            defer { X509_free(certificate) }
            guard let start = bytes.baseAddress, position == start + bytes.count,
                let handle = X509_get_pubkey(certificate)
            else { return nil }
            return RSAKey(taking: handle).map { ($0, Self.commonName(of: certificate)) }
        }
        guard let contents else {
            ERR_clear_error()
            return nil
        }
        self.der = der
        (publicKey, commonName) = contents
    }

    /// Whether the common name of its subject begins with `text`.
    func isNamed(_ text: String) -> Bool { commonName.starts(with: text.utf8) }

    private static func commonName(of certificate: OpaquePointer) -> [UInt8] {
        let subject = X509_get_subject_name(certificate)
        let index = X509_NAME_get_index_by_NID(subject, NID_commonName, -1)
        guard index >= 0 else { return [] }
        var text: UnsafeMutablePointer<UInt8>?
        let size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, index)))
        guard size > 0, let text else { return [] }
        defer { CRYPTO_free(text, nil, 0) }
        return Array(UnsafeBufferPointer(start: text, count: Int(size)))
    }
}
