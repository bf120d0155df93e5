// SPDX-License-Identifier: MPL-2.0

import CLatchkeyCurl

extension HTTPError {
    /// What a result code of libcurl means here.
    ///
    /// `meaning` is libcurl's own text for the code, `detail` its text for what happened. `detail` is taken only for the
    /// kinds whose texts cannot hold the URL of a proxy, which may have a password in it.
    init(_ code: CURLcode, at url: String, meaning: String, detail: String) {
        let text = detail.isEmpty ? meaning : detail
        switch code {
        case CURLE_URL_MALFORMAT:
            self = .invalidURL(url, meaning)
        case CURLE_UNSUPPORTED_PROTOCOL, CURLE_WEIRD_SERVER_REPLY:
            // The scheme was checked before.
            self = .other(url, "the answer is not HTTP, or libcurl was built without TLS")
        case CURLE_COULDNT_RESOLVE_HOST:
            self = .unresolvedHost(url, "check the name of the host and the network")
        case CURLE_COULDNT_RESOLVE_PROXY:
            self = .unresolvedHost(url, "check the name of the proxy in the environment")
        case CURLE_COULDNT_CONNECT:
            self = .refused(url, "check that the server runs and that host and port are right")
        case CURLE_OPERATION_TIMEDOUT:
            self = .timedOut(url, text)
        case CURLE_PARTIAL_FILE, CURLE_GOT_NOTHING, CURLE_RECV_ERROR, CURLE_SEND_ERROR, CURLE_HTTP2,
            CURLE_HTTP2_STREAM:
            self = .truncated(url, text)
        case CURLE_SSL_CONNECT_ERROR, CURLE_SSL_SHUTDOWN_FAILED:
            self = .tls(url, text)
        case CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CERTPROBLEM, CURLE_SSL_CIPHER, CURLE_SSL_CACERT_BADFILE,
            CURLE_SSL_ISSUER_ERROR, CURLE_SSL_INVALIDCERTSTATUS, CURLE_SSL_CLIENTCERT,
            CURLE_SSL_ENGINE_NOTFOUND, CURLE_SSL_ENGINE_SETFAILED, CURLE_SSL_ENGINE_INITFAILED,
            CURLE_SSL_PINNEDPUBKEYNOTMATCH, CURLE_SSL_CRL_BADFILE, CURLE_USE_SSL_FAILED:
            self = .untrusted(url, text)
        default:
            self = .other(url, meaning)
        }
    }
}
