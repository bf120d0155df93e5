// SPDX-License-Identifier: MPL-2.0

import LatchkeyDiagnosis
import LatchkeyElementTestSupport
import Testing

/// Which decoder is taken, and the words for it.
@Suite struct DecoderChoiceTests {
    private func diagnosis(_ factories: [DecoderFactory], caps: String = "video/x-h264") -> StreamDiagnosis {
        StreamDiagnosis(name: "avc1", caps: caps, isProtected: true, factories: factories, gstreamer: (1, 22))
    }

    private let libav = DecoderFactory(name: "avdec_h264", rank: 256, isHardware: false, plugin: "libav")
    private let nvidia = DecoderFactory(name: "nvh264dec", rank: 256, isHardware: true, plugin: "nvcodec")
    private let va = DecoderFactory(name: "vah264dec", rank: 0, isHardware: true, plugin: "va")
    private let v4l2 = DecoderFactory(name: "v4l2slh264dec", rank: 257, isHardware: true, plugin: "v4l2codecs")

    @Test func theHighestRankIsTaken() {
        let found = diagnosis([libav, v4l2, va])
        #expect(found.decoder == "v4l2slh264dec")
        #expect(found.candidates.map(\.factory.name) == ["v4l2slh264dec", "avdec_h264", "vah264dec"])
        #expect(found.section.findings.first?.text.contains("rank PRIMARY+1, hardware") == true)
        #expect(!found.section.findings.contains { $0.level != .fact })
    }

    @Test func aTieGoesByName() throws {
        let found = diagnosis([nvidia, libav])
        #expect(found.decoder == "avdec_h264")
        let other = try #require(found.candidates.last)
        #expect(other.factory == nvidia)
        #expect(other.reason.contains("same rank"))
        let hint = try #require(found.section.findings.first { $0.level == .hint })
        #expect(hint.advice == "To have it: GST_PLUGIN_FEATURE_RANK=nvh264dec:MAX")
    }

    @Test func rankNoneIsExplainedWithTheVersion() throws {
        let found = diagnosis([libav, va])
        let reason = try #require(found.candidates.last?.reason)
        #expect(reason.contains("rank NONE") && reason.contains("1.22"), "\(reason)")
        #expect(found.section.findings.contains { $0.advice == "To have it: GST_PLUGIN_FEATURE_RANK=vah264dec:MAX" })
    }

    @Test func nothingThatIsPluggedIsAProblem() throws {
        let found = diagnosis([va])
        #expect(found.decoder == nil)
        #expect(found.section.findings.contains { $0.level == .problem && $0.text.contains("no decoder") })
        let none = diagnosis([])
        #expect(none.section.findings.contains { $0.level == .problem && $0.advice?.contains("Install") == true })
    }

    @Test func softwareAloneIsAHintForPictures() {
        #expect(diagnosis([libav]).section.findings.contains { $0.level == .hint && $0.text.contains("no hardware") })
        #expect(!diagnosis([libav], caps: "audio/mpeg").section.findings.contains { $0.level == .hint })
    }

    @Test func ranksHaveGStreamersNames() {
        let texts = [0, 1, 64, 128, 256, 257, 0xffff].map {
            DecoderFactory(name: "x", rank: $0, isHardware: false, plugin: "").rankText
        }
        #expect(texts == ["NONE", "NONE+1", "MARGINAL", "SECONDARY", "PRIMARY", "PRIMARY+1", "PRIMARY+65279"])
    }

    /// The registry of the machine: its libav decoder is one of the packages that the project installs.
    @Test func theRegistryIsAsked() throws {
        TestProcess.prepare
        let found = DecoderFactory.all(for: "video/x-h264")
        let libav = try #require(found.first { $0.name == "avdec_h264" })
        #expect(libav.rank == 256 && !libav.isHardware && libav.plugin == "libav")
        #expect(DecoderFactory.all(for: "video/x-nothing-such").isEmpty)
        #expect(DecoderFactory.all(for: "no caps;;").isEmpty)
    }

    @Test func aReportHasWords() {
        let report = DiagnosisReport(
            sections: [DiagnosisSection("Devices", [Finding(.problem, "none", advice: "buy one")])],
            streams: [diagnosis([libav])])
        #expect(report.hasProblem)
        #expect(report.text.hasPrefix("Devices\n  PROBLEM: none\n      → buy one\n\navc1 (protected): video/x-h264\n"))
    }
}
