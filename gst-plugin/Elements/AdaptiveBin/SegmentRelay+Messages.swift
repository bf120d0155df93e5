// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyHTTP

extension SegmentRelay.Notice {
    /// The name of the message; its field `outcome` says what happened.
    static let messageName = "latchkey-fetch"

    /// What is lost is an error, no message. URLs go without their queries, where tokens are.
    func post(on element: ElementReference) {
        if case .lost = self { return }
        element.post(Self.messageName, fields)
    }

    /// Those of the message. Empty for what is lost.
    var fields: [(String, FieldValue)] {
        switch self {
        case .done(let url, let status, let size, let time):
            Self.fields("done", url, status)
                + [("size", .uint64(UInt64(clamping: size))), ("time", .uint64(time))]
        case .serverError(let url, let status): Self.fields("server-error", url, status)
        case .webPage(let url): Self.fields("web-page", url, 200)
        case .noNetwork(let failure):
            [("outcome", .string("no-network")), ("reason", .string(failure.text))]
        case .lost: []
        }
    }

    private static func fields(_ outcome: String, _ url: String, _ status: Int) -> [(String, FieldValue)] {
        [
            ("outcome", .string(outcome)), ("url", .string(HTTPRequest(url: url).printableURL)),
            ("http-status", .uint(UInt32(clamping: status))),
        ]
    }
}
