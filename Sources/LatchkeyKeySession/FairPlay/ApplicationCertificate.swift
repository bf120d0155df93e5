// SPDX-License-Identifier: MPL-2.0

public import LatchkeyHTTP
import LatchkeyKeySystems
public import LatchkeyProtection
import Synchronization

/// The application certificate, from wherever it comes: loaded once, and again when it is out of date or a key server
/// refuses it.
///
/// However many ask at once, it is loaded once. Thread-safe. A certificate that is out of date is still handed out where
/// no other can be had: key servers know certificates by their hash and decide by themselves.
public final class ApplicationCertificate: Sendable {
    /// Where the certificate comes from.
    public enum Source: Sendable, Hashable {
        /// DER, PEM or Base64.
        case data([UInt8])
        /// A file with one of these.
        case file(String)
        /// A server that answers with one of these. The headers go there and to no other server.
        case url(String, headers: [HTTPHeader] = [])
    }

    /// Where the certificate comes from.
    public let source: Source
    private let transport: any HTTPTransport
    private let date: @Sendable () -> Int64
    private let loaded: LoadedCertificates?
    private let state = Mutex(State())

    private typealias Loading = Task<Result<FairPlayCertificate, KeyError>, Never>

    private struct State {
        var certificate: FairPlayCertificate?
        var loading: Loading?
    }

    /// Loads nothing yet; the first use does. `transport` is used for a URL alone.
    public convenience init(_ source: Source, transport: any HTTPTransport = CurlTransport.shared) {
        self.init(source, transport: transport, loaded: nil)
    }

    /// `date` gives the seconds since 1970-01-01 00:00 UTC. `loaded` may have the certificate already.
    init(
        _ source: Source, transport: any HTTPTransport,
        date: @escaping @Sendable () -> Int64 = KeySessionClock.system.date, loaded: LoadedCertificates? = nil
    ) {
        self.source = source
        self.transport = transport
        self.date = date
        self.loaded = loaded
        guard let certificate = loaded?.certificate(of: source, at: date()) else { return }
        state.withLock { $0.certificate = certificate }
    }

    /// The certificate in DER.
    ///
    /// Throws `invalidConfiguration` where the file, or what the server sends, is no certificate; `network`,
    /// `serverStatus` or `timedOut` where the server cannot be asked.
    public func der() async throws(KeyError) -> [UInt8] {
        let known = state.withLock(\.certificate)
        if let known, known.notAfter >= date() { return known.der }
        do throws(KeyError) {
            return try await load(replacing: known)
        } catch {
            if let known { return known.der }
            throw error
        }
    }

    /// The certificate after a key server refused `refused`: loaded anew, unless another task did so already. Nil if it
    /// is still the same: a repeated request is of no use then. Throws as `der()` does.
    public func der(insteadOf refused: [UInt8]) async throws(KeyError) -> [UInt8]? {
        if case .data = source { return nil }
        let known = state.withLock(\.certificate)
        if let known, known.der != refused { return known.der }
        let der = try await load(replacing: known)
        return der == refused ? nil : der
    }

    private func load(replacing known: FairPlayCertificate?) async throws(KeyError) -> [UInt8] {
        let loading = state.withLock { state -> Loading? in
            // Another has loaded it since the caller looked.
            if state.certificate != known { return nil }
            if let loading = state.loading { return loading }
            let loading = Loading { [self] in
                let result: Result<FairPlayCertificate, KeyError>
                do throws(KeyError) {
                    result = .success(try await read())
                } catch {
                    result = .failure(error)
                }
                self.state.withLock { state in
                    state.loading = nil
                    if case .success(let certificate) = result { state.certificate = certificate }
                }
                if case .success(let certificate) = result { loaded?.keep(certificate, of: source, at: date()) }
                return result
            }
            state.loading = loading
            return loading
        }
        if let loading { return try await loading.value.get().der }
        return try await der()
    }

    private func read() async throws(KeyError) -> FairPlayCertificate {
        let bytes: [UInt8]
        switch source {
        case .data(let data): bytes = data
        case .file(let path):
            bytes = try RegularFile(path: path, kind: "application certificate", has: .settings)
                .contents(limit: FairPlayCertificate.maximumSize)
        case .url(let url, let headers): bytes = try await fetch(url, headers)
        }
        do throws(FairPlayError) {
            return try ExitGate.pass { () throws(FairPlayError) in try FairPlayCertificate(reading: bytes) }
        } catch {
            throw .invalidConfiguration("\(name): \(error.description)")
        }
    }

    private func fetch(_ url: String, _ headers: [HTTPHeader]) async throws(KeyError) -> [UInt8] {
        var request = HTTPRequest(url: url, headers: headers)
        request.maximumResponseSize = FairPlayCertificate.maximumSize
        let response: HTTPResponse
        do throws(HTTPError) {
            response = try await transport.send(request)
        } catch {
            throw KeyError(error)
        }
        guard 200..<300 ~= response.status else {
            throw .serverStatus("the application certificate: \(response.refusal(of: request))")
        }
        return response.body
    }

    private var name: String {
        switch source {
        case .data: "the application certificate"
        case .file(let path): "the application certificate \(path)"
        case .url(let url, _): "the application certificate of \(HTTPRequest(url: url).printableURL)"
        }
    }
}

extension ApplicationCertificate: Redacted {
    /// Where the certificate comes from; a URL without its query.
    public var description: String { name }
    /// The same; the headers for the URL do not show in `dump`.
    public var shown: KeyValuePairs<String, Any> { ["source": name] }
}

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
