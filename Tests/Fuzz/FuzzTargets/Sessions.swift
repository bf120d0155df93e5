// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyProtection
import LatchkeyViewingSession

extension FuzzTarget {
    static let sessions: [FuzzTarget] = [
        /// The first two bytes choose adapter, request and status; then come header lines, an empty line and the body.
        FuzzTarget("session-answer") { bytes in
            guard bytes.count >= 2 else { return }
            let kinds: [SessionState.Request.Kind] = [.setup, .beat, .teardown]
            let adapter = SessionAdapter.shipped[Int(bytes[0] & 1)]
            let kind = kinds[Int(bytes[0] >> 1) % 3]
            let status = [200, 201, 202, 204, 400, 401, 403, 404, 409, 410, 429, 500, 502, 503][Int(bytes[1]) % 14]
            var rest = bytes.dropFirst(2)
            let headers = fields(&rest)
            let service = SessionService(adapter, url: "https://sessions.example/api")
            let reply = service.reply(
                to: kind,
                HTTPResponse(status: status, headers: headers, body: Array(rest.dropFirst()), url: service.url))
            switch reply {
            case .granted: promise((200...299).contains(status), "only a success grants")
            case .failed(let failure):
                promise(
                    failure.message.unicodeScalars.count <= 512 && failure.conflicts.count <= 32, "answers are bounded")
                promise((0...86_400_000).contains(failure.retryAfter ?? 0), "a day is the longest wait")
            }
            var state = SessionState()
            var random = SystemRandomNumberGenerator()
            let action = state.handle(.start, at: 0, random: &random)
            guard let request = action.send else { return promise(false, "a start sends a setup") }
            _ = state.handle(.reply(to: request, reply), at: 100, random: &random)
            promise(!state.isOpen || state.interval >= 5_000, "no heartbeat is quicker than 5 s")
        },
        FuzzTarget("session-adapter") { bytes in
            guard let adapter = try? SessionAdapter(json: bytes, name: "fuzz") else { return }
            promise((try? SessionAdapter(json: adapter.json, name: "fuzz")) == adapter)
        },
    ]
}
