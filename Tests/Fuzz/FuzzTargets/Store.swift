// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession

extension FuzzTarget {
    static let store: [FuzzTarget] = [
        FuzzTarget("store-record") { bytes in
            guard let record = try? LicenseRecord(serialized: bytes) else { return }
            promise((try? record.serialized()) == bytes, "every record has one form")
        },
        FuzzTarget("clock-record") { bytes in
            guard let state = try? TrustedClockState(serialized: bytes) else { return }
            promise(
                (try? TrustedClockState(serialized: state.serialized())) == state, "what is written reads the same")
        },
    ]
}
