// SPDX-License-Identifier: MPL-2.0

package import LatchkeyHTTP
import LatchkeyKeySystems
public import LatchkeyProtection

/// What a caller needs from a session: keys, and what is known about where to get them.
public struct KeyDemand: Sendable {
    /// Empty: media without a KID.
    public var keyIDs: [KeyID]
    /// Whose exchange the request uses. Nil where the media named no system that has one.
    public var keySystem: KeySystem?
    /// What the media says about the keys; empty where it says nothing.
    public var initializationData: [InitializationData]
    /// A license URL that the media names. Not trusted.
    public var suggestedURL: String?
    /// Further ones, which are asked in order if nothing is to be had at those before. Not trusted.
    package var otherURLs: [String] = []
    /// Where the media that says so came from: the URL of a manifest or a file. Nil: not known.
    public var mediaURL: String?
    /// Those of the presentation that the keys are for; nil: none.
    package var cookies: CookieStore?
    /// Asked before the session's own, in order.
    public var loaders: [any ResourceLoader]
    /// Keys that failed in this generation or an earlier one are asked for again. Read `KeySession.generation` when
    /// the media starts and pass that on: then old failures are retried, and new ones are not retried for ever.
    /// Zero retries nothing.
    public var retryFailuresUpTo: UInt64
    /// The same for refusals (`KeyError.isRefusal`); nil: as for other failures.
    package var retryRefusalsUpTo: UInt64?
    /// The id of the observation (`KeyObservation.id`) that belongs to the caller. Zero: none.
    public var origin: UInt64

    /// With KIDs alone, the session's own loaders are asked, and old failures stand.
    public init(
        keyIDs: [KeyID], keySystem: KeySystem? = nil, initializationData: [InitializationData] = [],
        suggestedURL: String? = nil, mediaURL: String? = nil, loaders: [any ResourceLoader] = [],
        retryFailuresUpTo: UInt64 = 0, origin: UInt64 = 0
    ) {
        self.keyIDs = keyIDs
        self.keySystem = keySystem
        self.initializationData = initializationData
        self.suggestedURL = suggestedURL
        self.mediaURL = mediaURL
        self.loaders = loaders
        self.retryFailuresUpTo = retryFailuresUpTo
        self.origin = origin
    }
}

extension KeyDemand: Redacted {
    /// Without the URL's query, where services put tokens.
    public var description: String {
        let names = keyIDs.isEmpty ? "media without a KID" : "KID \(keyIDs.map(\.description).joined(separator: ", "))"
        return "demand for \(names)"
            + (suggestedURL.map { ", license URL \(HTTPRequest(url: $0).printableURL)" } ?? "")
    }
}
