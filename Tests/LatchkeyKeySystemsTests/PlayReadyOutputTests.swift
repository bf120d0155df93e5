// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import LatchkeyContainers
import LatchkeyProtection
import Testing

@testable import LatchkeyKeySystems

@Suite struct PlayReadyOutputTests {
    @Test(arguments: [
        (UInt16(0), OutputRule.pass, OutputRule.pass, OutputRule.pass, OutputRule.pass),
        (100, .pass, .pass, .pass, .pass),
        (101, .pass, .copyNever(isRequired: false), .pass, .block),
        (150, .pass, .copyNever(isRequired: false), .pass, .block),
        (151, .pass, .copyNever(isRequired: true), .pass, .block),
        (200, .pass, .copyNever(isRequired: true), .pass, .block),
        (201, .tryToProtect, .block, .copyNever(isRequired: true), .block),
        (250, .tryToProtect, .block, .copyNever(isRequired: true), .block),
        (251, .protectOrReduce(pixels: 520_000), .block, .require(.hdcpType0), .block),
        (270, .protectOrReduce(pixels: 520_000), .block, .require(.hdcpType0), .block),
        (271, .require(.hdcpType0), .block, .require(.hdcpType0), .block),
        (300, .require(.hdcpType0), .block, .require(.hdcpType0), .block),
        (301, .block, .block, .block, .block), (500, .block, .block, .block, .block),
    ])
    func levels(
        level: UInt16, video: OutputRule, analog: OutputRule, audio: OutputRule, compressedAudio: OutputRule
    ) {
        var terms = XMRTerms()
        terms.outputLevels = .init(
            compressedDigitalVideo: level, uncompressedDigitalVideo: level, analogVideo: level,
            compressedDigitalAudio: level, uncompressedDigitalAudio: level)
        let policy = OutputPolicy(terms)
        #expect(policy.digitalVideo == video && policy.analogVideo == analog && policy.digitalAudio == audio)
        #expect(policy.compressedAudio == compressedAudio && policy.compressedVideo == .block)
        #expect(policy.unknownOutputs == .block && !policy.allowsAirPlay)
    }

    private func policy(
        _ video: UInt16 = 300, analog: [(PlayReadyOutputID, [UInt8])] = [],
        digital: [(PlayReadyOutputID, [UInt8])] = [],
        audio: [(PlayReadyOutputID, [UInt8])] = [], enablers: [PlayReadyOutputID] = [], swapped: Bool = false
    ) throws -> OutputPolicy {
        func items(_ list: [(PlayReadyOutputID, [UInt8])]) throws -> [XMRTerms.ExplicitProtection] {
            try list.map { item in
                let id = try #require(item.0.id)
                return .init(swapped ? id.swapped : id, data: item.1)
            }
        }
        var terms = XMRTerms()
        terms.outputLevels = .init(uncompressedDigitalVideo: video)
        terms.analogProtections = try items(analog)
        terms.digitalVideoProtections = try items(digital)
        terms.digitalAudioProtections = try items(audio)
        terms.playEnablers = try enablers.map { swapped ? try #require($0.id).swapped : try #require($0.id) }
        return OutputPolicy(terms)
    }

    @Test(arguments: [false, true]) func explicitProtectionsInEitherByteOrder(swapped: Bool) throws {
        // The data of the published example: 1080 rows of 1920.
        let frame = try #require(Base64.decode("AAAEOAAAB4A="))
        let limited = try policy(digital: [(.maximumEffectiveResolution, frame)], swapped: swapped)
        let maximum = try #require(limited.maximumFrame)
        #expect(maximum == .init(width: 1920, height: 1080))
        #expect(maximum.holds(width: 1920, height: 1080) && maximum.holds(width: 1080, height: 1920))
        #expect(!maximum.holds(width: 1921, height: 1) && !maximum.holds(width: 1500, height: 1500))
        #expect(limited.requirement == .hdcpType0)
        for data: [UInt8] in [[0, 0, 0, 1], [1, 0, 0, 0]] {
            #expect(try policy(digital: [(.hdcpType, data)], swapped: swapped).requirement == .hdcpType1)
            #expect(try policy(270, digital: [(.hdcpType, data)], swapped: swapped).requirement == .hdcpType0)
        }
        let enabled = try policy(enablers: [.unknownOutputReduced, .airPlay], swapped: swapped)
        #expect(enabled.unknownOutputs == .protectOrReduce(pixels: 520_000) && enabled.allowsAirPlay)
        #expect(
            try policy(enablers: [.unknownOutput, .unknownOutputReduced], swapped: swapped).unknownOutputs == .pass)
    }

    @Test func analogProtections() throws {
        #expect(try policy(analog: [(.copyGenerationRequired, [])]).analogVideo == .copyNever(isRequired: true))
        #expect(try policy(analog: [(.copyGenerationBestEffort, [])]).analogVideo == .copyNever(isRequired: false))
        #expect(try policy(analog: [(.automaticGainControl, [0, 0, 0, 0])]).analogVideo == .pass)
        #expect(try policy(analog: [(.automaticGainControl, [2, 0, 0, 0])]).analogVideo == .block)
        #expect(try policy(analog: [(.analogMonitor, [])]).analogMonitor == .protectOrReduce(pixels: 520_000))
        #expect(try policy(analog: [(.analogComponent, [])]).analogVideo == .protectOrReduce(pixels: 520_000))
        let digital = try policy(analog: [(.digitalOnly, []), (.analogMonitor, [])])
        #expect(digital.analogVideo == .block && digital.analogMonitor == .block && digital.digitalVideo != .block)
        #expect(try policy(analog: [(.serialCopyManagement, [])]).digitalAudio == .copyNever(isRequired: true))
        #expect(try policy(audio: [(.serialCopyManagement, [])]).digitalAudio == .copyNever(isRequired: true))
    }

    /// From the bytes of a license to what an evaluator of outputs takes: nothing gets lost on the way.
    @Test func everyOutputObjectOfALicenseReachesThePolicy() throws {
        func item(_ id: PlayReadyOutputID, _ data: [UInt8] = []) throws -> XMRTerms.ExplicitProtection {
            .init(try #require(id.id), data: data)
        }
        var terms = XMRTerms()
        terms.allowsPlayback = true
        terms.outputLevels = .init(
            compressedDigitalVideo: 500, uncompressedDigitalVideo: 300, analogVideo: 150, compressedDigitalAudio: 100,
            uncompressedDigitalAudio: 260)
        terms.analogProtections = [try item(.copyGenerationRequired), try item(.analogMonitor)]
        terms.digitalVideoProtections = [
            try item(.maximumEffectiveResolution, [0, 0, 4, 0x38, 0, 0, 7, 0x80]), try item(.hdcpType, [0, 0, 0, 1]),
        ]
        terms.digitalAudioProtections = [try item(.serialCopyManagement, [0, 0, 0, 1])]
        terms.playEnablers = [
            try #require(PlayReadyOutputID.unknownOutputReduced.id), try #require(PlayReadyOutputID.airPlay.id),
        ]
        let id = try #require(GUID("4C4B444D-0000-0000-0000-000000000001"))
        let license = try XMRLicense.make(rightsID: id, objects: terms.objects) { _ in [UInt8](repeating: 0, count: 16)
        }
        let read = try XMRTerms(XMRLicense(reading: license.bytes))
        #expect(read == terms)
        var expected = OutputPolicy()
        expected.digitalVideo = .require(.hdcpType1)
        expected.compressedVideo = .block
        expected.analogVideo = .copyNever(isRequired: true)
        expected.analogMonitor = .protectOrReduce(pixels: 520_000)
        expected.digitalAudio = .require(.hdcpType0)
        expected.compressedAudio = .pass
        expected.unknownOutputs = .protectOrReduce(pixels: 520_000)
        expected.allowsAirPlay = true
        expected.maximumFrame = .init(width: 1920, height: 1080)
        #expect(OutputPolicy(read) == expected)
        #expect(expected.digitalRule(for: .video) != expected.digitalRule(for: .audio))
    }

    @Test func whatIsNotKnownBlocks() throws {
        let unknown = try #require(GUID("01234567-0000-0000-0000-000000000000"))
        var terms = XMRTerms()
        terms.analogProtections = [.init(unknown)]
        #expect(OutputPolicy(terms).analogVideo == .block && OutputPolicy(terms).analogMonitor == .block)
        terms = XMRTerms()
        terms.digitalVideoProtections = [.init(unknown)]
        #expect(OutputPolicy(terms).digitalVideo == .block)
        terms = XMRTerms()
        terms.digitalAudioProtections = [.init(unknown)]
        #expect(OutputPolicy(terms).digitalAudio == .block)
        #expect(try policy(digital: [(.maximumEffectiveResolution, [1, 2])]).digitalVideo == .block)
        #expect(OutputPolicy(XMRTerms()).requirement == .unprotected)
    }
}
