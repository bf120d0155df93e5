// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyKeySession
import LatchkeyProtection
import Testing

@Suite("Loaders of known keys", .timeLimit(.minutes(8)))
struct FileLoaderTests {
    private let folder = TemporaryFolder()

    @Test func staticKeysAnswerWhateverTheKeySystem() async throws {
        let keys = try StaticKeys.parse(property: "\(keyID(1)):\(keyHex(1)),\(keyID(2)):\(keyHex(2))")
        let session = KeySession(loaders: [StaticKeyLoader(keys)])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1), keyID(2)], keySystem: .fairPlay))
        _ = await watcher.next(where: \.isUsable)
        #expect(hex(session.status(of: keyID(2)).key) == keyHex(2))
        #expect(watcher.summaries == ["requested 2", "usable 2"])
    }

    @Test func aKeyThatStaticKeysLackGoesToTheNextLoader() async throws {
        let keys = try StaticKeys.parse(property: "\(keyID(1)):\(keyHex(1))")
        let session = KeySession(loaders: [
            StaticKeyLoader(keys),
            CallbackLoader { request in
                let keys = request.missingKeyIDs.reduce(into: [KeyID: ContentKey]()) { $0[$1] = contentKey(50) }
                return request.finishLoading(with: .keys(keys))
            },
        ])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1), keyID(2)]))
        _ = await watcher.next(where: \.isUsable)
        _ = await watcher.next(where: \.isUsable)
        #expect(hex(session.status(of: keyID(1)).key) == keyHex(1))
        #expect(hex(session.status(of: keyID(2)).key) == keyHex(50))
    }

    @Test func twoLoadersWithHalfTheKeysEachAnswerTogether() async throws {
        let first = try StaticKeys.parse(property: "\(keyID(1)):\(keyHex(1))")
        let second = try StaticKeys.parse(property: "\(keyID(2)):\(keyHex(2))")
        let session = KeySession(loaders: [StaticKeyLoader(first), StaticKeyLoader(second)])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1), keyID(2)]))
        _ = await watcher.next(where: \.isUsable)
        _ = await watcher.next(where: \.isUsable)
        #expect(watcher.summaries == ["requested 2", "usable 1", "usable 1"])
        #expect(session.status(of: keyID(2)).key != nil)
    }

    @Test func mediaWithoutAKIDGetsTheKeyOfItsURLOrTheStar() async throws {
        let keys = try StaticKeys.parse(property: "*:\(keyHex(1)),https://host/key:\(keyHex(2))")
        for (url, expected) in [("https://host/key", keyHex(2)), ("https://host/other", keyHex(1)), (nil, keyHex(1))] {
            let session = KeySession(loaders: [StaticKeyLoader(keys)])
            let watcher = Watcher(session)
            session.demand(KeyDemand(keyIDs: [], suggestedURL: url))
            _ = await watcher.next(where: \.isUsable)
            #expect(hex(session.status(of: nil).key) == expected)
        }
    }

    @Test func theStarIsNoKeyForMediaWithAKID() async throws {
        let keys = try StaticKeys.parse(property: "*:\(keyHex(1))")
        let session = KeySession(loaders: [StaticKeyLoader(keys)])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        _ = await watcher.next(where: \.isUntaken)
        #expect(session.status(of: keyID(1)).isPending)
    }

    @Test func aKeysFileIsReadAgainWhenItChanges() async {
        let path = folder.write("\(keyID(1)) \(keyHex(1))\n", to: "keys")
        let session = KeySession(loaders: [KeysFileLoader(path: path)])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        _ = await watcher.next(where: \.isUsable)
        #expect(hex(session.status(of: keyID(1)).key) == keyHex(1))

        session.demand(KeyDemand(keyIDs: [keyID(2)]))
        _ = await watcher.next(where: \.isUntaken)
        folder.write("\(keyID(3)) \(keyHex(3))\n", to: "keys")
        session.demand(KeyDemand(keyIDs: [keyID(3)]))
        _ = await watcher.next(where: \.isUsable)
        #expect(hex(session.status(of: keyID(3)).key) == keyHex(3))
    }

    @Test func aKeysFileThatCannotBeReadFailsTheRequestByName() async {
        let missing = folder.path + "/missing"
        let session = KeySession(loaders: [KeysFileLoader(path: missing)])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        _ = await watcher.next(where: \.isFailed)
        let error = session.status(of: keyID(1)).error
        #expect(error?.isSameKind(as: .invalidConfiguration("")) == true)
        #expect(error?.description.contains("\(missing): No such file") == true)

        // The file comes, and a retry works.
        folder.write("\(keyID(1)) \(keyHex(1))\n", to: "missing")
        session.demand(KeyDemand(keyIDs: [keyID(1)], retryFailuresUpTo: session.generation))
        _ = await watcher.next(where: \.isUsable)
        #expect(session.status(of: keyID(1)).key != nil)
    }

    @Test func aKeysFileThatIsWrongFailsTheRequestByLine() async {
        let path = folder.write("# keys\n\(keyID(1)) \(keyHex(1).dropLast())\n", to: "keys")
        let session = KeySession(loaders: [KeysFileLoader(path: path), CallbackLoader { _ in false }])
        let watcher = Watcher(session)
        session.demand(KeyDemand(keyIDs: [keyID(1)]))
        _ = await watcher.next(where: \.isFailed)
        let text = session.status(of: keyID(1)).error?.description ?? ""
        #expect(text.contains(path))
        #expect(text.contains("line 2"))
        #expect(!text.contains(keyHex(1).dropLast()))
    }
}
