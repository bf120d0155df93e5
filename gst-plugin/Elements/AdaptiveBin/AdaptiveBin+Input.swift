// SPDX-License-Identifier: MPL-2.0

import LatchkeyContainers
import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyKeySession

/// What arrived of the manifest.
struct ManifestInput {
    var bytes: [UInt8] = []
    var isTooLarge = false
    /// The answer that brought it set cookies.
    var setsCookies = false
    /// What is made of the manifest is on its way to the stock demuxer.
    var isHandedOn = false
    /// Where it comes from, before redirects.
    var source = ""
    /// Where the stock demuxer is to fetch it again, which asks when it has the first one; nil: where it comes from.
    var laterURL: String?
}

extension AdaptiveBin {
    /// Stands between upstream and the stock demuxer: that gets what `handOn` makes of the manifest.
    func watchInput(_ sink: PadReference) {
        let weak = WeakElement(reference)
        sink.probeBuffers { buffer in
            let isTaken = weak.map { ($0 as? AdaptiveBin)?.takes(buffer) } ?? false
            if isTaken == true { return nil }
            return buffer
        }
        sink.answerURIQueries { (weak.map { ($0 as? AdaptiveBin)?.manifest.laterURL } ?? nil) ?? nil }
        sink.probeEvents(.downstream) { event in
            let goesOn = weak.map { ($0 as? AdaptiveBin)?.accepts(event) } ?? false
            if goesOn == true { return event }
            return nil
        }
    }

    /// Whether the event goes on to the stock demuxer.
    private func accepts(_ event: borrowing Event) -> Bool {
        switch event.kind {
        case .endOfStream:
            guard !withGuarded({ $0.isStopping }) else { return false }
            return manifest.isHandedOn || handOn()
        case .flushStop, .streamStart:
            manifest = ManifestInput()
        default:
            if event.setsCookies { manifest.setsCookies = true }
            if let headers = event.httpRequestHeaders {
                requestHeadersDidCome(headers.map { HTTPHeader(name: $0.name, value: $0.value) })
            }
        }
        return true
    }

    /// Whether the buffer is a part of the manifest and stays here.
    private func takes(_ buffer: borrowing Buffer) -> Bool {
        guard !manifest.isHandedOn else { return false }
        guard manifest.bytes.count + buffer.size <= Self.manifestLimit else {
            manifest.isTooLarge = true
            return true
        }
        _ = buffer.withBytes { manifest.bytes += $0 }
        return true
    }

    /// Gives the stock demuxer what the subclass makes of the manifest. False where that cannot be used, which is then
    /// said.
    private func handOn() -> Bool {
        guard currentRun != nil, let sink = child?.pad("sink") else { return false }
        let place = sink.peerURI()
        let url = place?.base ?? ""
        manifest.source = place?.uri ?? ""
        withGuarded(\.pipeline)?.note(manifestURL: url)
        do throws(PresentationFailure) {
            if manifest.isTooLarge {
                throw .format(
                    .tooLarge("\(HTTPRequest(url: url).printableURL): more than \(Self.manifestLimit) bytes"))
            }
            let bytes = try handOn(takeBytes(), from: url)
            manifest.isHandedOn = true
            // Limits that are there already are for the first segment too.
            limitQuality()
            willHandOn()
            guard let buffer = Buffer(copying: bytes) else { return false }
            return sink.chain(buffer) == .ok
        } catch {
            manifest.isHandedOn = true
            fail(error)
            return false
        }
    }

    /// Nothing else keeps them: what is made of them takes enough memory.
    private func takeBytes() -> [UInt8] {
        defer { manifest.bytes = [] }
        return manifest.bytes
    }
}
