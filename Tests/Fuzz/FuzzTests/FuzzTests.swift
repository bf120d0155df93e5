// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyFuzzTargets
import LatchkeyTestSupport
import Testing

@Suite("Fuzz targets")
struct FuzzTests {
    private static let corpus = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Corpus")

    private static func inputs(of target: String) throws -> [[UInt8]] {
        try FileManager.default.contentsOfDirectory(
            at: corpus.appending(path: target), includingPropertiesForKeys: nil
        )
        .sorted { $0.path < $1.path }.map { Array(try Data(contentsOf: $0)) }
    }

    /// What the fuzzer found worth keeping.
    @Test(arguments: FuzzTarget.all.map(\.name)) func theCorpusIsReplayed(name: String) throws {
        let target = try #require(FuzzTarget.named(name))
        let inputs = try Self.inputs(of: name)
        #expect(!inputs.isEmpty)
        for input in inputs { target.run(input) }
    }

    /// A short run without coverage: bytes changed, left out, repeated and put together from two inputs.
    @Test(arguments: FuzzTarget.all.map(\.name)) func changedInputsComeBack(name: String) throws {
        let target = try #require(FuzzTarget.named(name))
        let inputs = try Self.inputs(of: name).filter { $0.count < 64 * 1024 }
        var random = SeededGenerator(seed: 17)
        for _ in 0..<400 {
            guard var input = inputs.randomElement(using: &random) else { return }
            for _ in 0..<Int.random(in: 1...4, using: &random) {
                let place = input.isEmpty ? 0 : Int.random(in: 0..<input.count, using: &random)
                let end = input.isEmpty ? 0 : Int.random(in: place...input.count, using: &random)
                switch Int.random(in: 0..<6, using: &random) {
                case 0 where !input.isEmpty: input[place] = .random(in: 0...255, using: &random)
                case 1 where !input.isEmpty: input[place] = [0, 0xFF, 0x7F, 0x80].randomElement(using: &random) ?? 0
                case 2: input.removeSubrange(place..<end)
                case 3: input.insert(contentsOf: input[place..<min(end, place + 256)], at: place)
                case 4: input = input[..<place] + (inputs.randomElement(using: &random) ?? []).suffix(4096)
                default: input.removeLast(input.count - end)
                }
            }
            target.run(input)
        }
    }

    @Test func theCorpusHasNoFolderOfAnUnknownTarget() throws {
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.corpus.path)
        #expect(Set(folders) == Set(FuzzTarget.all.map(\.name)))
    }
}
