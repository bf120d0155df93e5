// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyHTTP

/// What the stock demuxer would fetch itself may come through this process (`SegmentRelay`), where somebody says how long
/// outages may last.
extension AdaptiveBin {
    /// How long playback waits where the network fails.
    static let outageLimit = Property(
        "outage-limit", nick: "Outage limit",
        blurb: "How long, in milliseconds, playback waits where the network fails or answers with a web page; media "
            + "segments come through this element then, and latchkey-fetch messages tell of them. 0: GStreamer's demuxer "
            + "fetches segments and decides; set it before the demuxer starts",
        kind: .uint(default: 0, range: 0...UInt32.max),
        get: { element in
            .uint((element as? AdaptiveBin)?.withGuarded { $0.outageMilliseconds } ?? 0)
        },
        set: { element, value in
            guard case .uint(let milliseconds) = value else { return }
            (element as? AdaptiveBin)?.withGuarded { $0.outageMilliseconds = milliseconds }
        })

    /// A relay of the origin's segments, which tells what it does on the bus. Nil where the stock demuxer fetches them.
    final func makeRelay(_ origin: PresentationOrigin) -> SegmentRelay? {
        let milliseconds = withGuarded { $0.outageMilliseconds }
        guard milliseconds > 0 else { return nil }
        let weak = WeakElement(reference)
        return SegmentRelay(origin, limit: .milliseconds(Int64(milliseconds))) { notice in
            weak.withElement { element in
                notice.post(on: element.reference)
                if case .lost(let failure) = notice { (element as? AdaptiveBin)?.fail(failure) }
            }
        }
    }

    /// The same with a server of its own, for manifests whose media is led to that. Nil also where the stock demuxer could
    /// not reach it: what plays without it must go on to do so.
    final func makeSegmentServer(_ origin: PresentationOrigin) throws(AdaptiveStartFailure) -> SegmentServer? {
        guard let relay = makeRelay(origin) else { return nil }
        guard LoopbackReach.isDirect(Environment.variable) else {
            reference.postWarning(
                GST_RESOURCE_ERROR_SETTINGS, "Outages of the network are not waited for.",
                debug: "\(Self.stock.factory) would send even local requests to the HTTP proxy that is configured. "
                    + LoopbackReach.advice)
            return nil
        }
        let server = SegmentServer(origin, relay: relay)
        do throws(HTTPError) {
            try server.open()
        } catch {
            throw .loopback(error)
        }
        return server
    }

    /// The message of the stock demuxer with the origin's URLs in place of this process's, and an error with more details.
    final func withOriginURLs(_ message: consuming Message) -> Message {
        let message = noted(message)
        guard let segments = currentRun?.segments else { return message }
        let isForPeople = message.kind != .element
        return message.mapTexts { segments.withOriginURLs($0, isForPeople: isForPeople) }
    }

    /// Whether the stock demuxer was sent to this process and did not come. Says so then, in the place of its error, unless
    /// that is one about the manifest.
    final func tellUnreached(_ error: borrowing Message) -> Bool {
        for code in [GST_STREAM_ERROR_DEMUX, GST_STREAM_ERROR_DECODE, GST_STREAM_ERROR_FORMAT]
        where error.isStreamError(code) {
            return false
        }
        guard let segments = currentRun?.segments, segments.isUsed, !segments.wasReached else { return false }
        postUnreached("segments")
        return true
    }

    /// Nobody but a proxy stands between the stock demuxer and this process.
    final func postUnreached(_ what: String) {
        // What the stock demuxer says of it later is no news.
        let isFirst = withGuarded { guarded -> Bool in
            defer { guarded.hasFailed = true }
            return !guarded.hasFailed
        }
        guard isFirst else { return }
        let proxy = LoopbackReach.proxy(Environment.variable).map { " \(HTTPRequest(url: $0).printableURL)" } ?? ""
        reference.postError(
            GST_RESOURCE_ERROR_OPEN_READ,
            "GStreamer's demuxer asks the HTTP proxy\(proxy) for the \(what) that it is given on 127.0.0.1, and does not get "
                + "them.",
            debug: "Its HTTP library sends even local requests to the proxy that is configured. " + LoopbackReach.advice
        )
    }
}

/// Whether requests to 127.0.0.1 go there, as far as the environment tells.
enum LoopbackReach {
    static let advice =
        "Set the environment variable no_proxy=127.0.0.1,localhost (or that exception in the desktop's proxy settings)."

    /// The proxy of the environment, as it is written there.
    static func proxy(_ variable: (String) -> String?) -> String? {
        ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"].lazy.compactMap(variable).first
    }

    /// `variable` gives the value of an environment variable.
    static func isDirect(_ variable: (String) -> String?) -> Bool {
        guard proxy(variable) != nil else { return true }
        let exceptions = variable("no_proxy") ?? variable("NO_PROXY") ?? ""
        return exceptions.split { $0 == "," || $0.isWhitespace }.contains {
            $0 == "*" || $0 == "127.0.0.1" || $0.hasPrefix("127.0.0.0/")
        }
    }
}
