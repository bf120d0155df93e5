// SPDX-License-Identifier: MPL-2.0

import CLatchkeyCurl
import Glibc

/// A libcurl multi handle: connections, look-ups and running transfers. Freed by hand, once.
struct MultiHandle: @unchecked Sendable {
    // SAFETY: `curl_multi_wakeup` may be called from any thread. All else happens on the thread of the loop.
    let pointer: UnsafeMutableRawPointer
    let curl: UnsafePointer<latchkey_curl>

    /// As many connections as are kept open while nobody uses them.
    private static let keptConnections = 16
    /// As many as are open at once, to one host and in all: a few hosts that do not answer leave room for others. Further
    /// requests wait, and their timeouts run.
    private static let maximumHostConnections = 64
    private static let maximumConnections = 256

    /// Nil where libcurl has no memory left.
    init?(_ library: CurlLibrary) {
        curl = library.functions
        guard library.isReady, let pointer = curl.pointee.multi_init() else { return nil }
        self.pointer = pointer
        guard latchkey_curl_multi_set_long(curl, pointer, CURLMOPT_MAXCONNECTS, Self.keptConnections) == CURLM_OK,
            latchkey_curl_multi_set_long(curl, pointer, CURLMOPT_MAX_HOST_CONNECTIONS, Self.maximumHostConnections)
                == CURLM_OK,
            latchkey_curl_multi_set_long(curl, pointer, CURLMOPT_MAX_TOTAL_CONNECTIONS, Self.maximumConnections)
                == CURLM_OK
        else {
            free()
            return nil
        }
    }

    func free() { _ = curl.pointee.multi_cleanup(pointer) }

    /// Ends the `wait` under way, or the next one.
    func wakeUp() { _ = curl.pointee.multi_wakeup(pointer) }

    /// Waits for sockets, for libcurl's own timeouts, or for `wakeUp`.
    func wait() {
        if curl.pointee.multi_poll(pointer, nil, 0, 3_600_000, nil) != CURLM_OK {
            // Out of memory or descriptors: without a pause, the thread would spin until there are some.
            usleep(10_000)
        }
    }
}
