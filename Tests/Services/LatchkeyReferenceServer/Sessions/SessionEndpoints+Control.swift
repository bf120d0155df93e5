// SPDX-License-Identifier: MPL-2.0

import HTTPTypes
import Hummingbird
import NIOCore
import Synchronization

extension SessionEndpoints {
    /// `POST /session-end?session=ID` or `?account=ID`: what an administrator does.
    @Sendable func administer(_ request: Request, context: ServerContext) -> Response {
        let query = request.uri.queryParameters
        let now = now()
        let ended = book.withLock { book in
            let chosen = book.live(at: now).filter { session in
                query["session"].map { $0 == session.id } ?? query["account"].map { $0 == session.account } ?? false
            }
            return chosen.count { session in
                do throws(SessionBook.Refusal) {
                    try book.end(session.id, .administrator, now: now)
                    return true
                } catch {
                    return false
                }
            }
        }
        return .json(["ended": ended])
    }

    /// `GET /session-metrics`: counters, in the text format of Prometheus.
    @Sendable func metrics(_ request: Request, context: ServerContext) -> Response {
        let now = now()
        let (active, counters) = book.withLock { ($0.live(at: now), $0.counters) }
        var lines = [
            "latchkey_sessions_active \(active.count)",
            "latchkey_session_accounts_active \(Set(active.map(\.account)).count)",
            "latchkey_session_setups_total \(counters.setups)",
            "latchkey_session_setups_refused_total \(counters.refusals)",
            "latchkey_session_heartbeats_total \(counters.beats)",
            "latchkey_session_heartbeats_late_total \(counters.lateBeats)",
            "latchkey_session_heartbeats_refused_total \(counters.refusedBeats)",
        ]
        for (end, label) in [
            (SessionBook.End.teardown, "teardown"), (.expired, "expired"), (.terminated, "terminated"),
            (.administrator, "administrator"),
        ] {
            lines.append("latchkey_sessions_ended_total{reason=\"\(label)\"} \(counters.ends[end] ?? 0)")
        }
        return Response(
            status: .ok, headers: [.contentType: "text/plain; version=0.0.4"],
            body: ResponseBody(byteBuffer: ByteBuffer(string: lines.joined(separator: "\n") + "\n")))
    }
}
