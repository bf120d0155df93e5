// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyProtection

/// Which license URLs that media names are asked. URLs in the settings are asked always.
public enum MediaLicenseURLs: String, Sendable, Hashable, CaseIterable {
    /// Those of https and those of the media's own origin (scheme, host and port). A loopback, link-local or private address
    /// is asked in the second case only. A file on disk has no origin.
    case https
    /// All.
    case any
    /// None.
    case none

    /// Prepares a request whose URL the media names. `mediaURL` is where the media came from; nil if that is not known.
    ///
    /// Throws `denied`, which stands for the whole playback, with the URL and what to do if it must not be sent. A redirect or
    /// a look-up that leads to an address that is not allowed fails when it is sent.
    func check(_ request: inout HTTPRequest, mediaURL: String?) throws(KeyError) {
        switch self {
        case .any: return
        case .none: throw Self.refusal(request, .media, "media-license-urls=none allows no URL that media names")
        case .https: try Self.check(&request, .media, at: mediaURL)
        }
    }

    /// The same for a URL that a license service names: `serviceURL` is the URL of that service. `forbidsLocalAddresses`: as it
    /// was for the service, whose name may have another address by now.
    func check(
        _ request: inout HTTPRequest, serviceURL: String, forbidsLocalAddresses: Bool
    ) throws(KeyError) {
        guard self != .any else { return }
        try Self.check(&request, .service, at: serviceURL)
        if forbidsLocalAddresses { request.forbidsLocalAddresses = true }
    }

    /// What names a URL, in words, and where the URL can be named instead.
    private enum Namer: String {
        case media = "the media"
        case service = "the license service"

        var settings: String { self == .media ? "license-url" : "license-url or domain-url" }
    }

    private static func check(_ request: inout HTTPRequest, _ namer: Namer, at place: String?) throws(KeyError) {
        let origin = request.origin
        if let place, !origin.isEmpty, HTTPRequest(url: place).origin == origin {
            request.staysWithinOrigin = true
            return
        }
        guard request.url.lowercased().hasPrefix("https:") else {
            throw refusal(request, namer, "it is neither https nor of the origin of \(namer.rawValue)")
        }
        request.forbidsLocalAddresses = true
    }

    private static func refusal(_ request: HTTPRequest, _ namer: Namer, _ reason: String) -> KeyError {
        .denied(
            "the URL \(request.printableURL) that \(namer.rawValue) names is not asked: \(reason); set "
                + "\(namer.settings), or media-license-urls=any in [latchkey]")
    }
}
