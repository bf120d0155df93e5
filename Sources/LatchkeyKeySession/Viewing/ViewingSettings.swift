// SPDX-License-Identifier: MPL-2.0

import Glibc
public import LatchkeyHTTP
public import LatchkeyProtection
public import LatchkeyViewingSession

/// What configuration can say about the session server. Prints without values of headers and parameters and without the
/// credential.
public struct ViewingSettings: Sendable, Hashable {
    /// The server, its adapter and the credential.
    public var service: SessionService
    /// Times and numbers of retries.
    public var policy: SessionPolicy
    /// Where license requests have the token.
    public var token: SessionTokenPlacement
    /// Whether the oldest session is ended where the server refuses another one and offers that.
    public var stopsOldest: Bool
    /// Whether downloaded content and files with stored keys play without a session.
    public var allowsOffline = true
    /// Where sessions are written down, so that the next start ends those that a crash left. Nil: nowhere.
    public var recordsFolder: String?

    /// The group of a configuration file.
    public static let group = ConfigurationGroup(
        "session",
        keys: [
            "server-url", "adapter", "credential", "credential-file", "token-form", "token-name", "at-limit", "records",
            "heartbeat", "interval", "missed-heartbeats", "pause-limit", "replace-ended", "end-before-sleep",
            "offline",
        ])
    /// The group of header fields for the session server; its keys are the names of the fields.
    public static let headersGroup = ConfigurationGroup("session-headers", keys: nil)
    /// The group of values for `{parameter}` in the adapter's templates.
    public static let parametersGroup = ConfigurationGroup("session-parameters", keys: nil)
    /// All groups of these settings.
    public static let groups = [group, headersGroup, parametersGroup]

    /// With the usual policy, the token in a header, and no records.
    public init(service: SessionService) {
        self.service = service
        policy = SessionPolicy()
        token = SessionTokenPlacement()
        stopsOldest = false
    }

    /// Reads that group, and the groups with headers and parameters. `resolve` makes paths absolute.
    ///
    /// Throws `invalidConfiguration` with the key and what is possible.
    public init(
        _ values: [String: String], headers: [HTTPHeader] = [], parameters: [String: String] = [:],
        environment: [String: String] = Self.processEnvironment, resolve: (String) -> String = { $0 }
    ) throws(KeyError) {
        try Self.group.check(values.keys.sorted())
        guard let url = values["server-url"], !url.isEmpty else {
            throw .invalidConfiguration("[session] has no server-url")
        }
        guard URIReference(url).isHTTP else {
            throw .invalidConfiguration("server-url=\(URIReference.printable(url)) is no http or https URL")
        }
        guard values["credential"] == nil || values["credential-file"] == nil else {
            throw .invalidConfiguration("credential and credential-file exclude each other")
        }
        service = SessionService(
            try Self.adapter(values["adapter"], resolve), url: url,
            credential: try values["credential-file"].map { path throws(KeyError) in
                try Self.credential(resolve(path))
            } ?? values["credential"],
            parameters: parameters, headers: headers)
        token = try Self.token(values["token-form"], values["token-name"])
        stopsOldest =
            try ConfigurationGroup.choice("at-limit", values, ["refuse": false, "stop-oldest": true]) ?? false
        policy = try Self.policy(values)
        allowsOffline =
            try ConfigurationGroup.choice("offline", values, ["allow": true, "require": false]) ?? true
        recordsFolder =
            switch values["records"] {
            case "none": nil
            case let folder?: resolve(folder)
            case nil: Self.stateFolder("sessions", environment)
            }
    }

    /// What a `KeySession` takes. Makes the folder of the records; throws `invalidConfiguration` where that fails.
    public func makeConfiguration() throws(KeyError) -> ViewingConfiguration {
        var session = ViewingSession.Configuration(service)
        let endsUnconfirmed = session.policy.endsUnconfirmed
        session.policy = policy
        session.policy.endsUnconfirmed = endsUnconfirmed
        session.stopsOldest = stopsOldest
        session.records = try recordsFolder.map { folder throws(KeyError) in try SessionRecords(folder: folder) }
        var configuration = ViewingConfiguration(session, token: token)
        configuration.allowsOffline = allowsOffline
        return configuration
    }

    private static func adapter(_ name: String?, _ resolve: (String) -> String) throws(KeyError) -> SessionAdapter {
        guard let name else { return .latchkey }
        if let shipped = SessionAdapter.shipped.first(where: { $0.name == name }) { return shipped }
        guard name.hasSuffix(".json") else {
            throw .invalidConfiguration(
                "adapter=\(name) is neither a JSON file nor one of "
                    + SessionAdapter.shipped.map(\.name).joined(separator: ", "))
        }
        let path = resolve(name)
        let bytes = try RegularFile(path: path, kind: "session adapter", has: .settings).contents(limit: 256 * 1024)
        return try SessionAdapter(json: bytes, name: path)
    }

    private static func credential(_ path: String) throws(KeyError) -> String {
        var bytes = try RegularFile(path: path, kind: "session credential", has: .secrets).contents(limit: 16 * 1024)
        defer { wipe(&bytes) }
        let text = String(decoding: bytes, as: UTF8.self)
        return String(text.prefix { !$0.isNewline })
    }

    private static func token(_ form: String?, _ name: String?) throws(KeyError) -> SessionTokenPlacement {
        guard let chosen = SessionTokenPlacement.Form(rawValue: form ?? "header") else {
            throw .invalidConfiguration(
                "token-form=\(form ?? "") is none of "
                    + SessionTokenPlacement.Form.allCases.map(\.rawValue).joined(separator: ", "))
        }
        if let name {
            let isName = name.utf8.allSatisfy {
                (0x30...0x39).contains($0) || (0x41...0x5A).contains($0) || (0x61...0x7A).contains($0)
                    || "-_.".utf8.contains($0)
            }
            guard isName, !name.isEmpty else {
                throw .invalidConfiguration("token-name is made of letters, digits, hyphens, points and underscores")
            }
        }
        return SessionTokenPlacement(chosen, name: name)
    }

    private static func policy(_ values: [String: String]) throws(KeyError) -> SessionPolicy {
        var policy = SessionPolicy()
        let seconds = SessionPolicy.intervals.lowerBound / 1000...SessionPolicy.intervals.upperBound / 1000
        if let interval = try number("interval", values, seconds) { policy.interval = interval * 1000 }
        if let count = try number("missed-heartbeats", values, SessionPolicy.missedBeatCounts) {
            policy.missedBeats = count
        }
        if let limit = try number("pause-limit", values, 1...86_400) { policy.pauseLimit = limit * 1000 }
        policy.isKeptByLicenses =
            try ConfigurationGroup.choice("heartbeat", values, ["session": false, "license": true, "licence": true])
            ?? policy.isKeptByLicenses
        let flags = ["true": true, "false": false]
        policy.replacesEndedSession =
            try ConfigurationGroup.choice("replace-ended", values, flags) ?? policy.replacesEndedSession
        policy.endsBeforeSleep =
            try ConfigurationGroup.choice("end-before-sleep", values, flags) ?? policy.endsBeforeSleep
        return policy
    }

    private static func number(
        _ name: String, _ values: [String: String], _ range: ClosedRange<Int64>
    ) throws(KeyError) -> Int64? {
        guard let text = values[name] else { return nil }
        guard let number = Int64(text), range.contains(number) else {
            throw .invalidConfiguration(
                "\(name)=\(text) is no whole number from \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// A folder of that name at the place of the XDG Base Directory Specification.
    static func stateFolder(_ name: String, _ environment: [String: String]) -> String? {
        if let path = environment["XDG_STATE_HOME"], path.hasPrefix("/") { return "\(path)/latchkey/\(name)" }
        guard let home = environment["HOME"], home.hasPrefix("/") else { return nil }
        return "\(home)/.local/state/latchkey/\(name)"
    }

    /// `HOME`, `XDG_DATA_HOME` and `XDG_STATE_HOME` of this process, as far as they are set.
    public static var processEnvironment: [String: String] {
        // SAFETY: a string that ends in NUL, or null.
        ["HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"].reduce(into: [:]) { found, name in
            found[name] = getenv(name).map { String(cString: $0) }
        }
    }
}

extension ViewingSettings: Redacted {
    /// The server, without values of headers and parameters and without the credential.
    public var description: String { "session server \(service)" }
}
