// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import LatchkeyProtection

/// The media of the tests: keys, caps and bytes.
enum Media {
    static let keyID: [UInt8] = (0..<16).map { 0x10 + $0 }
    static let key: [UInt8] = (0..<16).map { 0xa0 ^ ($0 &* 7) }
    static let otherKeyID: [UInt8] = (0..<16).map { 0x50 + $0 }
    static let otherKey: [UInt8] = (0..<16).map { 0x3c ^ ($0 &* 11) }
    static let vector8: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8]
    static let vector16: [UInt8] = (0..<16).map { 0xf0 - $0 }
    /// The last eight bytes wrap in the third block.
    static let wrappingVector: [UInt8] = vector8 + [UInt8](repeating: 0xff, count: 7) + [0xfe]

    static let keyIDText = hex(keyID)
    static let otherKeyIDText = hex(otherKeyID)
    static let keysProperty: [(String, FieldValue)] = [("keys", .string("\(hex(keyID)):\(hex(key))"))]

    static let video =
        "application/x-cenc, original-media-type=video/x-h264, cipher-mode=cenc, width=320, "
        + "stream-format=avc, protection-system=1077efec-c0b2-4d02-ace3-3c1e52e2fb4b"
    static let bareVideo = "application/x-cenc, original-media-type=video/x-h264, cipher-mode=cenc"
    static let audio = "application/x-cenc, original-media-type=audio/mpeg, mpegversion=4"
    static let clearVideo = "video/x-h264, stream-format=avc, width=320"

    static func caps(_ scheme: ProtectionScheme, _ type: String = "video/x-h264") -> String {
        "application/x-cenc, original-media-type=\(type), cipher-mode=\(scheme.rawValue)"
    }

    /// Bytes without a pattern, the same for the same seed.
    static func bytes(_ count: Int, seed: UInt64 = 1) -> [UInt8] {
        var state = seed
        return (0..<count).map { _ in
            state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
            return UInt8(truncatingIfNeeded: state >> 56)
        }
    }

    /// A wholly encrypted cenc sample.
    static func sample(
        _ clear: [UInt8], keyID: [UInt8]? = keyID, key: [UInt8] = key, at time: UInt64 = 0
    ) -> EncryptedSample {
        var sample = EncryptedSample(
            clear, keyID: keyID, CommonEncryption(key: key, scheme: .cenc, vector: vector8))
        sample.presentationTime = time
        return sample
    }

    static func hex(_ bytes: [UInt8]) -> String {
        bytes.map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
    }

    static func base64URL(_ bytes: [UInt8]) -> String {
        let digits = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        var text = ""
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let part = bytes[start..<min(start + 3, bytes.count)]
            let word = part.enumerated().reduce(0) { $0 | Int($1.element) << (16 - 8 * $1.offset) }
            for digit in 0...part.count { text.append(digits[word >> (18 - 6 * digit) & 63]) }
        }
        return text
    }

    /// A W3C ClearKey license.
    static func license(_ keys: [(id: [UInt8], key: [UInt8])]) -> [UInt8] {
        let list = keys.map { #"{"kty":"oct","kid":"\#(base64URL($0.id))","k":"\#(base64URL($0.key))"}"# }
        return Array(#"{"keys":[\#(list.joined(separator: ","))],"type":"temporary"}"#.utf8)
    }

    /// A version 1 `pssh` box that names KIDs (ISO/IEC 23001-7, 8.1).
    static func pssh(_ system: String, _ keyIDs: [[UInt8]], data: [UInt8] = []) -> [UInt8] {
        let id = system.filter { $0 != "-" }
        let systemID = stride(from: 0, to: 32, by: 2).map { offset -> UInt8 in
            let start = id.index(id.startIndex, offsetBy: offset)
            return UInt8(id[start...].prefix(2), radix: 16) ?? 0
        }
        let body = [1, 0, 0, 0] + systemID + number(keyIDs.count) + keyIDs.flatMap(\.self) + number(data.count) + data
        return number(body.count + 8) + Array("pssh".utf8) + body
    }

    private static func number(_ value: Int) -> [UInt8] {
        [24, 16, 8, 0].map { UInt8(truncatingIfNeeded: value >> $0) }
    }

    static func protectionEvent(_ system: String, _ data: [UInt8], origin: String = "isobmff/moov") throws -> Event {
        guard let buffer = Buffer(copying: data) else { throw TestFailure("no memory") }
        let event = buffer.withPointer { gst_event_new_protection(system, $0, origin) }
        guard let event else { throw TestFailure("no protection event") }
        return Event(owning: event)
    }

    static let commonSystem = "1077efec-c0b2-4d02-ace3-3c1e52e2fb4b"
    static let playReadySystem = "9a04f079-9840-4286-ab92-e65be0885f95"
    static let widevineSystem = "edef8ba9-79d6-4ace-a3c8-27dcd51d21ed"
}

extension Event {
    static func make(_ pointer: UnsafeMutablePointer<GstEvent>?) throws -> Event {
        guard let pointer else { throw TestFailure("no event") }
        return Event(owning: pointer)
    }

    static func flushStart() throws -> Event { try make(gst_event_new_flush_start()) }
    static func flushStop() throws -> Event { try make(gst_event_new_flush_stop(1)) }
    static func gap(at time: UInt64) throws -> Event { try make(gst_event_new_gap(GstClockTime(time), 1000)) }
    static func tags() throws -> Event { try make(gst_event_new_tag(gst_tag_list_new_empty())) }
    static func segment() throws -> Event {
        var segment = GstSegment()
        gst_segment_init(&segment, GST_FORMAT_TIME)
        return try make(gst_event_new_segment(&segment))
    }
}
