// SPDX-License-Identifier: MPL-2.0

public import LatchkeyHTTP

extension SessionService {
    private static let maximumMessageLength = 512
    private static let maximumConflicts = 32
    private static let maximumTokenSize = 16 * 1024

    /// What an answer means for the session. Never traps, whatever the server sends.
    public func reply(to kind: SessionState.Request.Kind, _ response: HTTPResponse) -> SessionState.Reply {
        guard response.body.count <= Self.maximumResponseSize else {
            return .failed(SessionFailure(.unknown, status: response.status, message: "an answer of more than 64 KiB"))
        }
        // The status comes first: a proxy's page of HTML is no reason to fail over its brackets.
        guard (200...299).contains(response.status) else { return .failed(failure(kind, response)) }
        if kind == .teardown { return .granted(SessionGrant()) }
        let json = SessionJSON(response.body)
        var grant = SessionGrant()
        if let place = adapter.answer.token {
            guard let token = text(at: place, json, response), !token.isEmpty,
                token.utf8.count <= Self.maximumTokenSize
            else {
                return .failed(
                    SessionFailure(
                        .unknown, status: response.status, message: "the answer has no token: \(Self.name(place))"))
            }
            grant.token = SessionToken(token)
        }
        if kind == .setup, let place = adapter.answer.reference {
            guard let reference = text(at: place, json, response), !reference.isEmpty,
                reference.utf8.count <= Self.maximumTokenSize
            else {
                return .failed(
                    SessionFailure(
                        .refused, status: response.status,
                        message: "the answer does not name the session: \(Self.name(place))"))
            }
            grant.reference = reference
        }
        grant.interval = milliseconds(json, response)
        if let place = adapter.answer.interval, let interval = grant.interval,
            !SessionPolicy.intervals.contains(interval)
        {
            grant.intervalPlace = Self.name(place)
        }
        if let place = adapter.answer.missedBeats, let number = value(at: place, json, response)?.number {
            grant.missedBeats = Self.whole(number)
        }
        if adapter.answer.expiresHeader, grant.interval == nil, let lease = lease(response) {
            grant.missedBeats = grant.missedBeats ?? 3
            grant.interval = lease / SessionState.clamp(grant.missedBeats ?? 3, SessionPolicy.missedBeatCounts)
        }
        return .granted(grant)
    }

    /// The same where there was no answer.
    public func reply(to kind: SessionState.Request.Kind, _ error: HTTPError) -> SessionState.Reply {
        let meaning: SessionFailure.Kind =
            if [.tls(""), .untrusted("")].contains(where: error.isSameKind) {
                .insecure
            } else if error.isSameKind(as: .invalidURL("")) || error.isSameKind(as: .invalidRequest("")) {
                .refused
            } else {
                .unknown
            }
        return .failed(SessionFailure(meaning, message: error.description))
    }

    // MARK: Errors

    private func failure(_ kind: SessionState.Request.Kind, _ response: HTTPResponse) -> SessionFailure {
        let json = SessionJSON(response.body)
        let code = adapter.answer.code.flatMap { text(at: $0, json, response) }.map { Self.printable($0, upTo: 32) }
        var failure = SessionFailure(meaning(of: response.status, code, isJSON: json != nil, for: kind))
        failure.status = response.status
        failure.code = code
        failure.message =
            adapter.answer.message.flatMap { text(at: $0, json, response) }
            .map { Self.printable($0, upTo: Self.maximumMessageLength) } ?? ""
        failure.retryAfter = retryAfter(response)
        if let place = adapter.answer.conflicts, case .array(let items)? = value(at: place, json, response) {
            failure.conflicts = items.prefix(Self.maximumConflicts).compactMap { conflict($0) }
        }
        return failure
    }

    private func meaning(
        of status: Int, _ code: String?, isJSON: Bool, for kind: SessionState.Request.Kind
    ) -> SessionFailure.Kind {
        if adapter.errorsAreJSON, !isJSON { return .unknown }
        let rule = adapter.rules.first { rule in
            (rule.request == nil || rule.request == kind) && (rule.status == nil || rule.status == status)
                && (rule.code == nil || rule.code == code)
        }
        if let rule { return rule.means.kind }
        switch status {
        case 408, 425, 429, 500...599: return .unknown
        case 401: return .credential
        case 404, 410: return kind == .setup ? .refused : .ended
        default: return .refused
        }
    }

    private func conflict(_ item: SessionJSON) -> SessionFailure.Conflict? {
        func text(_ place: String?) -> String? {
            place.flatMap { item.value(at: $0.split(separator: ".")[...])?.text }
        }
        let reference = text(adapter.answer.conflictReference)
        let termination = text(adapter.answer.conflictTermination)
        guard reference != nil || termination != nil else { return nil }
        return SessionFailure.Conflict(
            reference: Self.printable(reference ?? "", upTo: 256),
            label: Self.printable(text(adapter.answer.conflictLabel) ?? "", upTo: 256),
            terminationCode: termination.flatMap { $0.utf8.count <= Self.maximumTokenSize ? $0 : nil })
    }

    // MARK: Values

    /// A place in an answer, for errors.
    private static func name(_ place: String) -> String {
        place.hasPrefix("header:") ? "the header \(place.dropFirst(7))" : "the member \(place)"
    }

    private func value(at place: String, _ json: SessionJSON?, _ response: HTTPResponse) -> SessionJSON? {
        if place.hasPrefix("header:") { return response.header(String(place.dropFirst(7))).map { .string($0) } }
        return json?.value(at: place.split(separator: ".")[...])
    }

    private func text(at place: String, _ json: SessionJSON?, _ response: HTTPResponse) -> String? {
        value(at: place, json, response)?.text
    }

    private func milliseconds(_ json: SessionJSON?, _ response: HTTPResponse) -> Int64? {
        guard let place = adapter.answer.interval, let found = value(at: place, json, response) else { return nil }
        // What is there and is no number is an interval that makes no sense, and the session state says so.
        guard let number = found.number else { return 0 }
        return Self.whole(number * Double(adapter.answer.intervalUnit))
    }

    private static func whole(_ number: Double) -> Int64 {
        guard number.isFinite, abs(number) < 1e15 else { return number > 0 ? 1_000_000_000_000_000 : 0 }
        return Int64(number)
    }

    private func lease(_ response: HTTPResponse) -> Int64? {
        guard let expires = response.header("Expires").flatMap({ HTTPDate.seconds($0) }),
            let date = response.header("Date").flatMap({ HTTPDate.seconds($0) })
        else { return nil }
        return (expires - date) * 1000
    }

    private func retryAfter(_ response: HTTPResponse) -> Int64? {
        guard let text = response.header("Retry-After") else { return nil }
        let day: ClosedRange<Int64> = 0...86_400
        if let seconds = Int64(text) { return SessionState.clamp(seconds, day) * 1000 }
        guard let then = HTTPDate.seconds(text), let date = response.header("Date").flatMap({ HTTPDate.seconds($0) })
        else { return nil }
        return SessionState.clamp(then - date, day) * 1000
    }

    private static func printable(_ text: String, upTo length: Int) -> String {
        let scalars = text.unicodeScalars.prefix(length).map { scalar in
            scalar.properties.generalCategory == .control ? " " : scalar
        }
        return String(String.UnicodeScalarView(scalars))
    }
}
