// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers

extension FuzzTarget {
    static let webM: [FuzzTarget] = [
        FuzzTarget("webm-recognition") { bytes in
            let isProtected = isProtected(bytes[...], size: nil)
            promise(isProtected || !Self.isProtected(bytes.dropLast(), size: nil), "more bytes make no file clear")
            promise(
                isProtected || !Self.isProtected(bytes[...], size: UInt64(bytes.count)),
                "no size makes a file protected")
        }
    ]

    private static func isProtected(_ bytes: ArraySlice<UInt8>, size: UInt64?) -> Bool {
        WebMRecognition.isProtectedFile(size: size) { offset, count in
            let part = bytes.dropFirst(Int(clamping: offset)).prefix(count)
            return part.count == count ? Array(part) : nil
        }
    }
}
