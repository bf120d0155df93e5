// SPDX-License-Identifier: MPL-2.0

import CLatchkeyCurl
import Glibc

/// Runs `body`, in which threads are started that take no signals: those are the application's business, and a write to
/// a closed connection must not raise SIGPIPE. Faults stay with who causes them.
package func withSignalsBlocked<Result>(_ body: () -> Result) -> Result {
    // A thread inherits the mask of the one that starts it.
    var mask = sigset_t()
    var previous = sigset_t()
    sigfillset(&mask)
    for fault in [SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS] { sigdelset(&mask, fault) }
    pthread_sigmask(SIG_BLOCK, &mask, &previous)
    defer { pthread_sigmask(SIG_SETMASK, &previous, nil) }
    return body()
}
