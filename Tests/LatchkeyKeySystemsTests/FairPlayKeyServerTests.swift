// SPDX-License-Identifier: MPL-2.0

@testable import LatchkeyTestAuthorities
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@testable import LatchkeyKeySystems

/// What the key server refuses, one thing after the other, and with which number. Each request is a golden one with one
/// change.
@Suite struct FairPlayKeyServerTests {
    private let server: FairPlayKeyServer
    private var request: ForgedRequest

    init() throws {
        server = try Golden.server()
        request = try ForgedRequest("spc-v1")
    }

    private func expect(
        _ error: FairPlayServerError, _ spc: [UInt8], sourceLocation: SourceLocation = #_sourceLocation
    ) {
        let thrown = #expect(throws: FairPlayServerError.self, sourceLocation: sourceLocation) { try server.open(spc) }
        #expect(thrown?.code == error.code, "\(thrown?.description ?? "")", sourceLocation: sourceLocation)
    }

    @Test func theForgedRequestIsAcceptedUnchanged() throws {
        #expect(try request.serialized() == (try Golden.file("spc-v1.bin")))
        _ = try server.open(try request.serialized())
    }

    @Test(arguments: [0, 3, 4, 0x0100_0000, UInt32.max])
    func anUnknownContainerVersion(version: UInt32) throws {
        var spc = try request.serialized()
        spc.replaceSubrange(0..<4, with: withUnsafeBytes(of: version.bigEndian) { Array($0) })
        expect(.requestVersion(""), spc)
    }

    @Test func aContainerOfAWrongLength() throws {
        let spc = try request.serialized()
        expect(.malformedRequest(""), [])
        expect(.malformedRequest(""), Array(spc.dropLast()))
        expect(.malformedRequest(""), spc + [0])
        expect(.malformedRequest(""), Array(spc.dropLast(16)))
        // A payload of no bytes, of 8, and one that claims 4 GiB.
        for length: [UInt8] in [[0, 0, 0, 0], [0, 0, 0, 8], [255, 255, 255, 255]] {
            let size = Int(length[3] == 255 ? 0 : length[3])
            expect(.malformedRequest(""), Array(spc[..<172]) + length + [UInt8](repeating: 1, count: size))
        }
        expect(.malformedRequest(""), spc + [UInt8](repeating: 0, count: 70_000))
    }

    @Test func anotherCertificate() throws {
        var spc = try request.serialized()
        spc[152] ^= 1
        expect(.cryptography(""), spc)
        // The right certificate, but this server has the other one only.
        let server = FairPlayKeyServer(authorities: [try Golden.authority(.v2)])
        let error = #expect(throws: FairPlayServerError.self) { try server.open(try request.serialized()) }
        #expect(error?.code == -42588)
    }

    @Test func aPayloadKeyThatCannotBeUnwrapped() throws {
        var spc = try request.serialized()
        spc[100] ^= 1
        expect(.cryptography(""), spc)
    }

    @Test(arguments: TLLV.Tag.requiredInRequest)
    func aMissingBlock(tag: TLLV.Tag) throws {
        var request = request
        request[tag] = nil
        expect(.missingBlock(""), try request.serialized())
    }

    @Test(arguments: TLLV.Tag.requiredInRequest + [TLLV.Tag(rawValue: 7)])
    func aBlockThatStandsThereTwice(tag: TLLV.Tag) throws {
        var request = request
        let block = request[tag] ?? TLLV(tag, [1], padding: Array(1...15))
        request.blocks += request[tag] == nil ? [block, block] : [block]
        expect(.duplicateBlock(""), try request.serialized())
    }

    @Test func paddingThatIsMissingOrNotRandom() throws {
        for tag in [TLLV.Tag.sessionKeyAndR1, .assetIdentifier, .transactionIdentifier] {
            let value = try #require(request[tag]).value
            let fill = (16 - value.count % 16) % 16
            for byte: UInt8 in [0x00, 0xFF, 0x5A] {
                var request = request
                request[tag] = TLLV(tag, value, padding: [UInt8](repeating: byte, count: fill + 16))
                expect(.malformedRequest(""), try request.serialized())
            }
            var request = request
            if fill == 0 {
                request[tag] = TLLV(tag, value, padding: [])
                expect(.malformedRequest(""), try request.serialized())
            }
            request[tag] = TLLV(tag, value, padding: (0..<fill + 32).map { UInt8($0) })
            _ = try server.open(try request.serialized())
        }
    }

    @Test func aReturnRequestThatCannotBeMet() throws {
        var request = request
        request.set(.returnRequest, ReturnRequest([.transactionIdentifier, .streamingIndicator]).tllvValue)
        expect(.missingBlock(""), try request.serialized())
        request.set(.returnRequest, ReturnRequest([.transactionIdentifier, .transactionIdentifier]).tllvValue)
        expect(.duplicateBlock(""), try request.serialized())
        request.set(.returnRequest, [1, 2, 3, 4, 5, 6, 7])
        expect(.malformedRequest(""), try request.serialized())
    }

    @Test(arguments: [
        (TLLV.Tag.sessionKeyAndR1, 96), (.sessionKeyAndR1, 128), (.sessionKeyAndR1Integrity, 15), (.antiReplaySeed, 17),
        (.r2, 20), (.transactionIdentifier, 7), (.protocolVersionsSupported, 0), (.protocolVersionsSupported, 6),
        (.protocolVersionUsed, 8), (.mediaPlaybackState, 15), (.streamingIndicator, 4), (.deviceIdentity, 35),
        (.requestIntegrity, 31),
    ])
    func aValueOfAWrongLength(tag: TLLV.Tag, size: Int) throws {
        var request = request
        request.set(tag, (0..<size).map { UInt8($0) })
        expect(.malformedRequest(""), try request.serialized())
    }

    @Test(arguments: [0, 1, 201, 4000])
    func anAssetIdentifierOfAWrongLength(size: Int) throws {
        var request = request
        request.set(.assetIdentifier, [UInt8](repeating: 0x41, count: size))
        expect(.invalidParameter(""), try request.serialized())
    }

    @Test func badIntegrityBytes() throws {
        var request = request
        var value = try #require(request[.sessionKeyAndR1Integrity]).value
        value[3] ^= 1
        request.set(.sessionKeyAndR1Integrity, value)
        expect(.integrity(""), try request.serialized())
    }

    @Test func aCodeThatDoesNotFit() throws {
        // One bit of padding is enough: this is what the code is for.
        var request = try ForgedRequest("spc-v1-full")
        _ = try server.open(try request.serialized())
        let last = try #require(request.blocks.last)
        var padding = last.padding
        padding[padding.count - 1] ^= 1
        request.blocks[request.blocks.count - 1] = TLLV(last.tag, last.value, padding: padding)
        expect(.integrity(""), try request.serialized())
        // Nor can it be made to vanish: the return request names it.
        request = try ForgedRequest("spc-v1-full")
        request[.requestIntegrity] = nil
        expect(.missingBlock(""), try request.serialized())
    }

    @Test func aRequestWithoutACodeWhereOneIsWanted() throws {
        let (spc, key) = (try request.serialized(), try Golden.key())
        let error = #expect(throws: FairPlayServerError.self) {
            try server.respond(to: spc, now: .zero, requiresIntegrity: true, key: { _ in key })
        }
        #expect(error?.code == -42583)
        _ = try server.respond(
            to: try Golden.file("spc-v1-full.bin"), now: .zero, requiresIntegrity: true, key: { _ in key })
    }

    @Test func anUnknownPlaybackState() throws {
        var request = request
        request.set(
            .mediaPlaybackState,
            MediaPlaybackState(referenceTime: 1, state: .init(rawValue: 1), sessionID: 2).tllvValue)
        expect(.invalidParameter(""), try request.serialized())
    }

    @Test func aProtocolVersionThatIsNotSpoken() throws {
        var request = request
        request.set(.protocolVersionUsed, ProtocolVersion(3).tllvValue)
        request.set(.protocolVersionsSupported, ProtocolVersions([1, 2, 3]).tllvValue)
        expect(.protocolVersion(""), try request.serialized())
        request.set(.protocolVersionUsed, ProtocolVersion(2).tllvValue)
        _ = try server.open(try request.serialized())
        request.set(.protocolVersionsSupported, ProtocolVersions([1]).tllvValue)
        expect(.protocolVersion(""), try request.serialized())
    }

    @Test func unknownBlocksAreIgnored() throws {
        var request = request
        for number in 1...50 { request.set(TLLV.Tag(rawValue: UInt64(number)), [1, 2, 3]) }
        request.blocks.shuffle()
        _ = try server.open(try request.serialized())
    }

    @Test func noKeyForTheAsset() throws {
        let spc = try request.serialized()
        let error = #expect(throws: FairPlayServerError.self) {
            try server.respond(to: spc, now: .zero, key: { _ in nil })
        }
        #expect(error?.code == -42584)
        #expect(error?.description.contains("0x") == true)  // the identifier is not ASCII
    }

    @Test func termsThatTheClientCannotKeep() throws {
        let (spc, key) = (try request.serialized(), try Golden.key())
        let terms = [
            FairPlayTerms(lease: 60), FairPlayTerms(rental: 60), FairPlayTerms(persistence: .unlimited),
            FairPlayTerms(
                offlineKey: OfflineKeyTerms(streamID: [UInt8](repeating: 1, count: 16), storage: 1, playback: 1)),
        ]
        for terms in terms {
            let error = #expect(throws: FairPlayServerError.self) {
                try Golden.server().respond(to: spc, now: .zero, terms: { _ in terms }, key: { _ in key })
            }
            #expect(error?.code == -42583)
        }
    }

    @Test func nothingIsAnsweredTwiceWithinTheWindow() throws {
        let key = try Golden.key()
        func respond(_ request: ForgedRequest, at seconds: Int64) throws {
            _ = try server.respond(to: try request.serialized(), now: .seconds(seconds), key: { _ in key })
        }
        try respond(request, at: 0)
        let replay = FairPlayServerError.replay("")
        #expect(replay.code == -42585)
        func expectReplay(_ request: ForgedRequest, at seconds: Int64) {
            let error = #expect(throws: FairPlayServerError.self) { try respond(request, at: seconds) }
            #expect(error?.isSameKind(as: replay) == true)
        }
        expectReplay(request, at: 0)
        expectReplay(request, at: 599)
        // Another transaction with the same R1, and another R1 with the same transaction.
        var other = request
        other.set(.transactionIdentifier, [1, 2, 3, 4, 5, 6, 7, 8])
        expectReplay(other, at: 599)
        other = try ForgedRequest("spc-v1-full")
        other[.requestIntegrity] = nil
        other.set(.returnRequest, [])
        other.set(.transactionIdentifier, try Golden.bytes(try Golden.values("spc-v1").transaction))
        expectReplay(other, at: 599)
        // After the window all is forgotten.
        try respond(request, at: 600)
        expectReplay(request, at: 601)
    }

    @Test func aRequestThatIsRefusedDoesNotBlockTheRightOne() throws {
        let key = try Golden.key()
        var bad = request
        bad.set(.assetIdentifier, [1])
        #expect(throws: FairPlayServerError.self) {
            try server.respond(to: try bad.serialized(), now: .zero, key: { _ in key })
        }
        _ = try server.respond(to: try request.serialized(), now: .zero, key: { _ in key })
    }
}
