// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import LatchkeyProtection
import Synchronization
import Testing

@testable import LatchkeyKeySession

/// Downloads of content that names many keys, whose server never answers.
@Suite(.timeLimit(.minutes(2)))
struct KeyStoringTests {
    private let many = (1...500).map {
        HLSKey(method: .sampleAES, uri: "skd://\($0)", keyFormat: HLSKeyFormat.fairPlay.name)
    }

    private func store(
        _ silent: Silent, timeout: Duration = .seconds(60), limit: Duration = .seconds(60)
    ) async -> [KeyError?] {
        let storing = KeyStoring(timeout: timeout, limit: limit) { () throws(KeyError) in
            var configuration = KeySessionConfiguration()
            configuration.isForStorage = true
            return KeySession(loaders: [silent], configuration: configuration)
        }
        return await storing.store(many).map { if case .refused(let error) = $0 { error } else { nil } }
    }

    private final class Silent: ResourceLoader {
        let name = "silent"
        let asked = Mutex(0)
        let whenAsked: @Sendable () -> Void

        init(whenAsked: @escaping @Sendable () -> Void = {}) { self.whenAsked = whenAsked }

        func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool {
            asked.withLock { $0 += 1 }
            whenAsked()
            return true
        }
    }

    @Test func aServerThatNeverAnswersIsWaitedForOnce() async throws {
        let silent = Silent()
        let outcomes = await store(silent, timeout: .milliseconds(1))
        #expect(silent.asked.withLock(\.self) <= 1)
        #expect(
            outcomes.count == 500 && outcomes.allSatisfy { $0?.isSameKind(as: .timedOut("")) == true },
            "\(outcomes.prefix(2))")
        #expect(outcomes.dropFirst().allSatisfy { $0?.reason.contains("not asked for") == true })
    }

    @Test func allKeysTogetherHaveAnEnd() async throws {
        let silent = Silent()
        let outcomes = await store(silent, limit: .zero)
        #expect(silent.asked.withLock(\.self) == 0)
        #expect(outcomes.count == 500 && outcomes.allSatisfy { $0?.reason.contains("for all keys are over") == true })
    }

    @Test func aPausedDownloadAsksForNothingMore() async throws {
        let (asked, signal) = AsyncStream.makeStream(of: Void.self)
        let silent = Silent { signal.yield() }
        let task = Task { await store(silent) }
        for await _ in asked { break }
        task.cancel()
        let outcomes = await task.value
        #expect(silent.asked.withLock(\.self) == 1)
        #expect(outcomes.count == 500 && outcomes.allSatisfy { $0?.reason.contains("the download was paused") == true })
    }

    /// Answers, and needs a network for that.
    private final class Remote: ResourceLoader {
        let name = "remote"
        let base: StaticKeyLoader

        init(_ base: StaticKeyLoader) { self.base = base }

        func shouldWaitForLoading(of request: KeyLoadingRequest) -> Bool { base.shouldWaitForLoading(of: request) }
    }

    /// A track of transport streams tells no KID, and one of fragmented MP4 with the same key does.
    @Test(arguments: [false, true], [false, true])
    func aKeyThatIsThereIsNotAskedForAgain(isRemote: Bool, isNamedFirst: Bool) async throws {
        let keys = try StaticKeys.parse(
            file: Array("skd://a \(keyHex(3)) 000102030405060708090a0b0c0d0e0f".utf8), name: "keys")
        let local = StaticKeyLoader(keys)
        let loader: any ResourceLoader = isRemote ? Remote(local) : local
        let storing = KeyStoring(timeout: .seconds(5), limit: .seconds(60)) { () throws(KeyError) in
            var configuration = KeySessionConfiguration()
            configuration.isForStorage = true
            return KeySession(loaders: [loader], configuration: configuration)
        }
        let plain = HLSKey(method: .sampleAES, uri: "skd://a", keyFormat: HLSKeyFormat.fairPlay.name)
        var named = plain
        named.keyID = keyID(1)
        let outcomes = await storing.store(isNamedFirst ? [named, plain] : [plain, named])
        #expect(outcomes.count == 2)
        for outcome in outcomes {
            switch outcome {
            case .stored: #expect(!isRemote)
            case .refused(let error): #expect(isRemote && error.isSameKind(as: .denied("")), "\(error)")
            case .untaken: Issue.record("no loader took it")
            }
        }
    }
}
