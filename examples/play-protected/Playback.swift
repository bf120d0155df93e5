// SPDX-License-Identifier: MPL-2.0

import LatchkeyOffline
import LatchkeyHTTP
import LatchkeyKeySystems
import Latchkey
import LatchkeyKeySession
import LatchkeyProtection

/// One piece of content from the look at its rights to the end of its playback, as the manual's figure 6 has it.
struct Playback {
    enum Outcome {
        case played, failed, noRights, unusable, informed

        var status: Int32 {
            switch self {
            case .played, .informed: 0
            case .failed: 1
            case .noRights: 2
            case .unusable: 3
            }
        }
    }

    private let options: Options
    private let content: Options.Content
    private let remote: Remote?

    init(_ content: Options.Content, _ options: Options, _ remote: Remote? = nil) {
        self.content = content
        self.remote = remote
        self.options = options
    }

    func run() async -> Outcome {
        // The one reference, so that it can be given up.
        var holder: Agent? = Agent(contentURL: content.url, type: content.type, configuration: options.agent)
        if let end = await prepare(holder) { return end }
        return await play(&holder)
    }

    /// Looks at the content and acquires a license where one is needed. Nil: it may be played.
    private func prepare(_ agent: Agent?) async -> Outcome? {
        guard let agent else { return .failed }
        agent.hdmiMode = options.hdmiMode
        agent.selectedAudioTrack = options.audioTrack
        agent.customLicenseChallengeData = options.customData
        do throws(AgentError) {
            if let path = options.hdmiImage { try agent.setHDMIAlternativeImage(file: path) }
            let info = try await agent.contentInfo()
            show(info)
            if options.onlyInforms { return .informed }
            if options.agent.acquisition == .manual, info.rightsStatus != .valid, !options.refuses {
                guard mayAcquire() else { return .noRights }
                let rights = try await agent.acquireLicense(delegate: options.delegate)
                print("acquired: \(rights)")
                guard rights.kind == .valid else { return .noRights }
            }
        } catch {
            print("error: \(error)")
            return error.code == .licenseNotAcquired ? .noRights : .unusable
        }
        return nil
    }

    private func show(_ info: ContentInfo) {
        print("protected: \(info.isProtected ? "yes" : "no")")
        for (name, values) in [
            ("key systems", info.keySystems.map(\.rawValue)), ("KIDs", info.keyIDs.map(\.description)),
            ("audio tracks", info.audioTrackNames), ("license URLs", info.licenseURLs),
        ] where !values.isEmpty {
            print("\(name): \(values.joined(separator: ", "))")
        }
        print("rights: \(info.rights)")
        if let begins = info.rightsBegin { print("rights begin: \(begins)") }
        if let ends = info.rightsEnd { print("rights end: \(ends)") }
        if info.rightsExpireAfterFirstUse { print("rights end some time after the first use") }
    }

    private func mayAcquire() -> Bool {
        options.agrees || PlayProtected.ask("There are no rights to play this. Acquire a license? [y/N] ") == "y"
    }

    // MARK: Playing

    private func play(_ agent: inout Agent?) async -> Outcome {
        guard let pipeline = pipeline(of: agent) else { return .failed }
        remote?.take(pipeline, of: agent)
        defer { remote?.take(nil, of: nil) }
        var outcome = Outcome.failed
        var rest: AsyncStream<AgentEvent>?
        for round in 1...max(options.rounds, 1) {
            if options.rounds > 1 { print("round: \(round)") }
            let events = agent?.events
            guard pipeline.play() else { return .failed }
            if let target = options.seeksTo { seek(pipeline, to: target) }
            if let time = options.purgeAfter { purge(after: time) }
            if let (time, mode) = options.laterHDMIMode {
                Task { [weak agent] in
                    try? await Task.sleep(for: .milliseconds(Int64(time)))
                    agent?.hdmiMode = mode
                }
            }
            if let time = options.releaseAfter {
                outcome = await release(&agent, after: time, pipeline)
            } else {
                outcome = await follow(events, of: agent, pipeline)
            }
            if let position = pipeline.position { print("position: \(position / 1_000_000) ms") }
            rest = agent?.events
            pipeline.stop()
            guard outcome == .played else { break }
        }
        // The end of the viewing session, which may fail, is the last that happens.
        agent?.close()
        if let rest {
            for await event in rest {
                if case .sessionTeardownError(let details) = event {
                    print("event: session teardown error: \(text(details))")
                }
            }
        }
        return outcome
    }

    private func pipeline(of agent: Agent?) -> (any Playing)? {
        guard let agent else { return nil }
        do throws(AgentError) {
            if options.attaches { return try OwnPipeline(agent, content, options) }
            return try agent.makePlayer()
        } catch {
            print("error: \(error)")
            return nil
        }
    }

    /// As soon as the pipeline can.
    private func seek(_ pipeline: any Playing, to milliseconds: UInt64) {
        Task {
            for _ in 0..<500 {
                try? await Task.sleep(for: .milliseconds(20))
                guard (pipeline.position ?? 0) > 0 else { continue }
                print("seek: \(pipeline.seek(to: milliseconds * 1_000_000) ? "yes" : "no")")
                return
            }
        }
    }

    /// While it plays.
    private func purge(after milliseconds: UInt64) {
        Task {
            try? await Task.sleep(for: .milliseconds(Int64(milliseconds)))
            do throws(CacheError) {
                let cached = try CachedContent(url: content.url, type: content.type, cache: options.agent.cache)
                try await cached.purgeAndWait()
                print("purged while playing")
            } catch {
                print("error: \(error)")
            }
        }
    }

    /// Gives the agent up while it plays: playback ends, and says why.
    private func release(_ agent: inout Agent?, after milliseconds: UInt64, _ pipeline: any Playing) async -> Outcome {
        try? await Task.sleep(for: .milliseconds(Int64(milliseconds)))
        print("released at: \((pipeline.position ?? 0) / 1_000_000) ms")
        agent = nil
        for _ in 0..<500 {
            if let end = pipeline.takeMessages() {
                print("end: \(end.text)")
                return end.isError ? .failed : .played
            }
            try? await Task.sleep(for: .milliseconds(20))
        }
        print("end: none")
        return .failed
    }

    /// Shows what happens, and does what is to be done, until the end.
    private func follow(_ events: AsyncStream<AgentEvent>?, of agent: Agent?, _ pipeline: any Playing) async -> Outcome
    {
        guard let events, let agent else { return .failed }
        for await event in events {
            // A bus that is not emptied keeps everything.
            _ = pipeline.takeMessages()
            switch event {
            case .rightsNotAvailable(let status, _):
                print("event: rights not available: \(status)")
                if options.refuses { break }
                guard mayAcquire() else { return .noRights }
                // The pipeline plays what it has, and waits.
                Task {
                    do throws(AgentError) {
                        let rights = try await agent.acquireLicense(delegate: options.delegate)
                        print("acquired: \(rights)")
                    } catch {
                        print("error: \(error)")
                    }
                }
            case .untrustedSystemTime(let reason): print("event: untrusted system time: \(reason)")
            case .invalidContent(let url, let reason): print("event: invalid content: \(url): \(reason)")
            case .serverError(let url, let status): print("event: server error: \(status) \(url)")
            case .playbackShouldBeAborted(let reason):
                print("event: playback should be aborted: \(reason)")
                return .failed
            case .playbackWillBeAborted(let reason): print("event: playback will be aborted: \(reason)")
            case .cacheEdgeReached(let edge, let reason):
                print("event: cache edge reached: \(edge.map { "\($0.inMilliseconds) ms" } ?? "unknown"): \(reason)")
            case .sessionSetupError(let details): print("event: session setup error: \(text(details))")
            case .sessionHeartbeatError(let details, let isFinal):
                print("event: session heartbeat error\(isFinal ? ", final" : ""): \(text(details))")
            case .sessionTeardownError(let details): print("event: session teardown error: \(text(details))")
            case .outputStatus(let status):
                print("event: outputs \(status.status): \(status.reasons.joined(separator: "; "))")
            case .stateChanged(let state):
                print("state: \(state.rawValue)")
                switch state {
                case .ended: return .played
                case .failed, .aborted: return .failed
                default: break
                }
            // Of what ends playback, the state says only that it does.
            case .logMessage(let message):
                if options.showsLog || message.level == .error { print("message: \(message)") }
            }
        }
        return .failed
    }

    private func text(_ details: SessionErrorDetails) -> String {
        "HTTP \(details.httpStatus), \(details.code) \(details.message), \(details.reason)"
    }
}

extension Options {
    var delegate: (any PlayReadyDelegate)? {
        delegateHeader.map { HeaderDelegate(name: $0.name, value: $0.value) }
    }
}

/// Adds a field to what the agent would send.
private final class HeaderDelegate: PlayReadyDelegate {
    private let field: (name: String, value: String)

    init(name: String, value: String) { field = (name, value) }

    func performLicenseAcquisition(_ request: PlayReadyServiceRequest) async throws(KeyError) -> [UInt8] {
        var request = request
        request.headers.append(.init(name: field.name, value: field.value))
        return try await request.send()
    }
}
