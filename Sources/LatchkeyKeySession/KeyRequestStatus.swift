// SPDX-License-Identifier: MPL-2.0

/// Where a key request is, as AVFoundation's `AVContentKeyRequest.Status` has it.
public enum KeyRequestStatus: Sendable, Hashable, CaseIterable {
    /// It waits for an answer.
    case requestingResponse
    /// It was answered with keys that are usable.
    case receivedResponse
    /// Its keys were renewed since.
    case renewed
    /// Another request has taken its place (see `ResourceLoader.shouldRetry`).
    case retried
    /// It needs no answer any more: withdrawn, answered by somebody else, or the session is gone.
    case cancelled
    /// It was answered with an error, or with nothing that could be used.
    case failed
}

/// Why a request could be tried again, as AVFoundation's `AVContentKeyRequest.RetryReason` has it.
public enum KeyRetryReason: Sendable, Hashable, CaseIterable {
    /// The answer did not come in time.
    case timedOut
    /// The answer's lease, or its stored key, was over when it came.
    case receivedResponseWithExpiredLease
    /// The answer to a renewal brings no more time than the session has.
    case receivedObsoleteContentKey
}
