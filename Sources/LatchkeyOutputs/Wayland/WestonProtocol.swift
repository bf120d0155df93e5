// SPDX-License-Identifier: MPL-2.0

import CLatchkeyWayland
import Synchronization

/// The protocol weston_content_protection, version 1, as libwayland wants it described.
///
/// After weston-content-protection.xml of Weston 10 (copyright The Chromium Authors, Collabora, Intel; MIT licence).
struct WestonProtocol: @unchecked Sendable {
    // SAFETY: made once for the process, never changed and never freed.
    let contentProtection: WaylandLibrary.Interface
    let protectedSurface: WaylandLibrary.Interface

    static let globalName = "weston_content_protection"

    /// Requests and events by their number.
    enum Global {
        static let destroy: UInt32 = 0
        static let getProtection: UInt32 = 1
    }

    enum Surface {
        static let destroy: UInt32 = 0
        static let setType: UInt32 = 1
        static let relax: UInt32 = 3
    }

    /// The enum `type` of weston_protected_surface. It has no order but what is known here.
    enum ProtectionType {
        static let unprotected: UInt32 = 0
        static let hdcp0: UInt32 = 1
        static let hdcp1: UInt32 = 2
    }

    private static let made = Mutex<WestonProtocol?>(nil)

    /// The one of the process, which has one libwayland-client.
    static func shared(_ library: WaylandLibrary) -> WestonProtocol {
        made.withLock { made in
            let shared = made ?? WestonProtocol(library)
            made = shared
            return shared
        }
    }

    private init(_ library: WaylandLibrary) {
        let none = Self.keep([WaylandLibrary.Interface?](repeating: nil, count: 1))
        let protectedSurface = Self.keep([
            latchkey_wl_interface(
                name: Self.text("weston_protected_surface"), version: 1, method_count: 4,
                methods: Self.keep([
                    Self.message("destroy", "", none), Self.message("set_type", "u", none),
                    Self.message("enforce", "", none), Self.message("relax", "", none),
                ]),
                event_count: 1, events: Self.keep([Self.message("status", "u", none)]))
        ])
        contentProtection = UnsafePointer(
            Self.keep([
                latchkey_wl_interface(
                    name: Self.text("weston_content_protection"), version: 1, method_count: 2,
                    methods: Self.keep([
                        Self.message("destroy", "", none),
                        Self.message(
                            "get_protection", "no",
                            Self.keep([UnsafePointer(protectedSurface), library.surfaceInterface])),
                    ]),
                    event_count: 0, events: nil)
            ]))
        self.protectedSurface = UnsafePointer(protectedSurface)
    }

    private static func message(
        _ name: StaticString, _ signature: StaticString,
        _ types: UnsafeMutablePointer<WaylandLibrary.Interface?>
    ) -> latchkey_wl_message {
        latchkey_wl_message(name: text(name), signature: text(signature), types: types)
    }

    private static func text(_ string: StaticString) -> UnsafePointer<CChar> {
        UnsafeRawPointer(string.utf8Start).assumingMemoryBound(to: CChar.self)
    }

    private static func keep<T>(_ values: [T]) -> UnsafeMutablePointer<T> {
        let memory = UnsafeMutablePointer<T>.allocate(capacity: values.count)
        memory.initialize(from: values, count: values.count)
        return memory
    }
}
