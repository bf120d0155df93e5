// SPDX-License-Identifier: MPL-2.0

import CLatchkeyOpenSSL
import Glibc
import LatchkeyHTTP

/// A process may exit at any moment, with requests under way on our threads. OpenSSL would free its state under them, so
/// it is told to leave that to the kernel. Where the application has used OpenSSL before it loaded this library, that comes
/// too late; OpenSSL then cleans up after the function that is registered here.
private func prepareForExit() {
    _ = OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil)
    atexit {
        // In a process that was forked, the threads inside of the gate are gone.
        var threads = stat()
        if stat("/proc/self/task", &threads) == 0, threads.st_nlink == 3 { return }
        ExitGate.close()
    }
}

// What runs when the library is loaded. It must not use Swift's runtime.
@section(".init_array") @used private let atLoad: @convention(c) () -> Void = prepareForExit
