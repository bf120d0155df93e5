// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyAgent
import Latchkey
import LatchkeyKeySession

// The functions of latchkey-records.h. The header is their documentation.

@c @implementation
public func latchkey_licenses_list(
    _ configurationFile: UnsafePointer<CChar>!, _ callback: LatchkeyLicenseListCallback!,
    _ userData: UnsafeMutableRawPointer!, _ destroy: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> UInt64 {
    guard let callback else { return 0 }
    let file = configurationFile.map { String(cString: $0) }
    let userData = UserData(userData, destroy)
    return Calls.begin(userData) { () throws(AgentError) in
        try await Agent.licenses(configurationFile: file).map(LicenseHandle.init)
    } _: { licenses, error in
        lend(licenses) { callback($0, $1, error?.pointer, userData.pointer) }
    }
}

@c @implementation
public func latchkey_license_remove(
    _ configurationFile: UnsafePointer<CChar>!, _ id: UnsafePointer<UInt8>!,
    _ callback: LatchkeyLicenseRemovedCallback!, _ userData: UnsafeMutableRawPointer!,
    _ destroy: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> UInt64 {
    // SAFETY: the header asks for so many bytes.
    guard let id, let id = RecordID(UnsafeBufferPointer(start: id, count: RecordID.size)) else { return 0 }
    let file = configurationFile.map { String(cString: $0) }
    let userData = UserData(userData, destroy)
    return Calls.begin(userData) { () throws(AgentError) in
        try await Agent.removeLicense(id, configurationFile: file)
    } _: { wasThere, error in
        callback?(wasThere == true ? 1 : 0, error?.pointer, userData.pointer)
    }
}

@c @implementation
public func latchkey_license_ref(_ license: OpaquePointer!) -> OpaquePointer! { LicenseHandle.of(license)?.retained() }

@c @implementation
public func latchkey_license_unref(_ license: OpaquePointer!) { LicenseHandle.release(license) }

@c @implementation
public func latchkey_license_get_id(_ license: OpaquePointer!) -> UnsafePointer<UInt8>! {
    LicenseHandle.of(license)?.id.bytes
}

@c @implementation
public func latchkey_license_get_key_system(_ license: OpaquePointer!) -> UnsafePointer<CChar>! {
    LicenseHandle.of(license)?.keySystem.text
}

@c @implementation
public func latchkey_license_get_key_id(_ license: OpaquePointer!, _ index: Int) -> UnsafePointer<UInt8>! {
    LicenseHandle.of(license)?.keyIDs[at: index]?.bytes
}

@c @implementation
public func latchkey_license_get_domain(_ license: OpaquePointer!) -> UnsafePointer<CChar>! {
    LicenseHandle.of(license)?.domain?.text
}

@c @implementation
public func latchkey_license_get_rights(_ license: OpaquePointer!) -> OpaquePointer! {
    LicenseHandle.of(license)?.rights.pointer
}

// Viewing sessions

@c @implementation
public func latchkey_viewing_sessions_list(
    _ configurationFile: UnsafePointer<CChar>!, _ callback: LatchkeyViewingSessionListCallback!,
    _ userData: UnsafeMutableRawPointer!, _ destroy: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> UInt64 {
    guard let callback else { return 0 }
    let file = configurationFile.map { String(cString: $0) }
    let userData = UserData(userData, destroy)
    return Calls.begin(userData) { () throws(AgentError) in
        try await Agent.viewingSessions(configurationFile: file).map(ViewingSessionHandle.init)
    } _: { sessions, error in
        lend(sessions) { callback($0, $1, error?.pointer, userData.pointer) }
    }
}

@c @implementation
public func latchkey_viewing_sessions_end_left_over(
    _ configurationFile: UnsafePointer<CChar>!, _ callback: LatchkeyViewingSessionsEndedCallback!,
    _ userData: UnsafeMutableRawPointer!, _ destroy: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> UInt64 {
    let file = configurationFile.map { String(cString: $0) }
    let userData = UserData(userData, destroy)
    return Calls.begin(userData) { () throws(AgentError) in
        try await Agent.endLeftOverViewingSessions(configurationFile: file)
    } _: { count, error in
        callback?(count?.ended ?? 0, count?.left ?? 0, error?.pointer, userData.pointer)
    }
}

@c @implementation
public func latchkey_viewing_session_ref(_ session: OpaquePointer!) -> OpaquePointer! {
    ViewingSessionHandle.of(session)?.retained()
}

@c @implementation
public func latchkey_viewing_session_unref(_ session: OpaquePointer!) { ViewingSessionHandle.release(session) }

@c @implementation
public func latchkey_viewing_session_get_name(_ session: OpaquePointer!) -> UnsafePointer<CChar>! {
    ViewingSessionHandle.of(session)?.name.text
}

@c @implementation
public func latchkey_viewing_session_get_server_url(_ session: OpaquePointer!) -> UnsafePointer<CChar>! {
    ViewingSessionHandle.of(session)?.serverURL.text
}

@c @implementation
public func latchkey_viewing_session_get_process_id(_ session: OpaquePointer!) -> Int64 {
    ViewingSessionHandle.of(session)?.processID ?? 0
}

@c @implementation
public func latchkey_viewing_session_get_attempts(_ session: OpaquePointer!) -> UInt32 {
    ViewingSessionHandle.of(session)?.attempts ?? 0
}

/// The pointers of what is lent for the time of `body`; nothing where there is nothing.
private func lend<Handle: OpaqueReference>(
    _ handles: [Handle]?, to body: (UnsafePointer<OpaquePointer?>?, Int) -> Void
) {
    let pointers = handles?.map { Optional($0.pointer) } ?? []
    pointers.withUnsafeBufferPointer { body($0.baseAddress, $0.count) }
    withExtendedLifetime(handles) {}
}
