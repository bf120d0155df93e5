// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySession
import LatchkeyManifests
import LatchkeyProtection
import Synchronization

extension HLSPresentation {
    /// That at `url`, or of another variant, if its own keys are refused. A key at a URI is asked for with the init segment.
    func playlist(_ url: String, _ request: LoopbackRequest) async throws(HLSFailure) -> LoopbackResponse {
        var leftOut: [KeyID: KeyError] = state.withLock { state in
            guard state.variants.isOpen(for: url) else { return [:] }
            defer { state.departed = [:] }
            return state.departed
        }
        if state.withLock({ $0.variants.isRefused(url) }) {
            let refusals = await refusals(of: url)
            leftOut.merge(refusals) { first, _ in first }
            if refusals.isEmpty { state.withLock { $0.variants.allow(url) } }
        }
        while true {
            let source = state.withLock { $0.variants.playlist(for: url) }
            var request = request
            if source != url { request.query = request.query.map(HLSDeliveryDirectives.withoutSkip) }
            let (response, section) = try await ownPlaylist(source, request)
            if let section, case .key(let key) = section.protection, key.isQuick, choice != nil,
                state.withLock({ $0.variants.isOpen(for: source) }),
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
                // A key that it needs later may have been refused since.
                let departure = state.withLock { state in
                    state.variants.didGive(source, for: url)
                    return state.variants.departure
                }
                if let departure { onDeparture(departure) }
                if !leftOut.isEmpty { onLeftOut(leftOut) }
                return response
            }
            leftOut.merge(refusals) { first, _ in first }
            let isLast = state.withLock { state in
                state.variants.refuse(source)
                return state.variants.playlist(for: url) == source
            }
            // None is left, and the decryptor says so.
            if isLast { return response }
        }
    }

    /// How long the answers to requests for the keys of another variant are waited for while one plays. The stock demuxer asks
    /// again after `HLSAnswers.patience`.
    private static let switchPatience: Duration = .seconds(5)

    /// Which keys of a variant's playlist may not be used, where there is a choice. Waits for the answers, when the playlist is
    /// read first. `isRenamed`: the keys have other names since, and may have been asked for again.
    private func refusals(of url: String, isRenamed: Bool = false) async -> [KeyID: KeyError] {
        guard let choice else { return [:] }
        let (deciding, hasNext) = state.withLock { state -> ([HLSKey], Bool) in
            guard state.variants.isOpen(for: url) else { return ([], false) }
            let next = state.own(state.schedule.nextKeys(of: url))
            return (state.own(state.schedule.firstKeys(of: url)), !next.isEmpty)
        }
        guard !deciding.isEmpty || hasNext else { return [:] }
        let now = choice.session.now
        let (isNew, hasOutput, start) = state.withLock { state in
            state.choiceStart = state.choiceStart ?? now
            return (state.awaited.insert(url).inserted, state.hasOutput, state.choiceStart ?? now)
        }
        if isNew || isRenamed {
            await keys.waitForAnswers(
                to: deciding, from: hasOutput ? now : start, limit: hasOutput ? Self.switchPatience : nil)
        }
        // Of those behind them, what is known by now.
        let next = state.withLock { $0.own($0.schedule.nextKeys(of: url)) }
        return choice.refusals(of: (deciding + next).map { keys.keyID(of: $0) }, for: .video)
    }

    /// A request for keys has failed. If the variant that plays needs one of them soon, the stock demuxer is to play another one.
    func keysDidFail() {
        guard let choice else { return }
        let next = state.withLock { state in
            state.variants.kept.map { ($0, state.own(state.schedule.nextKeys(of: $0))) }
        }
        var (refused, refusals): ([String], [KeyID: KeyError]) = ([], [:])
        for (url, wanted) in next {
            let own = choice.refusals(of: wanted.map { keys.keyID(of: $0) }, for: .video)
            guard !own.isEmpty else { continue }
            refused.append(url)
            refusals.merge(own) { first, _ in first }
        }
        guard !refused.isEmpty else { return }
        let departure = state.withLock { state in
            for url in refused { state.variants.refuse(url) }
            let departure = state.variants.departure
            if departure != nil { state.departed.merge(refusals) { first, _ in first } }
            return departure
        }
        if let departure { onDeparture(departure) }
    }
}

extension HLSPresentation.State {
    /// Without the only key of the session, which is that of all variants.
    fileprivate func own(_ keys: [HLSKey]) -> [HLSKey] {
        guard sessionKeys.count == 1, let shared = sessionKeys.first?.uri else { return keys }
        return keys.filter { $0.uri != shared }
    }
}
