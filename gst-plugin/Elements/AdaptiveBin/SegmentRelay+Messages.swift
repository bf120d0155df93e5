// SPDX-License-Identifier: MPL-2.0

import ElementKit
import HTTP

extension SegmentRelay.Notice {
    /// The name of the message; its field `outcome` says what happened.
    static let messageName = "latchkey-fetch"

    /// What is lost is an error, no message. URLs go without their queries, where tokens are.
    func post(on element: ElementReference) {
        var fields: [(String, FieldValue)]
        switch self {
        case .done(let url, let status, let size, let time):
            fields = Self.fields("done", url, status)
            fields += [("size", .uint64(UInt64(clamping: size))), ("time", .uint64(time))]
        case .serverError(let url, let status): fields = Self.fields("server-error", url, status)
        case .webPage(let url): fields = Self.fields("web-page", url, 200)
        case .noNetwork(let failure):
            fields = [("outcome", .string("no-network")), ("reason", .string(failure.text))]
        case .lost: return
        }
        element.post(Self.messageName, fields)
    }

    private static func fields(_ outcome: String, _ url: String, _ status: Int) -> [(String, FieldValue)] {
        [
            ("outcome", .string(outcome)), ("url", .string(HTTPRequest(url: url).printableURL)),
            ("http-status", .uint(UInt32(clamping: status))),
        ]
    }
}
