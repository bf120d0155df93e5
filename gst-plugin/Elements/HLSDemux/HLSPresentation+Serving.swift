// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyHTTP
import LatchkeyContainers
import LatchkeyManifests
import LatchkeyProtection
import Synchronization

extension HLSPresentation {
    /// Answers one loopback request.
    func answer(_ request: LoopbackRequest) async -> LoopbackResponse {
        let request = takeIn(request)
        guard let resource = resource(of: request) else { return .notFound }
        for next in ahead(of: resource) { keys.demand(next) }
        prepareAudio(of: resource, request)
        // An answer that comes as it arrives is for one request: no other may share it.
        switch resource {
        case .segment(let segment): return await decrypted(segment, request)
        case .relayedSegment(let url): return await relayed(url, request)
        default: break
        }
        let response = await answers.answer(Self.answerName(request), isAskedOnce: relay != nil) { [self] in
            await answer(request, resource)
        }
        if case .playlist(let url) = resource, answers.hasEnded {
            state.withLock { if !$0.refused.insert(url).inserted { $0.isAskedAgain = true } }
        }
        return response
    }

    /// Answers a loopback request where the answer is at hand: no other thread has to wake up for it.
    func quickAnswer(_ request: LoopbackRequest) -> LoopbackResponse? {
        guard let resource = resource(of: request) else { return nil }
        let response: LoopbackResponse
        if case .keyNote(let note) = resource {
            guard note.key.map({ keys.isUsable($0) }) ?? true else { return nil }
            response = self.response(of: note)
        } else {
            guard let ready = answers.takeReady(Self.answerName(request)) else { return nil }
            response = ready
        }
        _ = takeIn(request)
        let wanted = ahead(of: resource)
        // Whoever hears of a request for a key may take his time.
        if !wanted.isEmpty { Task { [keys] in for key in wanted { keys.demand(key) } } }
        return response
    }

    private func resource(of request: LoopbackRequest) -> HLSResource? {
        table.resource(String(request.path.prefix { $0 != "." }))
    }

    private static func answerName(_ request: LoopbackRequest) -> String {
        "\(request.path.prefix { $0 != "." })?\(request.query ?? "")"
    }

    /// Notes a request of the stock demuxer, and gives it as the origin gets it.
    private func takeIn(_ request: LoopbackRequest) -> LoopbackRequest {
        state.withLock { $0.requestCount += 1 }
        let request = withoutOwnReferrer(request)
        origin.note(request)
        return request
    }

    /// The keys to ask for ahead, now that what this resource is for is fetched.
    private func ahead(of resource: HLSResource) -> [HLSKey] {
        guard let key = resource.key else { return [] }
        return state.withLock { $0.schedule.didFetch(key) }
    }

    // MARK: Ahead of requests

    private static let preparedLimit = 1024

    /// The stock demuxer asks for the playlist of the first variant as soon as it has the master playlist, with these
    /// fields.
    func prepareFirstVariant() {
        let (first, home) = state.withLock { ($0.firstVariant, $0.home) }
        // What the source element sends goes nowhere else.
        guard let first, URIReference(first).origin == URIReference(home).origin else { return }
        let fields = [HTTPHeader(name: "Cache-Control", value: "max-age=0"), HTTPHeader(name: "Referer", value: home)]
        prepare(.playlist(url: first), LoopbackRequest(path: "", headers: fields))
    }

    /// The stock demuxer asks for the playlist of the sound when the first segment of pictures is on its way, and waits
    /// for it on the thread that handles that. So it is made meanwhile.
    private func prepareAudio(of resource: HLSResource, _ request: LoopbackRequest) {
        guard case .playlist(let url) = resource,
            let audio = state.withLock({ $0.hasOutput ? nil : $0.defaultAudio[url] })
        else { return }
        prepare(.playlist(url: audio), request)
    }

    /// The one init segment of a playlist is what the stock demuxer fetches next.
    private func prepareInitSegment(of rewriting: HLSRewriting, _ request: LoopbackRequest) {
        let segments = rewriting.resources.filter { if case .initSegment = $0 { true } else { false } }
        if segments.count == 1, let segment = segments.first { prepare(segment, request) }
    }

    /// Makes the answer for a resource, which is named already, before the stock demuxer asks for it. Once: it may never
    /// do so, and what failed is told when it did.
    private func prepare(_ resource: HLSResource, _ request: LoopbackRequest) {
        let isFirst = state.withLock { state in
            // A live presentation may have new ones for ever.
            if state.prepared.count > Self.preparedLimit { state.prepared = [] }
            return state.prepared.insert(resource).inserted
        }
        guard isFirst, let name = table.knownName(of: resource) else { return }
        var request = request
        request.query = nil
        answers.prepare("\(name)?") { [self, request] in
            do throws(HLSFailure) {
                switch resource {
                case .playlist(let url): return try await playlist(url, request)
                case .initSegment(let segment): return try await initSegment(segment, request)
                default: return nil
                }
            } catch {
                return nil
            }
        }
    }

    private func answer(_ request: LoopbackRequest, _ resource: HLSResource) async -> LoopbackResponse {
        while true {
            do throws(HLSFailure) {
                let response = try await response(to: request, resource)
                if let url = resource.originURL { relay?.didSucceed(url) }
                return response
            } catch {
                HLSDemuxer.log.log(.warning, nil, error.text)
                if let relay, let url = resource.originURL, await relay.triesAgain(error, at: url) {
                    guard case .status = error.cause else { continue }
                }
                let end = resource.originURL.flatMap { relay?.ended(error, at: $0) } ?? error
                return answer(to: resource, end)
            }
        }
    }

    private func response(
        to request: LoopbackRequest, _ resource: HLSResource
    ) async throws(HLSFailure) -> LoopbackResponse {
        switch resource {
        case .playlist(let url): return try await playlist(url, request)
        case .initSegment(let segment): return try await initSegment(segment, request)
        // Never come here.
        case .segment, .relayedSegment: return .notFound
        case .envelope(let segment): return try await envelope(segment, request)
        case .keyNote(let note): return try await keyNote(note)
        }
    }

    private func answer(to resource: HLSResource, _ error: HLSFailure) -> LoopbackResponse {
        if Task.isCancelled { return .notFound }
        if case .playlist = resource {
            // Another variant may do. Where none does, the stock demuxer says so, and this is why.
            state.withLock { $0.failure = error }
        } else if error.isFinal {
            fail(error)
        } else {
            state.withLock { $0.failure = error }
        }
        return LoopbackResponse(status: error.status)
    }

    /// From the origin as it is.
    private func relayed(_ url: String, _ request: LoopbackRequest) async -> LoopbackResponse {
        await relayedAnswers.answer { [self] in
            do throws(HLSFailure) {
                return try await segmentRelay.answer(url, request)
            } catch {
                HLSDemuxer.log.log(.warning, nil, error.text)
                if !Task.isCancelled { state.withLock { $0.failure = error } }
                return LoopbackResponse(status: error.status)
            }
        }
    }

    /// The stock demuxer names the playlist that it read as the referrer. That is the loopback server's, and what the
    /// origin knows is the presentation's URL.
    private func withoutOwnReferrer(_ request: LoopbackRequest) -> LoopbackRequest {
        var request = request
        let (servers, home) = state.withLock { ($0.servers, $0.home) }
        for index in request.headers.indices where request.headers[index].name.lowercased() == "referer" {
            if servers?.isOwn(request.headers[index].value) == true { request.headers[index].value = home }
        }
        return request
    }

    // MARK: Playlists

    private func playlist(_ url: String, _ request: LoopbackRequest) async throws(HLSFailure) -> LoopbackResponse {
        watch.didAsk(for: url)
        let first = state.withLock { state -> HTTPResponse? in
            guard state.first?.url == url else { return nil }
            defer { state.first = nil }
            return state.first
        }
        let response: HTTPResponse
        if let first {
            response = first
        } else {
            response = try await origin.response(
                .playlist, HLSDeliveryDirectives.forwarding(request.query ?? "", to: url), for: request)
        }
        if response.status == 304 {
            return LoopbackResponse(status: 304, headers: HLSOrigin.returned(response.headers))
        }
        guard response.status == 200 else { throw .status(response.status, of: "playlist", at: response.url) }
        var rewriting = try rewrite(response.body, from: response.url, as: url)
        if let segment = rewriting.segmentToProbe {
            let isEnveloped = await isEnvelope(segment, request)
            rewriting = try rewrite(response.body, from: response.url, as: url, isEnveloped: isEnveloped)
        }
        if let segment = rewriting.segmentToInspect {
            let start = try await origin.bytes(.segment, segment, range: HLSByteRange(offset: 0, length: 1024))
            if let kind = HLSSegmentKind(firstBytes: start) {
                rewriting = try rewrite(response.body, from: response.url, as: url, kind: kind)
            }
        }
        prepareInitSegment(of: rewriting, request)
        var headers = HLSOrigin.returned(response.headers)
        if !headers.contains(where: { $0.name.lowercased() == "content-type" }) {
            headers.append(HTTPHeader(name: "Content-Type", value: "application/vnd.apple.mpegurl"))
        }
        return LoopbackResponse(headers: headers, body: rewriting.bytes)
    }

    // MARK: Segments

    /// Decrypted as it arrives from the origin.
    private func decrypted(_ segment: HLSEncryptedSegment, _ request: LoopbackRequest) async -> LoopbackResponse {
        await relayedAnswers.answer { [self] in
            do throws(HLSFailure) {
                return try await self.segment(segment, request)
            } catch {
                HLSDemuxer.log.log(.warning, nil, error.text)
                return answer(to: .segment(segment), error)
            }
        }
    }

    private func segment(
        _ segment: HLSEncryptedSegment, _ request: LoopbackRequest
    ) async throws(HLSFailure) -> LoopbackResponse {
        let (url, key) = (segment.url, segment.decryption.key)
        // The key is fetched meanwhile.
        keys.demand(key)
        let encrypted = try await encrypted(segment, request)
        // Such as 204. The stock demuxer leaves it out, as one of clear media.
        if encrypted.stream == nil, encrypted.body.isEmpty { return LoopbackResponse(status: encrypted.status) }
        let cipher = try await cipher(for: segment.decryption, of: "segment", at: url)
        guard let stream = encrypted.stream else {
            do throws(DecryptionError) {
                return LoopbackResponse(body: ID3Filter.filter(whole: try cipher.decrypt(whole: encrypted.body)))
            } catch {
                throw .wrongKey(key, at: url)
            }
        }
        // The demuxer may look at the first bytes before the last ones show that the key is right.
        let isProven = state.withLock { state in
            let isProven = state.provenKey == key
            if !isProven { state.doubt = .wrongKey(key, at: url) }
            return isProven
        }
        let body = DecryptedBody(stream, cipher) { [weak self] error in
            if error != nil { self?.fail(.wrongKey(key, at: url)) } else if !isProven { self?.didProve(key) }
        }
        return LoopbackResponse(
            status: 200, headers: [],
            stream: LoopbackStream(length: nil) { () async throws(LoopbackStream.Broken) in try await body.next() })
    }

    private func didProve(_ key: HLSKey) {
        state.withLock { ($0.provenKey, $0.doubt) = (key, nil) }
    }

    /// The segment as the origin has it: its bytes, or a stream of them.
    private func encrypted(
        _ segment: HLSEncryptedSegment, _ request: LoopbackRequest
    ) async throws(HLSFailure) -> LoopbackResponse {
        var request = request
        request.headers.removeAll { $0.name.lowercased() == "range" }
        if let range = segment.byteRange { request.headers.append(HTTPHeader(name: "Range", value: range.httpRange)) }
        var response = try await segmentRelay.answer(segment.url, request, isEncrypted: true)
        // A server without ranges sends all.
        if let range = segment.byteRange, response.status == 200, response.stream == nil {
            response.body = try range.cut(from: response.body, of: "segment", at: segment.url)
        }
        return response
    }

    private func cipher(
        for decryption: HLSSegmentDecryption, of what: String, at url: String
    ) async throws(HLSFailure) -> SegmentCipher {
        let key = try await keys.contentKey(for: decryption.key)
        guard let vector = decryption.initializationVector ?? key.initializationVector else {
            throw .media(what, at: url, "neither the playlist nor the key has an IV")
        }
        do throws(DecryptionError) {
            return try SegmentCipher(key: key, initializationVector: vector)
        } catch {
            throw .media(what, at: url, "\(error)")
        }
    }

    private func initSegment(
        _ segment: HLSInitSegment, _ request: LoopbackRequest
    ) async throws(HLSFailure) -> LoopbackResponse {
        var bytes = try await origin.bytes(.initSegment, segment.url, for: request, range: segment.byteRange)
        if let decryption = segment.decryption {
            let cipher = try await cipher(for: decryption, of: "init segment", at: segment.url)
            do throws(DecryptionError) {
                bytes = try cipher.decrypt(whole: bytes)
            } catch {
                throw .media("init segment", at: segment.url, "\(error)")
            }
        }
        do {
            bytes = try keys.prepare(bytes, segment.protection)
        } catch {
            throw .media("init segment", at: segment.url, error.description)
        }
        return LoopbackResponse(headers: [HTTPHeader(name: "Content-Type", value: "video/mp4")], body: bytes)
    }

    /// At the start, the note comes when the key is there: the stock demuxer fetches segments one after the other until
    /// something comes out, and fails at the end of the playlist where nothing did. Later the decryptor waits.
    private func keyNote(_ note: HLSKeyNote) async throws(HLSFailure) -> LoopbackResponse {
        if let key = note.key {
            if state.withLock(\.hasOutput) { keys.demand(key) } else { _ = try await keys.contentKey(for: key) }
        }
        return response(of: note)
    }

    private func response(of note: HLSKeyNote) -> LoopbackResponse {
        segments.willServe(note)
        let segmentKey = SegmentKey(
            keyID: note.key.map { keys.keyID(of: $0) }, initializationVector: note.initializationVector)
        let bytes =
            note.kind == .packedAudio ? segmentKey.id3Tag() : segmentKey.transportStreamPackets()
        return LoopbackResponse(body: bytes)
    }
}
