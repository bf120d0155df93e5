// SPDX-License-Identifier: MPL-2.0

/// Whether a chain of certificates goes back to a root and may do what it is used for.
package struct CertificateTrust {
    /// The P-256 key, x and y, that signed the last certificate of a chain.
    package let rootKey: [UInt8]
    /// SHA-256 of keys that are not to be trusted any more.
    package var revoked: Set<[UInt8]>

    package init(rootKey: [UInt8], revoked: Set<[UInt8]> = []) {
        self.rootKey = rootKey
        self.revoked = revoked
    }

    /// Checks a chain: that nothing of it is revoked; each signature, by the certificate above it; that this one may issue its kind; security levels
    /// and features that do not grow on the way down; digests of keys; and, where there is a trusted time, the dates.
    ///
    /// `now` is in seconds since 1970. Throws `certificateRevoked`, and `untrustedCertificate` with what is wrong.
    package func check(_ chain: BCertChain, now: UInt32? = nil) throws(PlayReadyError) {
        for (depth, certificate) in chain.certificates.enumerated() {
            let place = "certificate \(depth + 1) of \(chain.certificates.count)"
            let issuer = depth + 1 < chain.certificates.count ? chain.certificates[depth + 1] : nil
            try checkSignature(of: certificate, issuer: issuer, place)
            if let issuer { try check(certificate, below: issuer, place) }
            if let now, certificate.basic.expiry != BCert.Basic.noExpiry, now >= certificate.basic.expiry {
                throw .untrustedCertificate("\(place) has expired")
            }
            try checkDigest(of: certificate, place)
            try checkRevocation(of: certificate, place)
        }
    }

    private func checkRevocation(of certificate: BCert, _ place: String) throws(PlayReadyError) {
        guard !revoked.isEmpty else { return }
        let isRevoked = certificate.keys.contains { key in
            (try? Digest.sha256(key.publicKey)).map(revoked.contains) ?? true
        }
        guard !isRevoked else { throw .certificateRevoked("\(place)") }
    }

    private func checkSignature(of certificate: BCert, issuer: BCert?, _ place: String) throws(PlayReadyError) {
        let key = certificate.signature.issuerKey
        if let issuer {
            guard issuer.keys.contains(where: { $0.publicKey == key }) else {
                throw .untrustedCertificate("\(place) was not issued by the next one")
            }
        } else {
            guard key == rootKey else { throw .untrustedCertificate("\(place) was not issued by the provisioned root") }
        }
        guard P256.verify(certificate.signature.value, of: Array(certificate.signedBytes), by: key) else {
            throw .untrustedCertificate("\(place) has a signature that does not fit")
        }
    }

    private func check(_ certificate: BCert, below issuer: BCert, _ place: String) throws(PlayReadyError) {
        guard issuer.basic.kind == BCert.Kind.issuer.rawValue else {
            throw .untrustedCertificate("\(place) was issued by a certificate that is none of an issuer")
        }
        let issuerKeys = issuer.keys.filter { $0.publicKey == certificate.signature.issuerKey }
        let allowed = Set(issuerKeys.flatMap(\.usages))
        guard let kind = BCert.Kind(rawValue: certificate.basic.kind) else {
            throw .untrustedCertificate("\(place) is of a kind that is not known")
        }
        let mayIssue =
            kind == .issuer
            ? certificate.keys.allSatisfy { allowed.isSuperset(of: $0.usages) }
            : kind.issuerUsage.map { allowed.contains($0.rawValue) } ?? false
        guard mayIssue else { throw .untrustedCertificate("the issuer of \(place) may not issue its kind") }
        guard certificate.basic.securityLevel <= issuer.basic.securityLevel else {
            throw .untrustedCertificate("\(place) has a higher security level than its issuer")
        }
        // An issuer that names no features does not restrict them.
        guard issuer.features.isEmpty || Set(issuer.features).isSuperset(of: certificate.features) else {
            throw .untrustedCertificate("\(place) has features that its issuer has not")
        }
    }

    private func checkDigest(of certificate: BCert, _ place: String) throws(PlayReadyError) {
        guard let key = (certificate.key(for: .sign) ?? certificate.keys.first?.publicKey) else {
            throw .untrustedCertificate("\(place) has no key")
        }
        guard (try? Digest.sha256(key)) == certificate.basic.keyDigest else {
            throw .untrustedCertificate("\(place) has another key than it says")
        }
    }
}

extension BCert.Kind {
    /// What the issuer's key has to be allowed; nil for a kind that Latchkey does not rely on.
    fileprivate var issuerUsage: BCert.Usage? {
        switch self {
        case .pc, .device: .issuerDevice
        case .domain: .issuerDomain
        case .metering: .issuerMetering
        case .server, .service: .issuerServer
        case .licenseSigner: .issuerSignLicense
        case .secureTimeServer: .issuerSecureTime
        case .issuer, .revocationListSigner, .silverlight, .application, .keyFileSigner: nil
        }
    }
}
