// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyProtection

extension KeyError {
    /// A failed exchange with a licence service. The text names the URL, without its query.
    init(_ error: HTTPError) {
        let text = error.description
        self =
            if error.isSameKind(as: .cancelled("")) {
                .cancelled(text)
            } else if error.isSameKind(as: .timedOut("")) {
                .timedOut(text)
            } else if error.isSameKind(as: .tooLarge("")) {
                .malformedResponse(text)
            } else if error.isSameKind(as: .localAddress("")) {
                .denied(text)
            } else if error.isSameKind(as: .invalidURL("")) || error.isSameKind(as: .invalidRequest("")) {
                .invalidConfiguration(text)
            } else {
                .network(text)
            }
    }
}
