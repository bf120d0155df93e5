// SPDX-License-Identifier: MPL-2.0

import CLatchkeyCurl

/// Whether requests can be sent on this machine.
package enum HTTPSupport {
    /// Why they cannot. Loads what they need.
    package static var failure: HTTPError? {
        do throws(HTTPError) {
            _ = try CurlLibrary.shared(for: "")
            return nil
        } catch {
            return error
        }
    }
}

/// libcurl's functions. The library is loaded when something needs the first of them, and stays: it and the libraries that it
/// brings take 4 MiB, and a player of files sends nothing. Thread-safe, as far as the functions are.
struct CurlLibrary: @unchecked Sendable {
    /// Why there is none. No `HTTPError`: the text of one with a URL needs the library.
    struct LoadFailure: Error {
        let reason: String
    }

    // SAFETY: filled before any other code reads it, never changed and never freed. No function is missing in it.
    let functions: UnsafePointer<latchkey_curl>

    /// The one of this process; loaded with the first call. `url` is what it is needed for, for the error.
    static func shared(for url: String) throws(HTTPError) -> CurlLibrary {
        do throws(LoadFailure) {
            return try loaded.get()
        } catch {
            throw .other(url, error.reason)
        }
    }

    /// The same; nil where there is none.
    static var present: CurlLibrary? { try? loaded.get() }

    /// Whether libcurl is initialized: once for the process, and never undone, as other code in it may use libcurl,
    /// too.
    var isReady: Bool { Self.initialized }

    /// Whether it brings the list of domains of several owners.
    var hasPublicSuffixes: Bool { functions.pointee.psl_builtin?() != nil }

    private static let initialized = ExitGate.pass {
        present.map { $0.functions.pointee.global_init(Int(CURL_GLOBAL_DEFAULT)) == CURLE_OK } ?? false
    }
    private static let loaded = ExitGate.pass {
        Result { () throws(LoadFailure) in try CurlLibrary(file: "libcurl.so.4") }
    }

    /// Throws where there is no such library, or it lacks a function.
    init(file: String) throws(LoadFailure) {
        let functions = UnsafeMutablePointer<latchkey_curl>.allocate(capacity: 1)
        functions.initialize(to: latchkey_curl())
        var isLoaded: Int32 = 0
        if let reason = latchkey_curl_load(functions, file, &isLoaded).map({ String(cString: $0) }) {
            functions.deallocate()
            throw LoadFailure(
                reason: isLoaded != 0
                    ? "\(file) has no \(reason): libcurl 7.68 or later is needed"
                    : "libcurl cannot be loaded (\(reason)): install it, on Debian the package libcurl4")
        }
        self.functions = UnsafePointer(functions)
    }
}
