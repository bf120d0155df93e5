// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import Foundation
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySystems

/// golden.py, which shares no code with Latchkey, opens what Latchkey's client and server make.
@Suite struct FairPlayPeerTests {
    private struct Opened: Decodable {
        var asset, hu, sk, r1, seed, transaction: String
        var blocks: [String: String]
    }

    private struct Answer: Decodable {
        var version: UInt32
        var iv, key: String?
        var blocks: [String: String]
    }

    private func run(_ arguments: [String], input: [UInt8]) throws -> Data {
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", Golden.folder.appendingPathComponent("golden.py").path] + arguments
        let (source, result) = (Pipe(), Pipe())
        process.standardInput = source
        process.standardOutput = result
        try process.run()
        // An SPC fits into the pipe, so that writing does not wait for the reader.
        try source.fileHandleForWriting.write(contentsOf: Data(input))
        try source.fileHandleForWriting.close()
        let output = try #require(try result.fileHandleForReading.readToEnd())
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        return output
    }

    @Test(arguments: SPCContainer.Version.allCases)
    func itOpensOurRequestsAndOurAnswers(version: SPCContainer.Version) throws {
        let authority = try Golden.authority(version)
        var options = FairPlayExchange.Options(state: .readyToStart, time: 1_700_000_000, sessionID: 3)
        options.deviceIdentifier = Array(1...20)
        let exchange = try FairPlayExchange(
            certificate: authority.certificate, contentIdentifier: Array("skd://peer/ü".utf8), options: options,
            provider: authority.provider)
        let output = try run(["open-spc"], input: exchange.request)
        let opened = try JSONDecoder().decode(Opened.self, from: output)
        #expect(opened.asset == Hex.encode("skd://peer/ü".utf8))
        #expect(opened.hu == Hex.encode(1...20))
        #expect(opened.transaction == Hex.encode(exchange.transactionIdentifier))
        #expect(opened.blocks["67b8fb79ecce1a13"] == "00000001")
        #expect(opened.blocks["5d81bcbcc7f61703"] == "00000001")
        #expect(opened.blocks["eb8efdf2b25ab3a0"] == "6553f100f4dee5a20000000000000003")
        #expect(opened.blocks.count == 11)

        let key = try Golden.key()
        let answer = try Golden.server().respond(
            to: exchange.request, now: .zero,
            terms: { _ in FairPlayTerms(lease: 60, rental: 3600, outputRequirement: .hdcpType0) }, key: { _ in key })
        let secrets = #"{"r1":"\#(opened.r1)","seed":"\#(opened.seed)","sk":"\#(opened.sk)"}"#
        let read = try JSONDecoder().decode(
            Answer.self, from: try run(["open-ckc", secrets], input: answer.ckc))
        let known = try Golden.known()
        #expect(read.version == version.rawValue)
        #expect(read.key == known.contentKey)
        #expect(read.iv == known.contentIV)
        #expect(read.blocks["47acf6a418cd091a"] == "0000003c00000e1027b59bde86d34a3a")
        #expect(read.blocks["2e52f1530d8ddb4a"] == "40791ac78bd5c5710000000000000000")
        #expect(read.blocks["47aa7ad3440577de"] == opened.transaction)
    }

    /// The files of the folder are what the script makes, and not edited by hand.
    @Test func theFilesAreTheScripts() throws {
        let copy = FileManager.default.temporaryDirectory.appendingPathComponent("latchkey-\(UUID().uuidString)")
        try FileManager.default.copyItem(at: Golden.folder, to: copy)
        defer { try? FileManager.default.removeItem(at: copy) }
        let names = try FileManager.default.contentsOfDirectory(atPath: copy.path).filter {
            $0.hasSuffix(".bin") || $0.hasSuffix(".json")
        }
        #expect(names.count == Golden.requests.count + Golden.responses.count + 2)
        for name in names { try FileManager.default.removeItem(at: copy.appendingPathComponent(name)) }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/usr/bin/env")
        process.arguments = ["python3", copy.appendingPathComponent("golden.py").path, "make"]
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
        for name in names {
            #expect(
                Array(try Data(contentsOf: copy.appendingPathComponent(name))) == (try Golden.file(name)), "\(name)")
        }
    }
}
