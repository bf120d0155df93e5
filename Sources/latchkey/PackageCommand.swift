// SPDX-License-Identifier: MPL-2.0

import ArgumentParser
import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyProtection

struct PackageCommand: ParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "package",
        abstract: "Encrypt the segments of an HLS presentation, each in an envelope.",
        discussion: """
            Reads a master or media playlist and everything that it names, and writes the same presentation into \
            another folder with each media segment encrypted as a whole: AES-128-CTR, behind a PlayReady header that \
            names the key. The container is Latchkey's own; no other player reads it. The playlists stay as they are: \
            players with Latchkey recognise the segments. Subtitles and initialization sections stay clear.

            One key is for the whole presentation. It comes from a keys file, never from the command line, which other \
            users can read.

            KEYS FILE
            One key a line: KID KEY, both 32 hexadecimal digits. # starts a comment. With more than one line, --key-id \
            says which.

            WHAT IS REFUSED
            Presentations that are encrypted already, URLs that leave the folder of the playlist, byte ranges and \
            partial segments. Playlists of I-frames, which are byte ranges, are left out of the master playlist.

            EXAMPLE
              latchkey package --keys-file movie.key --license-url https://licences.example/rm.asmx \\
                  movie/master.m3u8 protected
            """)

    @Option(help: ArgumentHelp("The file with the key.", valueName: "file"))
    var keysFile: String

    @Option(
        help: ArgumentHelp("The key of the file that is taken; may be left out where there is one.", valueName: "kid"))
    var keyID: String?

    @Option(help: ArgumentHelp("The licence service, for the PlayReady header.", valueName: "url"))
    var licenseURL: String?

    @Option(
        help: ArgumentHelp("The web page on which a licence is bought, for the PlayReady header.", valueName: "url"))
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
        print("\(packager.sealedCount) segments in envelopes, key \(id); players need envelope-parsers=latchkey")
    }

    private func checksum(of key: ContentKey, _ id: KeyID) throws(FormatError) -> [UInt8] {
        do throws(PlayReadyError) {
            return try PlayReadyChecksum.checksum(of: key, keyID: id, algorithm: .aesCTR)
        } catch {
            throw .unsupported(error.description)
        }
    }

    private func chosenKey() throws -> (KeyID, ContentKey) {
        var contents = try ProvisioningFolder.contents(of: keysFile)
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
