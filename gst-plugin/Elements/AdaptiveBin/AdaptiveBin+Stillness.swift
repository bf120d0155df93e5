// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyProtection

/// Ends playback with an error if the stock demuxer does nothing any more and does not say so. Each version stops without
/// an error at some of what is no media.
extension AdaptiveBin {
    /// For `StillnessWatch.begin`.
    final func look() -> @Sendable () -> Void {
        let weak = WeakElement(reference)
        return { weak.withElement { ($0 as? AdaptiveBin)?.lookForStillness() } }
    }

    private func lookForStillness() {
        guard mayFail, let watch = currentRun?.watch else { return }
        watch.beginLook()
        let outputs = withGuarded { $0.outputs }
        let isExcused = isWaitingForKey || withGuarded { $0.isWithheld }
        if let lack = lackOfOutput(outputs, watch, isExcused) ?? lackOfStart(watch, isExcused) { return fail(lack) }
        // Streams that have ended, or that are not selected, have no more output.
        let isDone = outputs.isEmpty ? watch.hasOutput : outputs.allSatisfy { $0.inner.hasEnded }
        // What is played later waits for the elements behind this bin.
        let isHeldUp = outputs.contains { $0.outer.entrance?.waitUntilIdle(milliseconds: 0) == false }
        switch watch.verdict(isBusy: isDone || isHeldUp || isWaitingForKey) {
        case .none: break
        case .isAtEnd: liveDidEnd()
        case .hasStopped:
            fail(causeOfStop() ?? .stopped(Self.stock.factory, at: originURL(watch.lastURL ?? ""), errorInside))
        }
    }

    /// Whether it neither stops nor has told why playback ends.
    final var mayFail: Bool {
        withGuarded { $0.run != nil && !$0.isStopping && !$0.hasFailed && $0.closedBecause == nil }
    }

    /// Why playback cannot begin if nothing comes of one stream: the player holds the others up until it has all of them,
    /// or all have ended. The stock demuxer keeps to itself what its parsers say of such media.
    private func lackOfOutput(
        _ outputs: [Output], _ watch: StillnessWatch, _ isExcused: Bool
    ) -> PresentationFailure? {
        let isEnded = !outputs.isEmpty && outputs.allSatisfy { $0.inner.hasEnded }
        guard isEnded || !reference.hasPrerolled, watch.lacksOutput(isEnded: isEnded, isExcused: isExcused),
            let mute = watch.muteOutputs.first, let url = watch.lastURL
        else { return nil }
        let what = mute.name.hasPrefix("video") ? "pictures" : "sound"
        return .nothing(of: what, from: Self.stock.factory, at: originURL(url), errorInside)
    }

    /// Why playback cannot begin, or go on after a pause, if a decoder makes nothing of what was decrypted. A decryptor may
    /// have told of a wrong key. Not all media tells: then, a decoder has to have given nothing so far.
    private func lackOfStart(_ watch: StillnessWatch, _ isExcused: Bool) -> PresentationFailure? {
        let told = withGuarded { $0.wrongKey }
        let keys = told.map { [$0] } ?? watch.keysInUse
        let isCause =
            !keys.isEmpty && reference.isChangingState && (told != nil || reference.hasMuteDecoderAround)
        let hasBegun = reference.hasPrerolled
        guard watch.lacksStart(isExcused: isExcused || !isCause), let url = watch.lastURL else { return nil }
        return .noStart(keys.joined(separator: ", "), hasBegun: hasBegun, at: originURL(url))
    }

    // MARK: Messages from inside

    /// Notes the errors that elements inside the stock demuxer post, which that may keep to itself.
    final func watchErrors(inside child: ElementReference) {
        let weak = WeakElement(reference)
        child.observeErrorsInside { source, text in
            let error = InsideError(text: "\(source): \(text)", time: MonotonicTime.now)
            weak.withElement { ($0 as? AdaptiveBin)?.withGuarded { $0.errorInside = error } }
        }
    }

    private var errorInside: String? { withGuarded { $0.errorInside }?.text(at: MonotonicTime.now) }

    /// Notes what a message from inside says. An error gets what was fetched last and what an element inside has said, for
    /// people who read logs. An error for a key does not: the key may be that of an earlier segment.
    final func noted(_ error: consuming Message) -> Message {
        if let keyIDs = error.strings("key-ids", of: "latchkey-wrong-key") {
            let keyID = keyIDs.first.flatMap { KeyID(hex: $0) }
            let name = keyID.map { currentRun?.session.name(of: $0) ?? DecryptorFailure.name($0) }
            withGuarded { $0.wrongKey = name ?? DecryptorFailure.name(nil) }
        }
        guard error.kind == .error, let watch = currentRun?.watch else { return error }
        // The application has the reason of the end.
        watch.endLooks()
        guard !error.isStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY) else { return error }
        let last = watch.lastURL.map { "The last segment came from \(HTTPRequest(url: originURL($0)).printableURL)." }
        var inside: String?
        if let child, error.isFrom(child) { inside = errorInside.map { PresentationFailure.inside($0) } }
        return error.addingErrorDetails([last, inside].compactMap(\.self).joined(separator: "\n"))
    }
}

/// What an element inside the stock demuxer has said, and when, in nanoseconds of one clock. A value.
struct InsideError {
    /// For longer, what is said has another cause: the demuxer has gone on. In nanoseconds.
    private static let lifetime: UInt64 = 15_000_000_000

    let text: String
    let time: UInt64

    /// Nil if it is too old to be the cause of what is said now.
    func text(at now: UInt64) -> String? { now &- time < Self.lifetime ? text : nil }
}

extension PresentationFailure {
    /// The stock demuxer does nothing any more, and does not say why. `url`: what it fetched last. `error`: what an element
    /// inside has said.
    fileprivate static func stopped(_ demuxer: String, at url: String, _ error: String?) -> PresentationFailure {
        PresentationFailure(
            kind: .format,
            text: "GStreamer's demuxer has stopped without an error. It fetched "
                + "\(HTTPRequest(url: url).printableURL) last, and gives nothing more.",
            advice: advice(
                "Check that GStreamer plays such media. GST_DEBUG=\(demuxer):4,adaptivedemux2:4 shows more.", error))
    }

    /// Segments came to their end, and nothing could be made of the `what` in them. `url`: what was fetched last.
    fileprivate static func nothing(
        of what: String, from demuxer: String, at url: String, _ error: String?
    ) -> PresentationFailure {
        PresentationFailure(
            kind: .format,
            text: "Segments came, the last from \(HTTPRequest(url: url).printableURL), "
                + "but GStreamer's \(demuxer) made no \(what) of them.",
            advice: advice(
                "The media is damaged, or encrypted in another way than the manifest or playlist says.", error))
    }

    /// Samples were decrypted with a wrong key, and no decoder takes them. `url`: what was fetched last.
    fileprivate static func noStart(_ key: String, hasBegun: Bool, at url: String) -> PresentationFailure {
        PresentationFailure(
            kind: .unsupported,
            text: "Playback cannot \(hasBegun ? "go on" : "begin"): segments came, the last from "
                + "\(HTTPRequest(url: url).printableURL), but the decoders make nothing of what the key for \(key) decrypts.",
            advice: "Either the key is a wrong one, or the media is encrypted in another way than it says.")
    }

    private static func advice(_ text: String, _ error: String?) -> String {
        error.map { "\(text)\n\(inside($0))" } ?? text
    }

    fileprivate static func inside(_ error: String) -> String { "An element inside the demuxer said: \(error)" }
}
