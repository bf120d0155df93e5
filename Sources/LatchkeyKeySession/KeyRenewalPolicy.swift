// SPDX-License-Identifier: MPL-2.0

/// When leases are renewed.
public struct KeyRenewalPolicy: Sendable, Hashable {
    /// The part of a lease after which the renewal is asked for, 0 to 1.
    public var fraction: Double
    /// The part of a lease by which that moment is earlier at random, so that players who started together do not
    /// all ask at once.
    public var jitter: Double
    /// The least time between a renewal that failed and the next one. The next comes when half of what is left of the
    /// lease is over.
    public var retryInterval: Duration

    /// Parts are brought into 0 to 1, and the interval to 10 ms at least, so that no value makes a loop without a
    /// pause.
    public init(fraction: Double = 0.8, jitter: Double = 0.05, retryInterval: Duration = .seconds(1)) {
        self.fraction = min(max(fraction, 0), 1)
        self.jitter = min(max(jitter, 0), 1)
        self.retryInterval = max(retryInterval, .milliseconds(10))
    }

    /// The time from a lease's start to its renewal. `random` is 0 to 1.
    func renewal(of lease: Duration, random: Double) -> Duration {
        lease * max(0, fraction - jitter * min(max(random, 0), 1))
    }

    /// The time from a failure to the next attempt; nil where too little of the lease is left.
    func retry(left: Duration) -> Duration? {
        let half = left / 2
        return half < retryInterval ? nil : half
    }
}
