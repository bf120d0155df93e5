// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import Glibc
import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyManifests
import LatchkeyProtection

/// Settings from files: `LATCHKEY_CONFIG`, or `latchkey/latchkey.conf` in the user's configuration folder.
///
/// The syntax is GLib's GKeyFile; `docs/latchkey.conf.example` shows every key.
enum Configuration {
    private static let group = ControlSettings.group.name

    /// The first file that is there. A file that is named but cannot be used is an error, a missing user file is not.
    static func load() throws(KeyError) -> ControlSettings {
        if let path = Environment.variable("LATCHKEY_CONFIG") { return try read(path, required: true) }
        return try read("\(Environment.userConfigurationFolder)/latchkey/latchkey.conf", required: false)
    }

    static func read(_ path: String, required: Bool) throws(KeyError) -> ControlSettings {
        var settings = ControlSettings()
        guard let (contents, othersMayRead) = try contents(path, required: required) else { return settings }
        let file: ConfigurationFile
        do {
            file = try ConfigurationFile(contents: contents)
        } catch {
            throw .invalidConfiguration("the configuration file \(path) cannot be used: \(error.description)")
        }
        try check(file, path)
        if othersMayRead, hasSecrets(file) { FileWarnings.othersMayRead("the configuration file \(path)") }
        settings.keysFile = file.string("keys-file", in: group).map { resolve($0, beside: path) }
        settings.licenseURL = file.string("license-url", in: group)
        settings.mediaLicenseURLs = try choice("media-license-urls", in: file, path) ?? settings.mediaLicenseURLs
        settings.partialLicenses = try choice("partial-licenses", in: file, path) ?? settings.partialLicenses
        do throws(KeyError) {
            if let origins = file.string("source-header-origins", in: group) {
                settings.sourceHeaderOrigins = try ConfigurationGroup.origins(origins, of: "source-header-origins")
            }
            settings.keySystem = try keySystem(file.string("key-system", in: group))
            settings.keyTimeout = try milliseconds("key-timeout", file.string("key-timeout", in: group))
            settings.httpTimeout = try milliseconds("http-timeout", file.string("http-timeout", in: group))
        } catch {
            throw .invalidConfiguration("the configuration file \(path): \(error.reason)")
        }
        settings.httpHeaders = values(of: ControlSettings.headersGroup.name, in: file).map {
            HTTPHeader(name: $0.name, value: $0.value)
        }
        settings.keyFormats =
            file.string("key-formats", in: group)?.split { $0 == ";" || $0 == "," }.map { trimmed($0) }.filter {
                !$0.isEmpty
            }
            ?? []
        if let text = file.string("envelopes", in: group) {
            guard text == "on" || text == "off" else {
                throw .invalidConfiguration("the configuration file \(path): envelopes=\(text) is neither on nor off")
            }
            settings.readsEnvelopes = text == "on"
        }
        if let text = file.string("playlist-keys", in: group) {
            guard let number = Int(text), 1...HLSPlaylist.maximumKeysAndMaps ~= number else {
                throw .invalidConfiguration(
                    "the configuration file \(path): playlist-keys=\(text) is not in 1 to "
                        + "\(HLSPlaylist.maximumKeysAndMaps)")
            }
            settings.playlistKeys = number
        }
        if let text = file.string("playlist-memory", in: group) {
            let most = HLSPlaylist.maximumMemoryLimit >> 20
            guard let number = Int(text), 1...most ~= number else {
                throw .invalidConfiguration(
                    "the configuration file \(path): playlist-memory=\(text) is not in 1 to \(most)")
            }
            settings.playlistMemory = number << 20
        }
        settings.fairPlay = try fairPlay(file, path)
        settings.playReady = try playReady(file, path)
        settings.viewing = try viewing(file, path)
        return settings
    }

    /// The most bytes of a file.
    private static let maximumSize = 1 << 20

    /// Nil where there is nothing to read: `/dev/null`, which stands for no file, and a file that is not there
    /// and not required.
    private static func contents(
        _ path: String, required: Bool
    ) throws(KeyError) -> (bytes: [UInt8], othersMayRead: Bool)? {
        if path == "/dev/null" { return nil }
        // A folder of the path may be a file, as in XDG_CONFIG_HOME=/dev/null.
        if !required, access(path, F_OK) != 0, errno == ENOENT || errno == ENOTDIR { return nil }
        do throws(KeyError) {
            let file = try RegularFile(path: path, kind: "configuration file", has: .settings)
            return (try file.contents(limit: maximumSize), file.othersMayRead)
        } catch {
            throw .invalidConfiguration("the \(error.reason)")
        }
    }

    /// Headers and parameters may be credentials.
    private static func hasSecrets(_ file: borrowing ConfigurationFile) -> Bool {
        for group in ControlSettings.groups {
            let keys = file.keys(in: group.name)
            if group.keys == nil ? !keys.isEmpty : keys.contains(where: { ["credential", "custom-data"].contains($0) })
            {
                return true
            }
        }
        return false
    }

    /// Nothing in a file is ignored: a misspelt group or key is an error that names it and the known ones.
    private static func check(_ file: borrowing ConfigurationFile, _ path: String) throws(KeyError) {
        var groups: [(name: String, keys: [String])] = []
        for name in file.groups { groups.append((name, file.keys(in: name))) }
        do throws(KeyError) {
            try ConfigurationGroup.check(groups, against: ControlSettings.groups)
        } catch {
            throw .invalidConfiguration("the configuration file \(path): \(error.reason)")
        }
    }

    private static func fairPlay(_ file: borrowing ConfigurationFile, _ path: String) throws(KeyError)
        -> FairPlaySettings?
    {
        try service(FairPlaySettings.groups, in: file, path) { values, headers, parameters throws(KeyError) in
            try FairPlaySettings(
                values, headers: headers, parameters: parameters, resolve: { resolve($0, beside: path) })
        }
    }

    private static func playReady(_ file: borrowing ConfigurationFile, _ path: String) throws(KeyError)
        -> PlayReadySettings?
    {
        let values = values(of: PlayReadySettings.group.name, in: file)
        let headers = Self.values(of: PlayReadySettings.headersGroup.name, in: file)
        guard !values.isEmpty || !headers.isEmpty else { return nil }
        do throws(KeyError) {
            return try PlayReadySettings(
                Dictionary(values.map { ($0.name, $0.value) }, uniquingKeysWith: { $1 }),
                headers: headers.map { HTTPHeader(name: $0.name, value: $0.value) },
                resolve: { resolve($0, beside: path) })
        } catch {
            throw .invalidConfiguration("the configuration file \(path): \(error.reason)")
        }
    }

    private static func viewing(_ file: borrowing ConfigurationFile, _ path: String) throws(KeyError)
        -> ViewingSettings?
    {
        try service(ViewingSettings.groups, in: file, path) { values, headers, parameters throws(KeyError) in
            try ViewingSettings(
                values, headers: headers, parameters: parameters, resolve: { resolve($0, beside: path) })
        }
    }

    /// What three groups say of a service: its settings, its headers and its parameters. Nil where none says anything.
    private static func service<Settings>(
        _ groups: [ConfigurationGroup], in file: borrowing ConfigurationFile, _ path: String,
        _ make: ([String: String], [HTTPHeader], [String: String]) throws(KeyError) -> Settings
    ) throws(KeyError) -> Settings? {
        var tables: [[(name: String, value: String)]] = []
        for group in groups { tables.append(values(of: group.name, in: file)) }
        guard tables.contains(where: { !$0.isEmpty }) else { return nil }
        do throws(KeyError) {
            return try make(
                Dictionary(tables[0].map { ($0.name, $0.value) }, uniquingKeysWith: { $1 }),
                tables[1].map { HTTPHeader(name: $0.name, value: $0.value) },
                Dictionary(tables[2].map { ($0.name, $0.value) }, uniquingKeysWith: { $1 }))
        } catch {
            throw .invalidConfiguration("the configuration file \(path): \(error.reason)")
        }
    }

    private static func values(
        of group: String, in file: borrowing ConfigurationFile
    ) -> [(name: String, value: String)] {
        var values: [(name: String, value: String)] = []
        for name in file.keys(in: group) {
            if let value = file.string(name, in: group) { values.append((name, value)) }
        }
        return values
    }

    private static func trimmed(_ text: Substring) -> String {
        var text = text.drop(while: \.isWhitespace)
        while text.last?.isWhitespace == true { text.removeLast() }
        return String(text)
    }

    /// A key system by its name in settings; nil for none.
    static func keySystem(_ name: String?) throws(KeyError) -> KeySystem? {
        guard let name, !name.isEmpty else { return nil }
        guard let system = KeySystem(rawValue: name) else {
            throw .invalidConfiguration(
                "the key system “\(name)” is not known; known are "
                    + KeySystem.allCases.map(\.rawValue).joined(separator: ", "))
        }
        return system
    }

    /// One of the words that a setting of the main group may have; nil where it is not set.
    private static func choice<Choice: RawRepresentable<String> & CaseIterable>(
        _ key: String, in file: borrowing ConfigurationFile, _ path: String
    ) throws(KeyError) -> Choice? {
        guard let text = file.string(key, in: group) else { return nil }
        guard let choice = Choice(rawValue: text) else {
            throw .invalidConfiguration(
                "the configuration file \(path): \(key)=\(text) is none of "
                    + Choice.allCases.map(\.rawValue).joined(separator: ", "))
        }
        return choice
    }

    private static func milliseconds(_ key: String, _ text: String?) throws(KeyError) -> Duration? {
        guard let text else { return nil }
        guard let number = UInt32(text) else {
            throw .invalidConfiguration("\(key)=\(text) is no number of milliseconds")
        }
        return .milliseconds(Int64(number))
    }

    /// A keys file is named relative to the configuration file.
    private static func resolve(_ path: String, beside file: String) -> String {
        guard !path.hasPrefix("/"), let slash = file.lastIndex(of: "/") else { return path }
        return String(file[...slash]) + path
    }
}
