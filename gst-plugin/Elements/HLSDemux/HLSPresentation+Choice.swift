// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyManifests
import LatchkeyProtection
import Synchronization

extension HLSPresentation {
    /// That at `url`, or of another variant, or of other sound, if its own keys are refused. A key at a URI is asked for with
    /// the init segment.
    func playlist(_ url: String, _ request: LoopbackRequest) async throws(HLSFailure) -> LoopbackResponse {
        var leftOut: [KeyID: KeyError] = [:]
        if state.withLock({ $0.variants.isRefused(url) }) {
            let refusals = await refusals(of: url)
            leftOut.merge(refusals) { first, _ in first }
            if refusals.isEmpty { state.withLock { $0.variants.allow(url) } }
        }
        while true {
            let source = state.withLock { $0.variants.playlist(for: url) }
            var request = request
            if source != url { request.query = request.query.map(HLSDeliveryDirectives.withoutSkip) }
            let (response, section) = try await usablePlaylist(source, request)
            if let section, case .key(let key) = section.protection, key.isQuick, choice != nil,
                state.withLock({ $0.isOpen(for: source) }),
                let name = table.knownName(of: .initSegment(section))
            {
                await answers.wait(for: "\(name)?")
            }
            var refusals = await refusals(of: source)
            if let section, refusals.keys.contains(where: keys.session.isMade) {
                // The key server may want the KID, which the init segment has.
                _ = try? await initSegment(section, request)
                refusals = await self.refusals(of: source, isRenamed: true)
            }
            guard !refusals.isEmpty else {
                state.withLock { $0.variants.give(source, for: url) }
                if !leftOut.isEmpty { onLeftOut(leftOut) }
                return response
            }
            leftOut.merge(refusals) { first, _ in first }
            let first = state.withLock { $0.own($0.schedule.firstKeys(of: source)) }
            let begins = !first.contains { refusals[keys.keyID(of: $0)] != nil }
            let isLast = state.withLock { state in
                state.variants.refuse(source, begins: begins)
                guard state.variants.playlist(for: url) == source else { return false }
                state.variants.give(source, for: url)
                if !state.variants.isSound(url) { state.departed = [:] }
                return true
            }
            // None is left, and the decryptor says so. Until then, nothing is to be left.
            if isLast {
                if !state.withLock({ $0.variants.isSound(url) }) { onDeparture(nil) }
                return response
            }
        }
    }

    /// `ownPlaylist`. If the request was held up, its delta update may go on from segments that were missed: then all of the
    /// playlist is asked for (draft-pantos-hls-rfc8216bis, 6.3.7).
    private func usablePlaylist(
        _ url: String, _ request: LoopbackRequest
    ) async throws(HLSFailure) -> (LoopbackResponse, HLSInitSegment?) {
        do throws(HLSFailure) {
            return try await ownPlaylist(url, request)
        } catch {
            var whole = request
            whole.query = request.query.map(HLSDeliveryDirectives.withoutSkip)
            guard error.kind == .unsupported, whole.query != request.query else { throw error }
            return try await ownPlaylist(url, whole)
        }
    }

    /// The stock demuxer gets a playlist: not one that is made before it is asked for, and may never be. Returns what there is to
    /// tell.
    func didAnswer(_ url: String) -> (@Sendable () -> Void)? {
        let (departure, leftOut) = state.withLock { state -> (HLSVariantChoice.Departure?, [KeyID: KeyError]) in
            guard state.variants.didAnswer(url) else { return (nil, [:]) }
            // A key that it needs later may have been refused since.
            if let departure = state.variants.departure { return (departure, [:]) }
            defer { state.departed = [:] }
            return (nil, state.departed)
        }
        if let departure { return { [onDeparture] in onDeparture(departure) } }
        if leftOut.isEmpty { return nil }
        return { [onLeftOut] in onLeftOut(leftOut) }
    }

    /// How long the answers to requests for the keys of another variant are waited for while one plays. The stock demuxer asks
    /// again after `HLSAnswers.patience`.
    private static let switchPatience: Duration = .seconds(5)

    /// Which keys of a variant's playlist may not be used, where there is a choice. Waits for the answers, when the playlist is
    /// read first. `isRenamed`: the keys have other names since, and may have been asked for again.
    private func refusals(of url: String, isRenamed: Bool = false) async -> [KeyID: KeyError] {
        guard let choice else { return [:] }
        let (deciding, hasNext, media) = state.withLock { state -> ([HLSKey], Bool, OutputPolicy.Media) in
            let media: OutputPolicy.Media = state.variants.isSound(url) ? .audio : .video
            guard state.isOpen(for: url) else { return ([], false, media) }
            let next = state.own(state.schedule.nextKeys(of: url))
            return (state.own(state.schedule.firstKeys(of: url)), !next.isEmpty, media)
        }
        guard !deciding.isEmpty || hasNext else { return [:] }
        let now = choice.session.now
        let (isNew, hasOutput, start) = state.withLock { state in
            state.choiceStart = state.choiceStart ?? now
            return (state.awaited.insert(url).inserted, state.hasOutput, state.choiceStart ?? now)
        }
        if isNew || isRenamed {
            // Output that begins meanwhile shortens no wait: a request that came before it is kept alive.
            await keys.waitForAnswers(
                to: deciding, from: hasOutput ? now : start, limit: hasOutput ? Self.switchPatience : nil)
        }
        // Of those behind them, what is known by now.
        let next = state.withLock { $0.own($0.schedule.nextKeys(of: url)) }
        return choice.refusals(of: deciding.map { keys.keyID(of: $0) }, for: media)
            .merging(finalRefusals(of: next, in: url, choice, for: media)) { first, _ in first }
    }

    /// Which of the keys that are asked for ahead may not be used, without those that are asked for anew when their init segments
    /// are there: the key server may want the KID.
    private func finalRefusals(
        of next: [HLSKey], in url: String, _ choice: KeyChoice, for media: OutputPolicy.Media = .video
    ) -> [KeyID: KeyError] {
        let hasNamedKeys = state.withLock { $0.schedule.hasNamedKeys(url) }
        return choice.refusals(of: next.map { keys.keyID(of: $0) }, for: media)
            .filter { !hasNamedKeys || !choice.session.mayBeAskedForAnew($0.key) }
    }

    /// Requests for keys have failed, or keys are needed soon that may have been refused before. If the variant that plays needs
    /// such a one soon, the stock demuxer is to play another variant.
    func keysDidFail() {
        guard let choice else { return }
        let next = state.withLock { state in
            state.variants.kept.map { ($0, state.own(state.schedule.nextKeys(of: $0))) }
        }
        var (refused, refusals): ([(url: String, begins: Bool)], [KeyID: KeyError]) = ([], [:])
        for (url, wanted) in next {
            let own = finalRefusals(of: wanted, in: url, choice)
            guard !own.isEmpty else { continue }
            refused.append((url, wanted.first.map { own[keys.keyID(of: $0)] == nil } ?? true))
            refusals.merge(own) { first, _ in first }
        }
        guard !refused.isEmpty else { return }
        let departure = state.withLock { state in
            for (url, begins) in refused { state.variants.refuse(url, begins: begins) }
            let departure = state.variants.departure
            if departure != nil { state.departed.merge(refusals) { first, _ in first } }
            return departure
        }
        if let departure { onDeparture(departure) }
    }
}

extension HLSPresentation.State {
    /// Whether another playlist may stand in for this one. Live, the segments of other sound may have other numbers.
    fileprivate func isOpen(for url: String) -> Bool {
        variants.isOpen(for: url) && !(variants.isSound(url) && schedule.isLive)
    }

    /// Without the only key of the session, which is that of all variants.
    fileprivate func own(_ keys: [HLSKey]) -> [HLSKey] {
        guard sessionKeys.count == 1, let shared = sessionKeys.first?.uri else { return keys }
        return keys.filter { $0.uri != shared }
    }
}
