// SPDX-License-Identifier: MPL-2.0

import ArgumentParser
import FoundationEssentials
import Glibc
import LatchkeyContainers
import LatchkeyKeySession
import LatchkeyKeySystems
import LatchkeyManifests
import LatchkeyProtection

struct PackageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "package",
        abstract: "Encrypt the segments of an HLS presentation, each in an envelope.",
        discussion: """
            Reads a master or media playlist and everything that it names, and writes the same presentation into \
            another folder with each media segment encrypted as a whole: AES-128-CTR, behind a PlayReady header that \
            names the key. The container is Latchkey's own; no other player reads it. The playlists stay as they are: \
            players with Latchkey recognize the segments. Subtitles and initialization sections stay clear.

            One key is for the whole presentation. It comes from a keys file, never from the command line, which other \
            users can read.

            KEYS FILE
            One key a line: KID KEY, both 32 hexadecimal digits. # starts a comment. With more than one line, --key-id \
            says which.

            WHAT IS REFUSED
            Presentations that are encrypted already, URLs that leave the folder of the playlist, byte ranges and \
            partial segments. Playlists of I-frames, which are byte ranges, are left out of the master playlist.

            EXAMPLE
              latchkey package --keys-file movie.key \\
                  --license-url https://licenses.example/rm.asmx \\
                  movie/master.m3u8 protected
            """)

    @Option(help: ArgumentHelp("The file with the key.", valueName: "file"))
    var keysFile: String

    @Option(
        help: ArgumentHelp("The key of the file that is taken; may be left out where there is one.", valueName: "kid"))
    var keyID: String?

    @Option(help: ArgumentHelp("The license service, for the PlayReady header.", valueName: "url"))
    var licenseURL: String?

    @Option(
        help: ArgumentHelp("The web page on which a license is bought, for the PlayReady header.", valueName: "url"))
    var webURL: String?

    @Flag(help: "Write an EXT-X-KEY with KEYFORMAT com.microsoft.playready into the media playlists too.")
    var keyTag = false

    @Flag(name: .shortAndLong, help: "Name each file that is written.")
    var verbose = false

    @Argument(help: ArgumentHelp("The playlist.", valueName: "playlist"))
    var playlist: String

    @Argument(help: ArgumentHelp("The folder that is written; it is made where it is missing.", valueName: "folder"))
    var folder: String

    func run() throws {
        let (id, key) = try chosenKey()
        let header: WRMHeader
        do throws(FormatError) {
            header = try WRMHeader(
                version: .v4_0, keys: [.init(id, algorithm: .aesCTR, checksum: try checksum(of: key, id))],
                details: .init(licenseAcquisitionURL: licenseURL, licenseUserInterfaceURL: webURL))
        } catch {
            throw ToolError("the PlayReady header: \(error)")
        }
        var packager = EnvelopePackager(
            object: PlayReadyObject(header: header), key: key, writesKeyTag: keyTag, output: folder)
        try packager.package(playlist)
        if verbose { for name in packager.written { print(name) } }
        for name in packager.leftOut { warn("left out, as it is a playlist of I-frames: \(name)") }
        print("\(packager.sealedCount) segments in envelopes, key \(id); players need envelopes=on")
    }

    private func checksum(of key: ContentKey, _ id: KeyID) throws(FormatError) -> [UInt8] {
        do throws(PlayReadyError) {
            return try PlayReadyChecksum.checksum(of: key, keyID: id, algorithm: .aesCTR)
        } catch {
            throw .unsupported(error.description)
        }
    }

    private func chosenKey() throws -> (KeyID, ContentKey) {
        var contents = try ProvisioningFolder.contents(of: keysFile, isSecret: true)
        defer { wipe(&contents) }
        let file: KeysFile
        do throws(KeyError) {
            file = try KeysFile(contents: contents, name: keysFile)
        } catch {
            throw ToolError("\(error)")
        }
        let keys = file.entries.compactMap { entry -> (KeyID, ContentKey)? in
            if case .keyID(let id) = entry.subject { (id, entry.key) } else { nil }
        }
        if let keyID {
            guard let wanted = KeyID(hex: keyID) else { throw ValidationError("--key-id: \(keyID) is no KID") }
            guard let found = keys.first(where: { $0.0 == wanted }) else {
                throw ToolError("\(keysFile): no key for \(wanted)")
            }
            return found
        }
        guard keys.count == 1 else {
            throw ToolError("\(keysFile): \(keys.count) keys with a KID; --key-id says which one is taken")
        }
        return keys[0]
    }
}

/// Writes a copy of an HLS presentation whose segments are in envelopes.
///
/// Works on files. A value: use one for one presentation.
struct EnvelopePackager {
    private static let maximumSegmentSize = 512 << 20

    let object: PlayReadyObject
    let key: ContentKey
    /// Whether media playlists get an EXT-X-KEY.
    let writesKeyTag: Bool
    /// The folder that is written.
    let output: String

    /// The files that were written, relative to `output`, in order.
    private(set) var written: [String] = []
    /// Playlists of I-frames, which were not.
    private(set) var leftOut: [String] = []
    private(set) var sealedCount = 0
    private var input = ""
    private var seen: Set<String> = []

    init(object: PlayReadyObject, key: ContentKey, writesKeyTag: Bool, output: String) {
        self.object = object
        self.key = key
        self.writesKeyTag = writesKeyTag
        self.output = output
    }

    /// Packages the playlist and everything that it names. Throws `ToolError` with the file and, for a playlist, the
    /// line. What was written up to then stays.
    mutating func package(_ path: String) throws(ToolError) {
        let url = URL(fileURLWithPath: path)
        input = url.deletingLastPathComponent().path
        guard URL(fileURLWithPath: output).standardizedFileURL.path != url.deletingLastPathComponent().standardized.path
        else { throw ToolError("\(output): the folder of the playlist itself; name another one") }
        try playlist(url.lastPathComponent)
    }

    private mutating func playlist(_ name: String) throws(ToolError) {
        guard seen.insert(name).inserted else { return }
        let bytes = try read(name)
        let playlist: HLSPlaylist
        do throws(FormatError) {
            playlist = try HLSPlaylist(bytes)
        } catch {
            throw ToolError("\(input)/\(name): \(error)")
        }
        do throws(LineError) {
            switch playlist.kind {
            case .master: try master(playlist, name)
            case .media: try media(playlist, name)
            }
        } catch {
            switch error {
            case .line(let number, let reason): throw ToolError("\(input)/\(name), line \(number): \(reason)")
            case .file(let error): throw error
            }
        }
    }

    private enum LineError: Error {
        case line(Int, String)
        case file(ToolError)
    }

    private mutating func master(_ playlist: HLSPlaylist, _ name: String) throws(LineError) {
        var children: [String] = []
        var text = ""
        for line in playlist.lines {
            switch line.content {
            case .uri(let reference):
                children.append(try local(reference, beside: name, line))
            case .tag("EXT-X-I-FRAME-STREAM-INF", let value):
                leftOut.append((try? HLSAttributeList(parsing: value ?? ""))?["URI"] ?? "\(line.text)")
                continue
            case .tag("EXT-X-SESSION-KEY", _):
                throw .line(line.number, "the presentation is encrypted already")
            case .tag("EXT-X-MEDIA", let value):
                let list: HLSAttributeList
                do throws(FormatError) {
                    list = try HLSAttributeList(parsing: value ?? "")
                } catch {
                    throw .line(line.number, error.description)
                }
                if let reference = list["URI"] { children.append(try local(reference[...], beside: name, line)) }
            default: break
            }
            text += line.text + line.ending
        }
        try write(Array(text.utf8), to: name)
        for child in children {
            do throws(ToolError) { try self.playlist(child) } catch { throw .file(error) }
        }
    }

    private mutating func media(_ playlist: HLSPlaylist, _ name: String) throws(LineError) {
        var text = ""
        var isTagged = !writesKeyTag
        for line in playlist.lines {
            switch line.content {
            case .uri(let reference):
                try segment(try local(reference, beside: name, line))
            case .tag("EXT-X-KEY", let value):
                guard (try? HLSKey(attributeList: value ?? ""))?.method == HLSKey.Method.none else {
                    throw .line(line.number, "the presentation is encrypted already")
                }
                continue
            case .tag("EXT-X-MAP", let value):
                guard let list = try? HLSAttributeList(parsing: value ?? ""), let reference = list["URI"] else {
                    throw .line(line.number, "EXT-X-MAP without a URI")
                }
                guard list["BYTERANGE"] == nil else { throw .line(line.number, Self.noRanges) }
                try copy(try local(reference[...], beside: name, line))
            case .tag("EXT-X-BYTERANGE", _):
                throw .line(line.number, Self.noRanges)
            case .tag("EXT-X-PART", _), .tag("EXT-X-PRELOAD-HINT", _), .tag("EXT-X-DEFINE", _):
                throw .line(line.number, "partial segments and variables are not for files that are packaged")
            case .tag("EXTINF", _) where !isTagged:
                text += "#EXT-X-KEY:\(try keyTag())\n"
                isTagged = true
            default: break
            }
            text += line.text + line.ending
        }
        try write(Array(text.utf8), to: name)
    }

    private static let noRanges = "byte ranges; make a file of each segment first"

    /// An envelope is encrypted as a whole, as METHOD=AES-128 says; what with, its own header says.
    private func keyTag() throws(LineError) -> String {
        do throws(FormatError) {
            let data = Base64.encode(try object.serialized())
            return "METHOD=AES-128,URI=\"data:text/plain;charset=UTF-16;base64,\(data)\","
                + "KEYFORMAT=\"\(HLSKeyFormat.playReady.name)\",KEYFORMATVERSIONS=\"1\""
        } catch {
            throw .file(ToolError("the PlayReady header: \(error)"))
        }
    }

    // MARK: Files

    /// The path of a URL relative to the presentation's folder.
    private func local(
        _ reference: Substring, beside playlist: String, _ line: HLSLine
    ) throws(LineError) -> String {
        let url = URIReference(reference)
        guard url.scheme == nil, url.authority == nil, url.query == nil, !url.path.isEmpty,
            url.path.utf8.first != UInt8(ascii: "/"),
            let path = PercentEncoding.decodeText(url.path), !path.utf8.contains(0)
        else { throw .line(line.number, "“\(url.printable)” is no file below the playlist's folder") }
        var parts = playlist.unicodeScalars.split(separator: "/").dropLast().map { String($0) }
        // Not by characters: a combining mark makes another one of the slash in front of it.
        for part in path.unicodeScalars.split(separator: "/").map({ String($0) }) where part != "." {
            if part == ".." {
                guard parts.popLast() != nil else {
                    throw .line(line.number, "“\(url.printable)” lies outside of the playlist's folder")
                }
            } else {
                parts.append(part)
            }
        }
        return parts.joined(separator: "/")
    }

    private mutating func segment(_ name: String) throws(LineError) {
        guard seen.insert(name).inserted else { return }
        let bytes = try file(name)
        guard !LatchkeyEnvelope().isEnvelope(bytes) else {
            throw .file(ToolError("\(input)/\(name): in an envelope already"))
        }
        guard HLSSegmentKind(firstBytes: bytes) != .webVTT else { return try write(bytes, to: name) }
        let sealed: [UInt8]
        do throws(PlayReadyError) {
            sealed = try LatchkeyEnvelope.seal(bytes, object: object, key: key)
        } catch {
            throw .file(ToolError("\(input)/\(name): \(error)"))
        }
        try write(sealed, to: name)
        sealedCount += 1
    }

    private mutating func copy(_ name: String) throws(LineError) {
        if seen.insert(name).inserted { try write(try file(name), to: name) }
    }

    private func file(_ name: String) throws(LineError) -> [UInt8] {
        do throws(ToolError) { return try read(name) } catch { throw .file(error) }
    }

    private func read(_ name: String) throws(ToolError) -> [UInt8] {
        let path = "\(input)/\(name)"
        do {
            var status = stat()
            if stat(path, &status) == 0, status.st_size > Self.maximumSegmentSize {
                throw ToolError("\(status.st_size) bytes are too many")
            }
            return Array(try Data(contentsOf: URL(fileURLWithPath: path)))
        } catch let error as ToolError {
            throw ToolError("\(path): \(error)")
        } catch {
            throw ToolError("\(path): cannot be read")
        }
    }

    private mutating func write(_ bytes: [UInt8], to name: String) throws(LineError) {
        let url = URL(fileURLWithPath: "\(output)/\(name)")
        do {
            try FileManager.default.createDirectory(
                at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
            try Data(bytes).write(to: url, options: .atomic)
        } catch {
            throw .file(ToolError("\(url.path): cannot be written"))
        }
        written.append(name)
    }
}
