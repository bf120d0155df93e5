// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyProtection

/// Stands in front of GStreamer's demuxer of protected WebM, and changes nothing: what a player fetches over HTTP comes
/// through a `FileFetch`, which waits for outages. Samples are decrypted behind the demuxer.
final class WebMRelay: WholeFile, @unchecked Sendable {
    /// What the typefinder says of protected files.
    static let pluggedType = "application/x-latchkey-webm"
    static let producedType = "video/webm"

    /// Without a fetch, the demuxer gets its bytes as without this element.
    override var wantsWindow: Bool {
        guard settings.outageLimit > 0, reference.hasPlayersSource else { return false }
        return (reference.pad("sink")?.peerURI()?.uri).map { URIReference($0).isHTTP } ?? false
    }

    /// `matroskademux` sends such events on to its streams, which may have begun: at a second start of a stream, decodebin3 of
    /// GStreamer 1.26 fails an assertion.
    override class var storesEvents: Bool { false }

    /// Nothing is decrypted here, and others may decrypt: no session is made, and no viewing session is kept.
    override func startUnlessStarted() -> Bool { true }

    /// What is said of protection is for those that decrypt.
    override func sinkEventUnlessRead(_ event: consuming Event) -> Bool {
        guard event.kind == .protection else { return super.sinkEventUnlessRead(event) }
        return sourcePad.push(event)
    }

    override class func clearCaps(of caps: Caps) -> Caps {
        caps.map { structure in
            if structure.mediaType == pluggedType { structure.mediaType = producedType }
            return true
        }
    }
}
