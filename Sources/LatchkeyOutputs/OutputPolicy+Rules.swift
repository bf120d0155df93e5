// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

extension OutputPolicy {
    /// The rule for one medium on one kind of output.
    func rule(for media: Media, on kind: Output.Kind) -> OutputRule {
        switch (kind, media) {
        case (.internalPanel, _): .pass
        case (.digital, _), (.insecure, _): digitalRule(for: media)
        case (.analogVideo, .video): analogVideo
        case (.analogMonitor, .video): analogMonitor
        // Licences have no rule for analog sound.
        case (.analogVideo, .audio), (.analogMonitor, .audio): .pass
        case (.unknown, .video): unknownOutputs
        case (.unknown, .audio): digitalAudio
        }
    }

    /// What digital links are asked for.
    var request: OutputRequirement {
        [digitalVideo, digitalAudio].map { rule -> OutputRequirement in
            switch rule {
            case .require(let requirement): requirement
            case .tryToProtect, .protectOrReduce: .hdcpType0
            case .pass, .copyNever, .block: .unprotected
            }
        }.max() ?? .unprotected
    }
}
