// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import CLatchkeyGStreamerCheck
import LatchkeyElementKit
import LatchkeyElementTestSupport
import LatchkeyHTTP
import Foundation
import Latchkey
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyElements

extension ElementTests {
    /// Where settings come from, which win, and what happens to those that cannot be used.
    @Suite final class SettingsTests {
        private let folder: URL

        init() throws {
            TestProcess.prepare
            #expect(Latchkey.registerElements())
            folder = FileManager.default.temporaryDirectory.appendingPathComponent("latchkey-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        }

        deinit {
            setenv("LATCHKEY_CONFIG", "", 1)
            setenv("LATCHKEY_KEYS_FILE", "", 1)
            try? FileManager.default.removeItem(at: folder)
        }

        private func write(_ name: String, _ text: String) throws -> String {
            let file = folder.appendingPathComponent(name)
            try text.write(to: file, atomically: true, encoding: .utf8)
            return file.path
        }

        private func keysFile(_ name: String = "keys.txt", key: [UInt8] = Media.key) throws -> String {
            try write(name, "# keys\n\(Media.keyIDText) \(Media.hex(key))\n")
        }

        private func context(_ fields: [(String, FieldValue)]) throws -> Context {
            let context = try #require(Context(type: SharedSession.contextType, persistent: true))
            context.withPointer { pointer in
                let structure = gst_context_writable_structure(pointer)
                for (name, value) in fields {
                    var stored = GValue()
                    switch value {
                    case .string(let text):
                        ek_value_init(&stored, ek_type_string())
                        if let text { g_value_set_string(&stored, text) }
                    case .uint(let number):
                        ek_value_init(&stored, ek_type_uint())
                        g_value_set_uint(&stored, number)
                    default: continue
                    }
                    gst_structure_take_value(structure, name, &stored)
                }
            }
            return context
        }

        /// Whether a sample, encrypted with `key`, comes out right.
        private func decrypts(
            _ properties: [(String, FieldValue)] = [], context: Context? = nil, with key: [UInt8] = Media.key
        ) throws -> Bool {
            let harness = try Harness("latchkeycencdec", properties, context: context)
            harness.start(caps: Media.bareVideo)
            guard harness.push(try Media.sample(Media.bytes(40), key: key).makeBuffer()) == .ok else { return false }
            guard harness.output.wait(samples: 1) else { return false }
            return harness.output.samples.first?.bytes == Media.bytes(40)
        }

        // MARK: Sources

        @Test func theKeysPropertyTakesSeveralForms() throws {
            let key = Media.hex(Media.key)
            let uuid = try #require(KeyID(Media.keyID)).uuidString
            for text in [
                "\(Media.keyIDText):\(key)", "\(Media.keyIDText.uppercased()):\(key.uppercased())", "\(uuid):\(key)",
                "\(Media.otherKeyIDText):\(Media.hex(Media.otherKey)),\(Media.keyIDText):\(key)",
                " \(Media.keyIDText):\(key) ", "\(Media.keyIDText):\(key),",
            ] {
                #expect(try decrypts([("keys", .string(text))]), "\(text.prefix(40))")
            }
        }

        @Test func theKeysFileProperty() throws {
            #expect(try decrypts([("keys-file", .string(try keysFile()))]))
        }

        @Test func theEnvironmentsKeysFile() throws {
            setenv("LATCHKEY_KEYS_FILE", try keysFile(), 1)
            #expect(try decrypts())
        }

        @Test func theConfigurationsKeysFileIsBesideIt() throws {
            _ = try keysFile()
            setenv("LATCHKEY_CONFIG", try write("latchkey.conf", "[latchkey]\nkeys-file=keys.txt\n"), 1)
            #expect(try decrypts())
        }

        /// In a folder that is none, as with `XDG_CONFIG_HOME=/dev/null`, there is no file; one that is named must be there.
        @Test(arguments: ["/dev/null/latchkey/latchkey.conf", "/nonexistent/latchkey/latchkey.conf"])
        func theUsersConfigurationMayBeMissing(path: String) throws {
            let settings = try Configuration.read(path, required: false)
            #expect(settings.keysFile == nil && settings.licenseURL == nil && settings.keyFormats.isEmpty)
            let error = #expect(throws: KeyError.self) { try Configuration.read(path, required: true) }
            #expect(
                error?.isSameKind(as: .invalidConfiguration("")) == true && error?.description.contains(path) == true)
        }

        @Test func theContextsKeysFile() throws {
            #expect(try decrypts(context: try context([("keys-file", .string(try keysFile()))])))
        }

        @Test func aKeysFileThatChangesIsReadAgain() throws {
            let path = try keysFile(key: Media.otherKey)
            let context = try context([("keys-file", .string(path))])
            #expect(try decrypts(context: context, with: Media.otherKey))
            _ = try keysFile()
            #expect(try decrypts(context: context))
        }

        @Test func settingsThatChangedMakeANewSession() throws {
            setenv("LATCHKEY_KEYS_FILE", try keysFile("wrong.txt", key: Media.otherKey), 1)
            let harness = try Harness("latchkeycencdec")
            let decryptor = try #require(Decryptor.implementation(of: harness.element))
            let first = decryptor.currentSession
            for isChanged in [false, true] {
                if isChanged { setenv("LATCHKEY_KEYS_FILE", try keysFile("right.txt"), 1) }
                #expect(harness.setState(GST_STATE_READY) == GST_STATE_CHANGE_SUCCESS)
                #expect(harness.setState(GST_STATE_PLAYING) == GST_STATE_CHANGE_SUCCESS)
                let isSame = decryptor.currentSession === first
                #expect(isSame == !isChanged)
            }
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample([1, 2]).makeBuffer()) == .ok)
            #expect(harness.output.wait(samples: 1))
            #expect(harness.output.samples.map(\.bytes) == [[1, 2]])
        }

        /// Property, then context, then the environment's keys file, then the configuration.
        @Test func theNearerSettingWins() throws {
            let right = try keysFile("right.txt")
            let wrong = try keysFile("wrong.txt", key: Media.otherKey)
            setenv("LATCHKEY_CONFIG", try write("c.conf", "[latchkey]\nkeys-file=\(wrong)\n"), 1)
            setenv("LATCHKEY_KEYS_FILE", right, 1)
            #expect(try decrypts())
            setenv("LATCHKEY_KEYS_FILE", wrong, 1)
            #expect(try decrypts(context: try context([("keys-file", .string(right))])))
            let far = try context([("keys-file", .string(wrong))])
            #expect(try decrypts([("keys-file", .string(right))], context: far))
            #expect(try decrypts(Media.keysProperty + [("keys-file", .string(wrong))], context: far))
        }

        @Test func theContextsLicenseURLIsAsked() throws {
            // Port 9 of this machine answers nobody. The query of the URL is not for messages.
            let context = try context([
                ("license-url", .string("http://127.0.0.1:9/license?token=hidden")),
                ("key-system", .string("clearkey")),
            ])
            let harness = try Harness("latchkeycencdec", context: context)
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample([1]).makeBuffer()) == .ok)
            let request = try harness.bus.next(element: "latchkey-key-request")
            #expect(request.string("key-system") == "clearkey")
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
            #expect(error.text.contains("network") && error.text.contains("http://127.0.0.1:9/license"), "\(error)")
            #expect(!error.description.contains("hidden"))
        }

        @Test func theContextsTimeout() throws {
            let context = try context([("key-timeout", .uint(30))])
            let harness = try Harness("latchkeycencdec", context: context)
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample([1]).makeBuffer()) == .ok)
            #expect(try harness.bus.nextError().isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY))
        }

        @Test func propertiesAreReadBackButKeysAreNot() throws {
            let harness = try Harness(
                "latchkeycencdec",
                Media.keysProperty + [("key-timeout", .uint(5)), ("key-system", .string("clearkey"))])
            #expect(harness.propertyText("key-timeout") == "5")
            #expect(harness.propertyText("key-system") == "clearkey")
            let specification = try #require(
                g_object_class_find_property(ek_gobject_class(ek_object_class(harness.element)), "keys"))
            #expect(ekt_is_readable(specification) == 0)
            #expect(ekt_is_writable(specification) != 0)
        }

        // MARK: What cannot be used

        /// The error with which an element refuses to start.
        private func refusal(
            _ properties: [(String, FieldValue)] = [], context: Context? = nil
        ) throws -> BusMessage {
            let element = try #require(gst_element_factory_make("latchkeycencdec", nil))
            gst_object_ref_sink(element)
            let bus = MessageBus()
            gst_element_set_bus(element, bus.pointer)
            defer {
                gst_element_set_state(element, GST_STATE_NULL)
                gst_element_set_bus(element, nil)
                gst_object_unref(element)
            }
            for (name, value) in properties { element.setProperty(name, value) }
            context?.withPointer { gst_element_set_context(element, $0) }
            #expect(gst_element_set_state(element, GST_STATE_PAUSED) == GST_STATE_CHANGE_FAILURE)
            return try bus.nextError()
        }

        @Test(arguments: [
            ("key-system", "widevine", "clearkey, fairplay, playready"), ("keys", "nonsense", "keys"),
            ("keys", "\(Media.keyIDText):0011", ""),
            ("keys", "\(Media.keyIDText)", "1 field where “KID:KEY”, “KID:KEY:IV”"),
            ("keys-file", "/nonexistent/keys.txt", "/nonexistent/keys.txt"), ("keys-file", "/", "/"),
        ])
        func aPropertyThatCannotBeUsedStopsTheStart(name: String, value: String, text: String) throws {
            let error = try refusal([(name, .string(value))])
            #expect(error.isResourceError(GST_RESOURCE_ERROR_SETTINGS), "\(error)")
            #expect(error.text.hasPrefix("invalid configuration"), "\(error)")
            #expect(text.isEmpty || error.text.contains(text), "\(error)")
            #expect(!error.description.contains(Media.hex(Media.key)))
        }

        @Test func aKeysFileWithABadLineIsNamedWithTheLine() throws {
            let path = try write(
                "bad.txt", "\(Media.keyIDText) \(Media.hex(Media.key))\n\(Media.hex(Media.otherKey)) 00\n")
            let error = try refusal([("keys-file", .string(path))])
            #expect(error.isResourceError(GST_RESOURCE_ERROR_SETTINGS), "\(error)")
            #expect(error.text.contains(path) && error.text.contains("line 2"), "\(error)")
            #expect(!error.description.contains(Media.hex(Media.otherKey)))
        }

        @Test(arguments: [
            ("[latchkey]\nkey-sytem=clearkey\n", "key-sytem"), ("[latchkey]\nkey-timeout=soon\n", "key-timeout=soon"),
            ("[latchkey]\nkey-timeout=-1\n", "key-timeout=-1"), ("[latchkey]\nkey-system=other\n", "“other”"),
            ("[latchkey]\nmedia-license-urls=some\n", "media-license-urls=some is none of https, any, none"),
            ("[latchkey]\npartial-licenses=yes\n", "partial-licenses=yes is none of play, refuse"),
            ("[latchkey]\nenvelopes=yes\n", "envelopes=yes is neither on nor off"),
            ("[latchkey]\nplaylist-keys=0\n", "playlist-keys=0 is not in 1 to 25000"),
            ("[latchkey]\nplaylist-keys=25001\n", "playlist-keys=25001 is not in 1 to 25000"),
            ("[latchkey]\nplaylist-memory=0\n", "playlist-memory=0 is not in 1 to 1024"),
            ("[latchkey]\nplaylist-memory=1025\n", "playlist-memory=1025 is not in 1 to 1024"),
            ("[latchkey]\nsource-header-origins=a.example\n", "no.conf: source-header-origins has an entry"),
            ("[playready]\ncustom-data-origins=https://a.example;a.example/x y\n", "custom-data-origins has an entry"),
            ("no group=1\n", "no.conf cannot be used: its first line is in no [group]"),
            ("[fairplay]\npreset=other\n", "“other”"),
            ("[fairplay]\npresets=other\n", "“presets”"), ("[fairplay]\ntest-ask-file=no.hex\n", "/no.hex"),
            ("[fairplay]\nstored-keys=/dev/null/keys\n", "/dev/null/keys"),
            ("[latchkey]\nhttp-timeout=99999999999\n", "http-timeout"),
            ("[latchkey]\nkey-sytem=x\n", "no.conf: [latchkey] has the unknown key “key-sytem”; known are keys-file, "),
            ("[fairplay]\npresets=x\n", "no.conf: [fairplay] has the unknown key “presets”; known are certificate-"),
            (
                "[keys]\nkid=key\n",
                "no.conf: there is the unknown group “keys”; known are [latchkey], [http-headers], [fairplay], "
            ),
            ("[latchkey]\n[fair-play]\n", "no.conf: there is the unknown group “fair-play”; known are [latchkey], "),
            ("[Latchkey]\nkeys-file=k\n", "no.conf: there is an unknown group"),
            ("[latchkey]\nkeys-file[de]=k\n", "[latchkey] has the unknown key “keys-file[de]”"),
        ])
        func aConfigurationThatCannotBeUsedStopsTheStart(contents: String, text: String) throws {
            setenv("LATCHKEY_CONFIG", try write("no.conf", contents), 1)
            let error = try refusal()
            #expect(error.isResourceError(GST_RESOURCE_ERROR_SETTINGS), "\(error)")
            #expect(error.text.contains(text), "\(error)")
        }

        /// A file of keys, or a header in the wrong notation, where a configuration is expected.
        @Test(arguments: [
            ("{key} {key}\n", "line 1 is no “[group]”"), ("# keys\n[latchkey]\n\n {key}\n", "line 4 is no"),
            ("[http-headers]\nAuthorization: Bearer {key}\n", "line 2 is no"),
            ("[latchkey]\n{key}={key}\n", "an unknown key, which is not shown"),
            ("[{key}]\n", "an unknown group, which is not shown"), ("[latchkey\nkeys-file={key}\n", "line 1 is no"),
        ])
        func aConfigurationIsNeverQuoted(contents: String, text: String) throws {
            let secret = Media.hex(Media.key)
            setenv("LATCHKEY_CONFIG", try write("no.conf", contents.replacing("{key}", with: secret)), 1)
            let error = try refusal()
            #expect(error.isResourceError(GST_RESOURCE_ERROR_SETTINGS), "\(error)")
            #expect(error.text.contains(text), "\(error)")
            #expect(!error.description.contains(secret))
        }

        @Test func aConfigurationThatOthersMayWriteIsRefused() throws {
            let path = try write("no.conf", "[latchkey]\nkey-timeout=1000\n")
            #expect(try Configuration.read(path, required: true).keyTimeout == .seconds(1))
            #expect(chmod(path, 0o602) == 0)
            setenv("LATCHKEY_CONFIG", path, 1)
            #expect(try refusal().text.contains("the configuration file \(path): others may write to it"))
            // Nor is it passed over, as one that is not there is.
            #expect(throws: KeyError.self) { try Configuration.read(path, required: false) }
        }

        /// Others could put another file in its place, and in that of a file that it names.
        @Test func aConfigurationInAFolderThatOthersMayWriteIsRefused() throws {
            let path = try write("no.conf", "[latchkey]\nkey-timeout=1000\n")
            #expect(chmod(folder.path, 0o777) == 0)
            setenv("LATCHKEY_CONFIG", path, 1)
            let words = "its folder \(folder.path): others may write to it; run chmod go-w on it"
            #expect(try refusal().text.contains("the configuration file \(path): \(words)"))
            #expect(chmod(folder.path, 0o1777) == 0)
            #expect(try Configuration.read(path, required: true).keyTimeout == .seconds(1))
        }

        /// It decides which outputs count as protected.
        @Test func anOutputScriptThatOthersMayWriteIsRefused() throws {
            let path = try write("outputs", "0 eDP-1:internal\n")
            var settings = GuardSettings()
            settings.outputs = "script:\(path)"
            _ = try settings.provider()
            #expect(chmod(path, 0o602) == 0)
            let error = #expect(throws: OutputSettingError.self) { _ = try settings.provider() }
            #expect(error?.description.contains("the output script \(path): others may write to it") == true)
        }

        @Test func whetherQualitiesAreLeftOutIsASetting() throws {
            for choice in PartialLicenses.allCases {
                let path = try write("partial.conf", "[latchkey]\npartial-licenses=\(choice.rawValue)\n")
                #expect(try Configuration.read(path, required: true).partialLicenses == choice)
            }
            #expect(ControlSettings().partialLicenses == .play)
            let element = try #require(gst_element_factory_make("latchkeydashdemux", nil))
            gst_object_ref_sink(element)
            defer { gst_object_unref(element) }
            let bin = try #require(DASHDemuxer.implementation(of: element))
            var settings = ControlSettings()
            settings.partialLicenses = .refuse
            let shared = SharedSession(KeySession(), settings)
            #expect(bin.partialLicenses(shared) == .refuse)
            element.setProperty("partial-licenses", .string("play"))
            #expect(bin.partialLicenses(shared) == .play)
            element.setProperty("partial-licenses", .string(nil))
            #expect(bin.partialLicenses(shared) == .refuse)
        }

        @Test func whatIsAskedOfTheMediaIsASetting() throws {
            for urls in MediaLicenseURLs.allCases {
                let path = try write("urls.conf", "[latchkey]\nmedia-license-urls=\(urls.rawValue)\n")
                #expect(try Configuration.read(path, required: true).mediaLicenseURLs == urls)
            }
            let path = try write(
                "origins.conf", "[playready]\ncustom-data-origins=https://a.example;https://b.example:8443\n")
            let settings = try Configuration.read(path, required: true)
            #expect(settings.playReady?.customDataOrigins == ["https://a.example", "https://b.example:8443"])
            #expect(settings.mediaLicenseURLs == .https)
        }

        @Test func whereTheSourcesFieldsGoIsASetting() throws {
            let path = try write(
                "fields.conf", "[latchkey]\nsource-header-origins=https://a.example;https://b.example:8443\n")
            let configured = ["https://a.example", "https://b.example:8443"]
            let settings = try Configuration.read(path, required: true)
            #expect(settings.sourceHeaderOrigins == configured)
            #expect(ControlSettings().sourceHeaderOrigins.isEmpty)
            let element = try #require(gst_element_factory_make("latchkeydashdemux", nil))
            gst_object_ref_sink(element)
            defer { gst_object_unref(element) }
            let bin = try #require(DASHDemuxer.implementation(of: element))
            let shared = SharedSession(KeySession(), settings)
            #expect(try bin.headerOrigins(shared) == configured)
            for (text, origins) in [("*", ["*"]), ("", []), ("https://c.example", ["https://c.example"])] {
                element.setProperty("source-header-origins", .string(text))
                #expect(try bin.headerOrigins(shared) == origins)
            }
            element.setProperty("source-header-origins", .string("c.example"))
            #expect(throws: AdaptiveStartFailure.self) { try bin.headerOrigins(shared) }
            element.setProperty("source-header-origins", .string(nil))
            #expect(try bin.headerOrigins(shared) == configured)
        }

        @Test func theKeysOfAPlaylistAreASetting() throws {
            let path = try write("keys.conf", "[latchkey]\nplaylist-keys=20000\n")
            #expect(try Configuration.read(path, required: true).playlistKeys == 20_000)
            #expect(ControlSettings().playlistKeys == nil)
        }

        @Test func theMemoryForPlaylistsIsASetting() throws {
            let path = try write("memory.conf", "[latchkey]\nplaylist-memory=96\n")
            #expect(try Configuration.read(path, required: true).playlistMemory == 96 << 20)
            #expect(ControlSettings().playlistMemory == nil)
        }

        /// Of a file with secrets, and of no other.
        @Test func aWarningTellsOfSecretsThatOthersMayRead() async {
            await #expect(processExitsWith: .success) {
                let lines = Mutex<[String]>([])
                FileWarnings.setHandler { line in lines.withLock { $0.append(line) } }
                let folder = FileManager.default.temporaryDirectory.path + "/latchkey-" + UUID().uuidString
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
                defer { try? FileManager.default.removeItem(atPath: folder) }
                for (name, text, mode, count) in [
                    ("plain", "[latchkey]\nkey-timeout=1\n", 0o644, 0), ("private", "[http-headers]\nX=1\n", 0o600, 0),
                    ("headers", "[http-headers]\nX=1\n", 0o644, 1), ("data", "[playready]\ncustom-data=a\n", 0o644, 2),
                    ("credential", "[session]\nserver-url=https://a\ncredential=a\n", 0o604, 3),
                ] as [(String, String, mode_t, Int)] {
                    let path = "\(folder)/\(name)"
                    try text.write(toFile: path, atomically: false, encoding: .utf8)
                    #expect(chmod(path, mode) == 0)
                    for _ in 0..<2 { _ = try Configuration.read(path, required: true) }
                    let told = lines.withLock { $0 }
                    #expect(told.count == count, "\(name): \(told)")
                    #expect(count == 0 || told.last?.hasPrefix("the configuration file \(path) has secrets") == true)
                }
            }
        }

        /// `/dev/null` is how people say “none”; a folder is a mistake.
        @Test func whatIsNoRegularFileIsNoneOrNamed() throws {
            #expect(try Configuration.read("/dev/null", required: true) == ControlSettings())
            setenv("LATCHKEY_CONFIG", "/tmp", 1)
            #expect(try refusal().text.contains("the configuration file /tmp: not a regular file"))
        }

        @Test func theFairPlayGroupsAreRead() throws {
            let path = try write(
                "fairplay.conf",
                """
                [latchkey]
                key-formats=com.apple.streamingkeydelivery; identity;
                [fairplay]
                certificate-file=fps.cer
                preset=pallycon
                key-server-url=https://keys.example/
                [fairplay-headers]
                pallycon-customdata-v2=abc=
                [fairplay-parameters]
                siteId=S1
                """)
            let settings = try Configuration.read(path, required: true)
            #expect(settings.keyFormats == ["com.apple.streamingkeydelivery", "identity"])
            let fairPlay = try #require(settings.fairPlay)
            #expect(fairPlay.certificateFile == folder.appendingPathComponent("fps.cer").path)
            #expect(fairPlay.service.preset == .pallyCon)
            #expect(fairPlay.service.url == "https://keys.example/")
            #expect(fairPlay.service.headers.map(\.value) == ["abc="])
            #expect(fairPlay.service.parameters == ["siteId": "S1"])
            #expect(settings.makeLoaders().map(\.name) == ["FairPlay pallycon", "Clear Key"])
            #expect(try Configuration.read(try write("none.conf", "[latchkey]\n"), required: true).fairPlay == nil)
        }

        @Test func aConfigurationThatIsNotThereStopsTheStart() throws {
            setenv("LATCHKEY_CONFIG", "/nonexistent/latchkey.conf", 1)
            let error = try refusal()
            #expect(error.text.contains("/nonexistent/latchkey.conf"), "\(error)")
        }

        @Test func aContextThatCannotBeUsedStopsTheStart() throws {
            let error = try refusal(context: try context([("key-system", .string("other"))]))
            #expect(error.text.contains("“other”"), "\(error)")
        }

        @Test func aSessionsKeysFileThatIsNotThereIsNamedWhenItIsNeeded() throws {
            setenv("LATCHKEY_KEYS_FILE", "/nonexistent/keys.txt", 1)
            let harness = try Harness("latchkeycencdec")
            harness.start(caps: Media.bareVideo)
            #expect(harness.push(try Media.sample([1]).makeBuffer()) == .ok)
            let error = try harness.bus.nextError()
            #expect(error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY), "\(error)")
            #expect(error.text.contains("/nonexistent/keys.txt"), "\(error)")
        }
    }
}
