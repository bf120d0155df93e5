// SPDX-License-Identifier: MPL-2.0

import ArgumentParser
import Glibc
import Logging
import LatchkeyContainers
import LatchkeyProtection
import LatchkeyTestServer

@main
struct LatchkeyServer: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "latchkey-server",
        abstract: "A license and media server for tests and demonstrations.",
        discussion: """
            Serves a ClearKey license service, a FairPlay-style key server, a PlayReady-style license \
            service and the files of a folder, and breaks its answers on demand. It gives its keys to anybody who asks: keep it on a loopback address.

            ENDPOINTS
              POST /clearkey         a W3C ClearKey license; 404 names KIDs without a key
                   ?missing=omit     ... leaves them out of the license instead
              GET /fairplay/certificate
                                     the application certificate, in DER
                   ?version=1|2      ... with an RSA key of 1024 or 2048 bits
              POST /fairplay/PATH    a CKC for an SPC, which comes as it is, as Base64,
                                     as spc=BASE64&assetId=ID, or as {"spc":"BASE64"}
                   ?form=raw|base64|xml|json
                                     ... how the CKC is written
                   ?lease=S&rental=S&hdcp=none|0|1
                                     ... on which terms
                   ?persist=unlimited, ?persist=rental&rental=S,
                   ?persist=dual&storage=S&playback=S
                                     ... whether the key may be stored
                   ?integrity=required
                                     ... refuses SPCs without Latchkey's own code
              GET, POST /entitlement?cid=ID&user=NAME
                                     a URL with a token for content that is in the
                                     keys file
                   &device=enforce   ... bound to the device of NAME's first playback
              POST /token/rights?token=T
                                     a CKC for an SPC, once for each token
              POST /playready/PATH   PlayReady-style licenses, domains, acknowledgements
                                     and the time, by SOAPAction
                   ?cfg=(persist:false,firstexp:60,ucvopl:270,errorcode:0x...)
                                     ... the policy of the license
              POST /sessions, POST /sessions/ID/heartbeat, DELETE /sessions/ID
                                     viewing sessions: limits, heartbeats with tokens
                                     that change, conflicts
              POST /terminate/sessions/PROVIDER/ACCOUNT
                                     the same with places, 409, X-Terminate and 410
              POST /session-end?session=ID, ?account=ID
                                     ends sessions, as an administrator does
              GET /session-metrics   counters, in Prometheus's text format
              GET, HEAD /media/PATH  files below the folder, with byte ranges
              GET /health            {"status":"ok"}
              GET, DELETE /log       the requests: method, path, status, KIDs
              GET, PUT, DELETE /faults
                                     the fault rules, as a JSON list of
                                     {"prefix":"/clearkey","fault":"status:503",
                                     "times":2}

            FAULTS
              delay:MS               the answer comes late
              status:CODE            that HTTP status instead of the answer
              truncate:BYTES         the connection closes within the body
              garbage                other bytes, of the same length
              never                  no answer at all
              drip:BYTES_PER_SECOND  the body comes slowly
            For one request: /media/video.mp4?fault=drip:20000
            By rule: --fault or PUT /faults. The first rule whose prefix fits the path \
            is used, N times where it says *N.

            KEYS FILE
            One key a line: KID KEY, both 32 hexadecimal digits. # starts a comment. \
            Lines for a URI or for *, with an IV behind the key if need be, are for \
            /fairplay/, which also takes a KID as content identifier. The file is read \
            once, at the start.

            TEST AUTHORITY
            --fairplay makes a self-signed certificate and an application secret key of \
            its own and keeps them in the folder: fairplay-v1.cer, fairplay-v2.cer and \
            fairplay-ask.hex are for clients. It is no vendor's.
            --playready makes a root of its own and all below it: playready-model.bcert, \
            playready-model-key.pem, playready-root.pub and playready-server.pub are for \
            clients.
            --make-authority makes both in a folder, and ends. Files of an authority that are there already are never \
            changed: it makes what is missing, and says which files it made and which it kept. --fairplay and \
            --playready with that folder take them up.

            EXIT STATUS
              0   done; after --make-authority, the folder has a complete authority,
                  whether it was made now or was there before
              1   the address cannot be served on
              64  the command line, or a file or folder that it names, cannot be used; --make-authority has changed \
                  nothing that was there

            EXAMPLE
              latchkey-server --port 8080 --keys-file keys.txt --media movies \\
                  --fault '/clearkey=status:503*1'
            """)

    @Option(help: "The address to listen on. The default is for this machine only; any other gets a warning.")
    var host = "127.0.0.1"

    @Option(help: "The port to listen on; 0 takes a free one, which the first line of output names.")
    var port: UInt16 = 0

    @Option(help: ArgumentHelp("The keys that are given out.", valueName: "file"))
    var keysFile: String?

    @Option(help: ArgumentHelp("The folder of the FairPlay-style test authority.", valueName: "dir"))
    var fairplay: String?

    @Option(help: ArgumentHelp("The folder of the PlayReady-style test authority.", valueName: "dir"))
    var playready: String?

    @Option(help: ArgumentHelp("Make a complete test authority in a folder, and end.", valueName: "dir"))
    var makeAuthority: String?

    @Option(help: ArgumentHelp("The folder below /media/.", valueName: "dir"))
    var media: String?

    @Option(help: ArgumentHelp("Viewing sessions that an account may have at once; 0: any number.", valueName: "n"))
    var sessionLimit = 2

    @Option(
        help: ArgumentHelp("Viewing sessions that an account's group of devices may have; 0: any.", valueName: "n"))
    var sessionGroupLimit = 0

    @Option(help: ArgumentHelp("At the limit: refuse the new session, or end the oldest.", valueName: "refuse|oldest"))
    var sessionAtLimit = "refuse"

    @Option(help: ArgumentHelp("Seconds between a session's heartbeats, from 5 to 86400.", valueName: "s"))
    var sessionInterval = 60

    @Option(help: ArgumentHelp("Heartbeats that may be missing, from 2 to 1000.", valueName: "n"))
    var sessionMissed = 3

    @Option(help: ArgumentHelp("What clients of sessions authenticate with.", valueName: "text"))
    var sessionCredential: String?

    @Flag(help: "Licenses are only for requests that show the token of a viewing session.")
    var licensesNeedSession = false

    @Option(
        help: ArgumentHelp("How far the clock in answers about sessions is ahead; may be negative.", valueName: "s"))
    var sessionClockSkew = 0

    @Option(
        name: .customLong("fault"),
        help: ArgumentHelp(
            "A fault for paths that start with a prefix. May be repeated.", valueName: "prefix=fault[*n]"))
    var faults: [String] = []

    @Flag(
        name: [.customLong("stop-on-stdin-eof"), .customLong("stop-with-parent")],
        help: "Stop when standard input ends, as it does when the parent process goes.")
    var stopOnStdinEOF = false

    @Flag(help: "Write each request to standard error.")
    var verbose = false

    func run() async throws {
        FileWarnings.setHandler { Self.write("warning: \($0)\n", to: STDERR_FILENO) }
        if let makeAuthority { return try makeAuthorities(at: makeAuthority) }
        var settings = ServerSettings(host: host, port: Int(port), mediaFolder: media)
        settings.sessions = try sessionSettings()
        do {
            settings.faults = try faults.map { try FaultRule($0) }
            if let keysFile { settings.keysFileEntries = try readKeys(keysFile) }
            for entry in settings.keysFileEntries {
                if case .keyID(let keyID) = entry.subject { settings.keys[keyID] = entry.key }
            }
            if let playready { settings.playReadyAuthority = try PlayReadyFolder.authority(at: playready) }
            if let fairplay { settings.fairPlayAuthorities = try FairPlayFolder.authorities(at: fairplay) }
        } catch let error as FaultError {
            throw ValidationError("--fault: \(error)")
        } catch let error as FairPlayFolderError {
            throw ValidationError("--fairplay: \(error)")
        } catch let error as PlayReadyFolderError {
            throw ValidationError("--playready: \(error)")
        } catch let error as KeyError {
            throw ValidationError("--keys-file: \(error)")
        }
        guard let server = ServerApplication(settings: settings) else {
            throw ValidationError("--media: \(media ?? "") is no folder that can be read")
        }
        var logger = Logger(label: "latchkey-server", factory: { StreamLogHandler.standardError(label: $0) })
        logger.logLevel = verbose ? .info : .error
        let address = host.contains(":") ? "[\(host)]" : host
        let isLoopback = ServerSettings.isLoopback(host)
        do {
            try await server.run(logger: logger, stopsWithStandardInput: stopOnStdinEOF) { port in
                // Written past stdio's buffer, so that a parent process that reads a pipe sees it at once.
                Self.write("listening on http://\(address):\(port)\n", to: STDOUT_FILENO)
                let place =
                    isLoopback
                    ? "listening on the loopback only: other machines cannot reach this server\n"
                    : "warning: \(host) is no loopback address; this server gives its keys to anyone who reaches it\n"
                Self.write(place, to: STDERR_FILENO)
            }
        } catch {
            Self.write("Error: cannot serve on \(address), port \(port): \(error)\n", to: STDERR_FILENO)
            throw ExitCode.failure
        }
    }

    private static func write(_ line: String, to descriptor: Int32) { Glibc.write(descriptor, line, line.utf8.count) }

    private func makeAuthorities(at path: String) throws {
        do {
            for line in try AuthorityFolder(makingAt: path).lines(for: path) { print(line) }
        } catch {
            throw ValidationError("--make-authority: \(error)")
        }
    }

    private func sessionSettings() throws -> SessionSettings {
        guard let atLimit = SessionSettings.Limit(rawValue: sessionAtLimit) else {
            throw ValidationError("--session-at-limit: \(sessionAtLimit) is neither refuse nor oldest")
        }
        // Intervals and missed heartbeats as clients believe them.
        for (name, number, range) in [
            ("limit", sessionLimit, 0...1_000_000), ("group-limit", sessionGroupLimit, 0...1_000_000),
            ("interval", sessionInterval, 5...86_400), ("missed", sessionMissed, 2...1000),
        ] where !range.contains(number) {
            throw ValidationError(
                "--session-\(name) \(number): it must be from \(range.lowerBound) to \(range.upperBound)")
        }
        var settings = SessionSettings()
        settings.perAccount = sessionLimit
        settings.perDeviceGroup = sessionGroupLimit
        settings.atLimit = atLimit
        settings.interval = sessionInterval
        settings.missedBeats = sessionMissed
        settings.credential = sessionCredential
        settings.guardsLicenses = licensesNeedSession
        guard (-1_000_000_000...1_000_000_000).contains(sessionClockSkew) else {
            throw ValidationError("--session-clock-skew is out of range")
        }
        settings.clockSkew = sessionClockSkew
        return settings
    }

    private func readKeys(_ path: String) throws -> [KeysFile.Entry] {
        var contents = try RegularFile(path: path, kind: "keys file", has: .secrets).contents(
            limit: KeysFile.maximumSize)
        defer { wipe(&contents) }
        return try KeysFile(contents: contents, name: path).entries
    }
}
