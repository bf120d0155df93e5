// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import LatchkeyProtection

extension FuzzTarget {
    static let boxes: [FuzzTarget] = [
        FuzzTarget("pssh") { bytes in
            let readable = PSSHBox.readableBoxes(in: bytes)
            if let boxes = try? PSSHBox.boxes(in: bytes) {
                promise(boxes == readable, "both readers agree on boxes without a fault")
                let written = boxes.compactMap { $0.serialized() }.flatMap(\.self)
                promise((try? PSSHBox.boxes(in: written)) == boxes, "what is written reads the same")
            }
        },
        FuzzTarget("initialization-data") { bytes in
            let keyIDs = InitDataType.anyKeyIDs(in: bytes)
            promise(Set(keyIDs).count == keyIDs.count, "each KID comes once")
            for type in InitDataType.allCases { _ = try? type.keyIDs(in: bytes) }
        },
    ]
}
