// SPDX-License-Identifier: MPL-2.0

extension SessionAdapter {
    /// Every adapter that is shipped.
    public static let shipped = [latchkey, terminate]

    /// Latchkey's own shape, which its reference server speaks. See `docs/sessions.md`.
    ///
    /// The codes are those that are public of a widespread session service.
    public static let latchkey = SessionAdapter(
        name: "latchkey",
        setup: Exchange(
            "POST", "/sessions", headers: ["Authorization": "Bearer {credential}"],
            fields: [
                "sessionId": "{session}", "accountId": "{account}", "deviceId": "{device}",
                "deviceGroup": "{device-group}", "contentId": "{content}", "terminate": "{termination}",
            ]),
        heartbeat: Exchange(
            "POST", "/sessions/{session}/heartbeat", headers: ["Authorization": "Bearer {credential}"],
            fields: ["token": "{token}"]),
        teardown: Exchange(
            "DELETE", "/sessions/{session}", headers: ["Authorization": "Bearer {credential}"]),
        answer: Answer(
            token: "token", interval: "heartbeatInterval", missedBeats: "missedHeartbeats", code: "errorCode",
            message: "message", conflicts: "conflicts", conflictReference: "sessionId", conflictLabel: "deviceId",
            conflictTermination: "terminationCode"),
        rules: latchkeyRules,
        errorsAreJSON: true, knowsClientSession: true)

    private static let latchkeyRules: [Rule] = {
        var rules = [Rule(.ended, request: .beat, code: "1007"), Rule(.limit, code: "1007")]
        for code in ["4000", "4001"] { rules.append(Rule(.retry, code: code)) }
        for code in ["1003", "1004", "1006"] { rules.append(Rule(.credential, code: code)) }
        for code in ["1000", "1001", "1005", "1008", "1009", "1011", "1012", "1013", "1017", "1018", "3001", "3004"] {
            rules.append(Rule(.refused, code: code))
        }
        return rules
    }()

    /// Services that answer a setup with a place to send heartbeats to, name conflicting sessions with 409, end them for a
    /// client that sends their code along, and tell an ended one with 410: the shape of Adobe's public Concurrency
    /// Monitoring API, version 2.
    public static let terminate = SessionAdapter(
        name: "terminate",
        setup: Exchange(
            "POST", "/sessions/{provider}/{account}",
            headers: ["Authorization": "Basic {credential}", "X-Terminate": "{termination}"],
            fields: ["deviceId": "{device}", "contentId": "{content}"]),
        heartbeat: Exchange("POST", "{reference}", headers: ["Authorization": "Basic {credential}"]),
        teardown: Exchange("DELETE", "{reference}", headers: ["Authorization": "Basic {credential}"]),
        answer: Answer(
            reference: "header:Location", expiresHeader: true, code: "code", message: "message",
            conflicts: "conflicts", conflictReference: "sessionId", conflictLabel: "attributes.deviceId",
            conflictTermination: "terminationCode"),
        rules: [Rule(.limit, request: .setup, status: 409), Rule(.ended, status: 409)],
        errorsAreJSON: false, knowsClientSession: false)
}
