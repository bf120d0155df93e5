// SPDX-License-Identifier: MPL-2.0

import LicenseControl

/// Use case 3: the key URI is the URL with the token already; only its scheme is another one. Nothing but a preset.
enum TokenURL {
    static func loader(certificate: ApplicationCertificate) -> FairPlayLoader {
        // A test bench speaks http; without this, the key URI's scheme becomes https.
        var service = LicenseService(.expressPlay, keyURIScheme: "http")
        service.contentIdentifier = .firstOf([.queryParameter("cid"), .afterScheme])
        return FairPlayLoader(service: service, certificate: certificate)
    }
}
