// SPDX-License-Identifier: MPL-2.0

import LatchkeyElementKit
import LatchkeyKeySession
import LatchkeyOutputs
import LatchkeyProtection
import Synchronization

/// A property of the guard that cannot be used.
struct OutputSettingError: Error, CustomStringConvertible {
    let description: String
}

/// What the user sets on a guard.
struct GuardSettings: Hashable, Sendable {
    var outputs = "kms"
    var hdmiMode = HDMIMode.standard.rawValue
    var minimumHDCP = "none"
    /// In milliseconds; 0: never.
    var violationMilliseconds: UInt32 = 30_000
    /// Of the DRM master; nil: none.
    var displayDescriptor: Int32?
    /// The addresses of the application's `wl_display` and `wl_surface`; 0: none.
    var waylandDisplay: UInt64 = 0
    var waylandSurface: UInt64 = 0
    /// What the application has told of the outputs.
    var told: OutputFacts?
    static let pollInterval = Duration.milliseconds(250)

    var violationTimeout: Duration? {
        violationMilliseconds > 0 ? .milliseconds(Int64(violationMilliseconds)) : nil
    }

    func evaluator() throws(OutputSettingError) -> OutputEvaluator {
        guard let mode = HDMIMode(rawValue: hdmiMode) else {
            throw OutputSettingError(
                description: "hdmi-mode=\(hdmiMode) is none of "
                    + HDMIMode.allCases.map(\.rawValue).joined(separator: ", "))
        }
        let levels: [String: OutputRequirement] = ["none": .unprotected, "type-0": .hdcpType0, "type-1": .hdcpType1]
        guard let minimum = levels[minimumHDCP] else {
            throw OutputSettingError(description: "minimum-hdcp=\(minimumHDCP) is none of none, type-0, type-1")
        }
        return OutputEvaluator(hdmiMode: mode, minimum: minimum)
    }

    func provider() throws(OutputSettingError) -> any OutputProvider {
        switch outputs {
        case "kms": return KMSOutputs()
        case "application": return told.map { ApplicationOutputs($0) } ?? ApplicationOutputs()
        case "wayland": return try waylandOutputs()
        default: break
        }
        guard outputs.hasPrefix("script:") else {
            throw OutputSettingError(
                description: "outputs=\(outputs) is none of kms, application, wayland, script:FILE")
        }
        let path = String(outputs.dropFirst(7))
        let script: [UInt8]
        do throws(KeyError) {
            // It decides which outputs count as protected, as a setting does.
            script = try RegularFile(path: path, kind: "output script", has: .settings)
                .contents(limit: Self.scriptLimit)
        } catch {
            throw OutputSettingError(description: "the \(error.reason)")
        }
        do throws(OutputError) {
            return try ScriptedOutputs(script: String(decoding: script, as: UTF8.self))
        } catch {
            throw OutputSettingError(description: "the output script \(path): \(error)")
        }
    }

    /// The most bytes of a script.
    private static let scriptLimit = 64 * 1024

    /// Where HDCP is asked for; nil where this process may not. `provider`: who tells the outputs.
    func asker(_ provider: any OutputProvider) throws(OutputSettingError) -> (any HDCPAsking)? {
        if let displayDescriptor { return DisplayAsker(descriptor: displayDescriptor) }
        if let outputs = provider as? WaylandOutputs { return outputs }
        return waylandSurface == 0 ? nil : try waylandOutputs()
    }

    private func waylandOutputs() throws(OutputSettingError) -> WaylandOutputs {
        do throws(OutputError) {
            return try WaylandOutputs(display: waylandDisplay, surface: waylandSurface)
        } catch {
            throw OutputSettingError(description: "the window cannot be used: \(error)")
        }
    }

    // MARK: Properties

    static let properties: [Property] = [
        Property(
            "outputs", nick: "Outputs",
            blurb:
                "Who tells the outputs: kms (the kernel's display devices), application (the set-outputs signal), "
                + "wayland (the compositor, of wayland-surface), or script:FILE for tests",
            kind: .string(default: "kms"), get: read { .string($0.outputs) },
            set: change { $0.outputs = $1.text ?? "kms" }),
        Property(
            "hdmi-mode", nick: "HDMI mode",
            blurb: "What the application makes of external digital outputs while protected content plays: default (the "
                + "license decides), disable, allow, audio-only or alternative (the alternative-image, or a white one)",
            kind: .string(default: "default"), mutability: .playing, get: read { .string($0.hdmiMode) },
            set: { element, value in
                guard let element = element as? GuardElement else { return }
                element.settings.withLock { $0.hdmiMode = value.text ?? "default" }
                element.hdmiModeDidChange()
            }),
        Property(
            "alternative-image", nick: "Alternative image",
            blurb:
                "File of the picture that hdmi-mode=alternative shows in the place of the video: PNG, JPEG, or what else "
                + "GStreamer decodes",
            kind: .string(default: nil), mutability: .playing,
            set: { element, value in (element as? GuardElement)?.setPicture(file: value.text) }),
        Property(
            "minimum-hdcp", nick: "Minimum HDCP",
            blurb: "What the application wants of all outputs of protected content: none, type-0 or type-1",
            kind: .string(default: "none"), get: read { .string($0.minimumHDCP) },
            set: change { $0.minimumHDCP = $1.text ?? "none" }),
        Property(
            "violation-timeout", nick: "Violation timeout",
            blurb: "After so many milliseconds of blocking the keys are closed too, and playback ends; 0: never",
            kind: .uint(default: 30_000, range: 0...UInt32.max), get: read { .uint($0.violationMilliseconds) },
            set: change { settings, value in
                if case .uint(let milliseconds) = value { settings.violationMilliseconds = milliseconds }
            }),
        Property(
            "display-fd", nick: "Display descriptor",
            blurb:
                "Descriptor of the DRM master on which HDCP is requested; the application keeps it open. Without one "
                + "another program has to request it",
            kind: .uint(default: UInt32.max, range: 0...UInt32.max),
            get: read { .uint($0.displayDescriptor.map { UInt32($0) } ?? UInt32.max) },
            set: change { settings, value in
                if case .uint(let number) = value { settings.displayDescriptor = Int32(exactly: number) }
            }),
        Property(
            "wayland-display", nick: "Wayland display",
            blurb: "Address of the application's wl_display, which it keeps until the guard is stopped",
            kind: .uint64(default: 0, range: 0...UInt64.max), get: read { .uint64($0.waylandDisplay) },
            set: change { settings, value in
                if case .uint64(let address) = value {
                    settings.giveWindow(display: address, surface: settings.waylandSurface)
                }
            }),
        Property(
            "wayland-surface", nick: "Wayland surface",
            blurb: "Address of the wl_surface of the window, for which HDCP is requested of the compositor through "
                + "weston_content_protection. Set it to 0 before the surface is destroyed",
            kind: .uint64(default: 0, range: 0...UInt64.max), get: read { .uint64($0.waylandSurface) },
            set: change { settings, value in
                if case .uint64(let address) = value {
                    settings.giveWindow(display: settings.waylandDisplay, surface: address)
                }
            }),
        Property(
            "stats", nick: "Statistics", blurb: "Frames passed, blocked and constricted, and closings",
            kind: .structure, mutability: .playing,
            get: { element in
                guard let counters = (element as? GuardElement)?.counters.withLock({ $0 }) else { return .none }
                return .structure(
                    "latchkey-guard-stats",
                    [
                        ("passed", .uint64(counters.passed)), ("blocked", .uint64(counters.blocked)),
                        ("constricted", .uint64(counters.constricted)), ("closings", .uint64(counters.closings)),
                    ])
            }),
    ]

    /// The window that was there before is taken back.
    private mutating func giveWindow(display: UInt64, surface: UInt64) {
        if waylandDisplay != 0, waylandSurface != 0, (display, surface) != (waylandDisplay, waylandSurface) {
            WaylandOutputs.release(display: waylandDisplay, surface: waylandSurface)
        }
        (waylandDisplay, waylandSurface) = (display, surface)
    }

    static let setOutputs = ActionSignal("set-outputs", arguments: [.string]) { element, arguments in
        guard case .string(let text?) = arguments.first else { return false }
        let words = text.split(whereSeparator: \.isWhitespace).map(String.init)
        guard let facts = OutputFacts(words) else { return false }
        return (element as? GuardElement)?.set(facts) ?? false
    }

    private static func read(
        _ value: @escaping @Sendable (GuardSettings) -> FieldValue
    ) -> @Sendable (Element) -> FieldValue {
        { element in (element as? GuardElement).map { value($0.settings.withLock { $0 }) } ?? .none }
    }

    private static func change(
        _ body: @escaping @Sendable (inout GuardSettings, FieldValue) -> Void
    ) -> @Sendable (Element, FieldValue) -> Void {
        { element, value in (element as? GuardElement)?.settings.withLock { body(&$0, value) } }
    }
}

/// Where a guard asks for HDCP. Thread-safe.
protocol HDCPAsking: Sendable {
    /// What went wrong, where something did.
    func ask(_ requirement: OutputRequirement) -> OutputError?
    /// Whether it is known only later that asking leads to nothing. To ask often costs nothing then.
    var mayFailLater: Bool { get }
}

/// Asks on the DRM master's descriptor, which the application keeps.
struct DisplayAsker: HDCPAsking {
    let descriptor: Int32

    func ask(_ requirement: OutputRequirement) -> OutputError? {
        do throws(OutputError) {
            try HDCPRequest(DRMCard(descriptor: descriptor)).request(requirement)
            return nil
        } catch { return error }
    }

    var mayFailLater: Bool { false }
}

/// Asks the compositor of the application's window.
extension WaylandOutputs: HDCPAsking {
    func ask(_ requirement: OutputRequirement) -> OutputError? {
        do throws(OutputError) {
            try request(requirement)
            return nil
        } catch { return error }
    }

    var mayFailLater: Bool { true }
}
