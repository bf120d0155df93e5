// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySystems
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection

extension FuzzTarget {
    static let manifests: [FuzzTarget] = [
        FuzzTarget("dash-manifest") { bytes in
            _ = DASHManifest.isManifest(start: bytes)
            guard let manifest = try? DASHManifest(bytes) else { return }
            for protection in manifest.protections {
                promise(!protection.descriptors.isEmpty, "a protection has descriptors")
                for system in protection.systems {
                    promise(protection.descriptor(of: system) != nil, "a system that is named has a descriptor")
                    for box in protection.descriptor(of: system)?.systemBoxes ?? [] {
                        let again = box.serialized().map { PSSHBox.readableBoxes(in: $0) }
                        promise(again?.count == 1, "a box that was read can be written")
                    }
                }
            }
            let url = "https://a.test/b/c.mpd?d"
            let untold = (try? DASHManifest(bytes, from: url))?.untold
            promise((untold?.count ?? .max) <= 32, "few init segments are looked for")
            let element = XMLElement(
                "ContentProtection",
                attributes: [
                    .init("schemeIdUri", "urn:mpeg:dash:mp4protection:2011"),
                    .init("default_KID", "01234567-89ab-cdef-0123-456789abcdef"),
                ])
            let known = Dictionary(
                (untold ?? []).map { ($0, [DASHContentProtection(element)]) }, uniquingKeysWith: { first, _ in first })
            let told = try? DASHManifest(bytes, from: url, known: known)
            promise(told.map { Set($0.untold).isDisjoint(with: known.keys) } == true, "what is known is not looked for")
            if let period = manifest.minimumUpdatePeriod { promise(period >= .zero, "time goes forward") }
            let routed = try? DASHManifest.routed(bytes, from: url) { _ in "http://e.test/f" }
            if let routed { promise((try? DASHManifest(routed)) != nil, "what is led elsewhere is a manifest") }
            for alternatives in manifest.alternatives.prefix(4) {
                guard let keyID = alternatives.deciding.first else { continue }
                let kept = try? DASHManifest.leavingOut([keyID], of: manifest.alternatives, in: bytes)
                if let kept { promise((try? DASHManifest(kept)) != nil, "what is left is a manifest") }
            }
        },
        FuzzTarget("smooth-manifest") { bytes in
            guard var manifest = try? SmoothManifest(bytes) else { return }
            _ = manifest.keyIDs
            promise(manifest.isProtected == (manifest.encryption != nil), "protected media has an encryption")
            let choices = manifest.choices(from: "https://a.test/b/Manifest?c")
            promise(choices.count <= 32, "few fragments are looked at")
            var rest = manifest
            rest.leaveOut(choices.prefix(1))
            _ = rest.serialized()
            _ = manifest.route(from: "https://a.test/b/Manifest?c") { _ in "http://d.test/e" }
            for first in [nil, manifest.streams.last { $0.type == .audio }] {
                guard let given = try? SmoothManifest(manifest.serialized(audioFirst: first)) else { continue }
                promise(!given.isProtected, "the stock demuxer sees no protection")
                // Streams beyond the limit of the reader may move up.
                guard manifest.streams.count < 256 else { continue }
                promise(manifest.isLive || !given.streams.contains { $0.type == .text }, "nor text")
                let audio = { (manifest: SmoothManifest) in manifest.streams.filter { $0.type == .audio } }
                promise(audio(given).count == audio(manifest).count, "audio stays")
            }
        },
        FuzzTarget("fragment-recognition") { bytes in
            let verdict = ISORecognition.isEncryptedFragment(bytes)
            promise(verdict != nil || bytes.count < 16 << 20, "a fragment ends")
            let keyIDs = ISORecognition.keyIDs(ofFragment: bytes, else: KeyID(high: 0, low: 1))
            promise(keyIDs == nil || verdict != nil, "what names keys is a fragment")
        },
        FuzzTarget("fragment-sign") { bytes in
            func sign(_ bytes: [UInt8]) -> FragmentSign { bytes.withUnsafeBytes { ISORecognition.sign(inSegment: $0) } }
            func fragments(inPiecesOf size: Int) -> [[UInt8]] {
                var walk = FragmentWalk()
                var found: [[UInt8]] = []
                for start in stride(from: 0, to: bytes.count, by: size) {
                    let piece = Array(bytes[start..<min(start + size, bytes.count)])
                    while let range = walk.wanted(inPieceOf: piece.count) {
                        if let fragment = walk.take(piece[range]) { found.append(fragment) }
                    }
                }
                return found
            }
            let whole = fragments(inPiecesOf: max(bytes.count, 1))
            promise(whole == fragments(inPiecesOf: 7), "the cuts of a stream change nothing")
            let found = sign(bytes)
            guard case .unknown(let rest) = found else {
                // It was told by whole boxes: more bytes behind them change nothing.
                return promise(sign(bytes + [UInt8](repeating: 0xFF, count: 32)) == found, "what was told stays")
            }
            promise((0...bytes.count).contains(rest), "what is left is a part of the bytes")
            let left = Array(bytes.suffix(rest))
            promise(sign(left) == .unknown(rest: rest), "what is left is looked at alone, as with the whole")
            promise(rest < 16 << 20, "a box ends")
        },
    ]
}
