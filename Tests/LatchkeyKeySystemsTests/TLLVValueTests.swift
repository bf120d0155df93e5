// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyKeySystems
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

/// The value of each block, byte for byte as the tables have it.
@Suite struct TLLVValueTests {
    private func expect<Value: TLLVValue>(
        _ value: Value, _ text: String, sourceLocation: SourceLocation = #_sourceLocation
    ) throws {
        let bytes = try #require(Hex.decode(text.filter { !$0.isWhitespace }), sourceLocation: sourceLocation)
        #expect(value.tllvValue == bytes, sourceLocation: sourceLocation)
        #expect(try Value(tllvValue: bytes) == value, sourceLocation: sourceLocation)
        let payload = try TLLVPayload([TLLV(Value.tag, bytes, padding: [])])
        #expect(try payload.value(Value.self) == value, sourceLocation: sourceLocation)
        #expect(try TLLVPayload([]).value(Value.self) == nil, sourceLocation: sourceLocation)
    }

    @Test func theBytesAreThoseOfTheTables() throws {
        try expect(ProtocolVersion(2), "00000002")
        try expect(ProtocolVersions([1, 2]), "00000001 00000002")
        try expect(ReturnRequest([]), "")
        try expect(
            ReturnRequest([.transactionIdentifier, .assetIdentifier]), "47aa7ad3440577de 1bf7f53f5d5d5a1f")
        for (state, digits) in [
            (MediaPlaybackState.State.readyToStart, "f4dee5a2"), (.playing, "a5d6739e"),
            (.playingAndLeaseExpires, "4f834330"), (.stopped, "5991bf20"), (.init(rawValue: 7), "00000007"),
        ] {
            try expect(
                MediaPlaybackState(referenceTime: 0x6553_F100, state: state, sessionID: 0x0102_0304_0506_0708),
                "6553f100 \(digits) 0102030405060708")
            #expect(state.isKnown == (state.rawValue != 7))
        }
        try expect(StreamingIndicator.airPlay, "abb0256a31843974")
        try expect(StreamingIndicator.digitalAVAdapter, "5f9c8132b59f2fde")
        try expect(StreamingIndicator.onDevice, "0000000000000000")
        try expect(
            DeviceIdentity(
                version: 1, deviceClass: 2, vendorHash: 3, productHash: 4, reeVersion: 5, teeVersion: 6, osVersion: 7),
            "00000001 00000002 0000000000000003 0000000000000004 00000005 00000006 00000007")
        try expect(
            DeviceIdentity(deviceClass: 2, vendorHash: 3, productHash: 4, rest: [0xAB]),
            "00000001 00000002 0000000000000003 0000000000000004 00000000 00000000 00000000 ab")
        for (kind, digits) in [
            (ContentKeyDuration.Kind.lease, "1a4bde7e"), (.rental, "3dfe45a0"), (.leaseAndRental, "27b59bde"),
            (.persistent, "3df2d9fb"), (.persistentForRental, "18f06048"),
        ] {
            try expect(
                ContentKeyDuration(lease: 60, rental: 3600, kind: kind), "0000003c 00000e10 \(digits) 86d34a3a")
        }
        try expect(ContentKeyDuration(kind: .persistent), "ffffffff ffffffff 3df2d9fb 86d34a3a")
        for (requirement, digits) in [
            (OutputRequirement.unprotected, "ef72894ca7895b78"), (.hdcpType0, "40791ac78bd5c571"),
            (.hdcpType1, "285a0863bba8e1d3"),
        ] {
            try expect(HDCPRequirement(requirement), "\(digits) 0000000000000000")
            // The short form is read too.
            #expect(try HDCPRequirement(tllvValue: try #require(Hex.decode(digits))).requirement == requirement)
        }
        let id = [UInt8](repeating: 0xAA, count: 16)
        let digits = String(repeating: "aa", count: 16)
        try expect(
            try #require(OfflineKeyTerms(streamID: id, storage: 86400, playback: 3600)),
            "00000001 00000000 \(digits) 00015180 00000e10")
        try expect(
            try #require(OfflineKeyTerms(streamID: id, titleID: id, storage: 0, playback: 1)),
            "00000002 00000000 \(digits) 00000000 00000001 \(digits)")
    }

    @Test func onlyPlayingAndStoppedNeedNoContentKey() {
        #expect(MediaPlaybackState.State.readyToStart.requiresContentKey)
        #expect(MediaPlaybackState.State.playingAndLeaseExpires.requiresContentKey)
        #expect(MediaPlaybackState.State(rawValue: 1).requiresContentKey)
        #expect(!MediaPlaybackState.State.playing.requiresContentKey)
        #expect(!MediaPlaybackState.State.stopped.requiresContentKey)
    }

    @Test func identifiersOfStoredKeysHaveSixteenBytes() {
        let id = [UInt8](repeating: 1, count: 16)
        #expect(OfflineKeyTerms(streamID: [1], storage: 0, playback: 0) == nil)
        #expect(OfflineKeyTerms(streamID: id, titleID: [], storage: 0, playback: 0) == nil)
        #expect(OfflineKeyTerms(streamID: id, titleID: id, storage: 0, playback: 0)?.version == 2)
    }

    /// Everything but the lengths that a value may have.
    @Test func refusesOtherLengths() {
        func refuses<Value: TLLVValue>(
            _ type: Value.Type, _ allowed: Set<Int>, upTo limit: Int = 64, step: Int? = nil, from minimum: Int? = nil
        ) {
            for size in 0...limit {
                let isAllowed =
                    allowed.contains(size) || step.map { size % $0 == 0 && size > 0 } ?? false
                    || minimum.map { size >= $0 } ?? false
                if isAllowed { continue }
                #expect(throws: FormatError.self, "\(type), \(size) bytes") {
                    try Value(tllvValue: [UInt8](repeating: 0x11, count: size))
                }
            }
        }
        refuses(ProtocolVersion.self, [4])
        refuses(ProtocolVersions.self, [], step: 4)
        refuses(ReturnRequest.self, [0], step: 8)
        refuses(MediaPlaybackState.self, [16])
        refuses(StreamingIndicator.self, [8])
        refuses(DeviceIdentity.self, [], from: 36)
        refuses(ContentKeyDuration.self, [])
        refuses(HDCPRequirement.self, [])
        refuses(OfflineKeyTerms.self, [])
    }

    @Test(arguments: [
        ("0000003c 00000e10 00000000 86d34a3a", FormatError.malformed("")),
        ("0000003c 00000e10 1a4bde7e 00000000", .malformed("")),
    ])
    func refusesADurationThatIsNone(text: String, kind: FormatError) throws {
        let bytes = try #require(Hex.decode(text.filter { !$0.isWhitespace }))
        let error = #expect(throws: FormatError.self) { try ContentKeyDuration(tllvValue: bytes) }
        #expect(error?.isSameKind(as: kind) == true)
    }

    @Test func refusesVersionsAndLevelsThatAreNotKnown() {
        var offline = [UInt8](repeating: 0, count: 48)
        for version: UInt8 in [0, 3, 255] {
            offline[3] = version
            let error = #expect(throws: FormatError.self) { try OfflineKeyTerms(tllvValue: offline) }
            #expect(error?.isSameKind(as: .unsupported("")) == true)
        }
        // The length of the other version.
        offline[3] = 1
        #expect(throws: FormatError.self) { try OfflineKeyTerms(tllvValue: offline) }
        offline[3] = 2
        #expect(throws: FormatError.self) { try OfflineKeyTerms(tllvValue: Array(offline.prefix(32))) }
        let error = #expect(throws: FormatError.self) {
            try HDCPRequirement(tllvValue: [UInt8](repeating: 9, count: 16))
        }
        #expect(error?.isSameKind(as: .unsupported("")) == true)
    }

    @Test(arguments: [UInt64(1), 2])
    func anyBytesThrowOrAreReadAndNeverTrap(seed: UInt64) {
        var generator = SeededGenerator(seed: seed)
        func check<Value: TLLVValue>(_ type: Value.Type, _ bytes: [UInt8]) {
            guard let value = try? Value(tllvValue: bytes) else { return }
            #expect((try? Value(tllvValue: value.tllvValue)) == value)
        }
        for _ in 0..<500 {
            let bytes = generator.bytes([4, 8, 16, 32, 36, 48, 5].randomElement(using: &generator) ?? 0)
            check(ProtocolVersion.self, bytes)
            check(ProtocolVersions.self, bytes)
            check(ReturnRequest.self, bytes)
            check(MediaPlaybackState.self, bytes)
            check(StreamingIndicator.self, bytes)
            check(DeviceIdentity.self, bytes)
            check(ContentKeyDuration.self, generator.mutate(ContentKeyDuration(lease: 1, kind: .lease).tllvValue))
            check(HDCPRequirement.self, generator.mutate(HDCPRequirement(.hdcpType0).tllvValue))
            check(OfflineKeyTerms.self, bytes)
        }
    }
}
