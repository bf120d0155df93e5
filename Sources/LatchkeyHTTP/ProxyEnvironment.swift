// SPDX-License-Identifier: MPL-2.0

import Glibc

/// The variables in which libcurl looks for a proxy.
enum ProxyEnvironment {
    /// Whether requests of this scheme go through one.
    static func hasOne(for scheme: String) -> Bool {
        let own = scheme == "https" ? ["https_proxy", "HTTPS_PROXY"] : ["http_proxy"]
        return (own + ["all_proxy", "ALL_PROXY"]).contains { name in
            // SAFETY: a string that ends in NUL, or null.
            getenv(name).map { $0.pointee != 0 } ?? false
        }
    }
}
