// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession

/// Use case 3: the key URI is the URL with the token already; only its scheme is another one. Nothing but a preset.
enum TokenURL {
    static func loader(certificate: ApplicationCertificate) -> FairPlayLoader {
        // A test bench speaks http on this machine. Without these two, the key URI's scheme becomes https, and no local
        // address is asked that only media names.
        var service = LicenseService(.expressPlay, keyURIScheme: "http")
        service.mediaLicenseURLs = .any
        service.contentIdentifier = .firstOf([.queryParameter("cid"), .afterScheme])
        return FairPlayLoader(service: service, certificate: certificate)
    }
}
