// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit
import HTTP
import MediaFormats

/// What arrived of the first playlist.
struct ManifestInput {
    static let limit = 16 << 20

    var bytes: [UInt8] = []
    var isTooLarge = false
    /// The rewritten playlist is on its way to the stock demuxer.
    var isHandedOn = false
}

extension HLSDemuxer {
    /// Stands between upstream and the stock demuxer: that gets the rewritten playlist, which leads to the loopback
    /// server, and names the presentation's own URL as the referrer of what it fetches.
    func watchInput(_ sink: PadReference) {
        let weak = WeakElement(reference)
        sink.probeBuffers { buffer in
            let isTaken = weak.map { ($0 as? HLSDemuxer)?.takes(buffer) } ?? false
            if isTaken == true { return nil }
            return buffer
        }
        sink.probeEvents(.downstream) { event in
            let goesOn = weak.map { ($0 as? HLSDemuxer)?.accepts(event) } ?? false
            if goesOn == true { return event }
            return nil
        }
    }

    /// Whether the event goes on to the stock demuxer.
    private func accepts(_ event: borrowing Event) -> Bool {
        switch event.kind {
        case .endOfStream:
            return manifest.isHandedOn || handOn()
        case .flushStop, .streamStart:
            manifest = ManifestInput()
        default:
            if let headers = event.httpRequestHeaders {
                run?.presentation.origin.setHeaders(headers.map { HTTPHeader(name: $0.name, value: $0.value) })
            }
        }
        return true
    }

    /// Whether the buffer is a part of the playlist and stays here.
    private func takes(_ buffer: borrowing Buffer) -> Bool {
        guard !manifest.isHandedOn else { return false }
        guard manifest.bytes.count + buffer.size <= ManifestInput.limit else {
            manifest.isTooLarge = true
            return true
        }
        _ = buffer.withBytes { manifest.bytes += $0 }
        return true
    }

    /// Rewrites the playlist and gives it to the stock demuxer. False where it cannot be used, which is then said.
    private func handOn() -> Bool {
        guard let run, let sink = child?.pad("sink") else { return false }
        let url = sink.peerURI()?.base ?? ""
        do throws(HLSFailure) {
            if manifest.isTooLarge {
                throw .format(
                    .tooLarge("\(HTTPRequest(url: url).printableURL): more than \(ManifestInput.limit) bytes"))
            }
            let rewritten = try run.presentation.start(manifest.bytes, from: url)
            manifest.isHandedOn = true
            guard let buffer = Buffer(copying: rewritten) else { return false }
            return sink.chain(buffer) == .ok
        } catch {
            manifest.isHandedOn = true
            error.post(on: reference)
            return false
        }
    }
}
