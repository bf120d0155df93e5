// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems

/// What a client does about the failures of one acquisition, as a value: failures in, steps out, no effects.
struct PlayReadyRecovery {
    enum Step: Equatable {
        /// Joins the domain of this fault, then asks again.
        case joinDomain(PlayReadyFault)
        /// Makes the device anew, then asks again.
        case individualize
        case askAgain(url: String)
        case askLater(Duration)
        case fail
    }

    /// How often a license is asked for after an internal error of the service.
    private static let maximumRetries = 2
    private static let maximumRedirects = 3
    private static let firstPause = Duration.seconds(1)

    private var hasJoined = false
    private var hasIndividualized = false
    private var retries = 0
    private var redirects = 0

    mutating func step(after error: PlayReadyError) -> Step {
        switch error.action {
        // A new membership takes the place of the old one. That is kept until then, because faults are not signed.
        case .joinDomain, .renewDomain, .leaveOrRejoinDomain:
            guard let fault = error.fault, !hasJoined else { return .fail }
            hasJoined = true
            return .joinDomain(fault)
        case .individualize:
            guard !hasIndividualized else { return .fail }
            hasIndividualized = true
            return .individualize
        case .redirect(let url):
            guard redirects < Self.maximumRedirects else { return .fail }
            redirects += 1
            return .askAgain(url: url)
        case .retryLater:
            guard error.fault != nil, retries < Self.maximumRetries else { return .fail }
            defer { retries += 1 }
            return .askLater(Self.firstPause * (1 << retries))
        case .stop, .askService, .acquireLicense, .setClock, .configure:
            return .fail
        }
    }
}
