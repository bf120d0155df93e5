// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementTestSupport
import Foundation
import LatchkeyHTTP
import LatchkeyProtection

/// A presentation without any protection, made from one of the corpus whose segments are encrypted as a whole.
struct ClearPresentation: Sendable {
    let files: [String: [UInt8]]
    let packets: [String: [String]]

    init() throws {
        let media = try CorpusCase("hls-fmp4-aes128-openssl")
        guard let key = ContentKey(try media.bytes("key.bin")),
            let vector = InitializationVector((0..<16).map { UInt8($0) * 0x11 })
        else { throw TestFailure("no key") }
        var files: [String: [UInt8]] = [:]
        for name in try FileManager.default.contentsOfDirectory(atPath: media.folder.path) {
            guard name.contains(".m"), var bytes = try? media.bytes(name) else { continue }
            if name.hasSuffix(".m4s") {
                bytes = try SegmentCipher(key: key, initializationVector: vector).decrypt(whole: bytes)
            }
            if name.hasSuffix(".m3u8") {
                let lines = String(decoding: bytes, as: UTF8.self).components(separatedBy: "\n")
                bytes = Array(lines.filter { !$0.hasPrefix("#EXT-X-KEY") }.joined(separator: "\n").utf8)
            }
            files[name] = bytes
        }
        self.files = files
        packets = ["video": try media.packets("video"), "audio": try media.packets("audio")]
    }

    func answer(_ request: LoopbackRequest) -> LoopbackResponse? {
        files[request.path].map { LoopbackResponse(body: $0) }
    }
}
