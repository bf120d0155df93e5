// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import Synchronization

/// Application certificates that were loaded from URLs, for the sessions that come later: the next playback then takes one
/// round trip less. Thread-safe.
final class LoadedCertificates: Sendable {
    /// Those of the process.
    static let shared = LoadedCertificates()
    /// How long one is taken for the server's, in seconds.
    static let lifetime: Int64 = 3600
    /// A process knows few services.
    static let limit = 32

    private struct Entry {
        let certificate: FairPlayCertificate
        let date: Int64
    }

    private let entries = Mutex<[ApplicationCertificate.Source: Entry]>([:])

    /// The certificate that was loaded from there; nil where that is too long ago. `date` in seconds since 1970.
    func certificate(of source: ApplicationCertificate.Source, at date: Int64) -> FairPlayCertificate? {
        entries.withLock { entries in
            guard let entry = entries[source], entry.date <= date, date - entry.date < Self.lifetime else { return nil }
            return entry.certificate
        }
    }

    /// Only a URL costs a round trip: what other sources have is read again each time.
    func keep(_ certificate: FairPlayCertificate, of source: ApplicationCertificate.Source, at date: Int64) {
        guard case .url = source else { return }
        entries.withLock { entries in
            if entries.count >= Self.limit, entries[source] == nil {
                entries = [:]
            }
            entries[source] = Entry(certificate: certificate, date: date)
        }
    }
}
