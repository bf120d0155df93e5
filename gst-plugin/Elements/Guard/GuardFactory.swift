// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit

/// The factory of the output guard.
public enum GuardFactory {
    /// To be put in front of sinks by hand or by players.
    public static let outputGuard = ElementDescription(
        factory: name, longName: "Output guard", classification: "Filter/Video/Audio",
        summary: "Shows protected media only on outputs that its licence allows; the last element in front of the sink",
        author: "The Latchkey authors", padTemplates: [sink, source], properties: GuardSettings.properties,
        signals: [GuardSettings.setOutputs], implementation: GuardElement.self)

    static let name = "latchkeyguard"
    static let sink = PadTemplate.sink(types)
    static let source = PadTemplate.source(types)
    private static let types = "video/x-raw(ANY); audio/x-raw(ANY)"
}
