// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyGStreamer
public import CLatchkeyLoader
import Latchkey
import LatchkeyKeySession
import LatchkeyProtection
import Synchronization

// The functions of latchkey-loader.h about loaders and sessions. The header is their documentation.

/// A `LatchkeySession`.
final class SessionHandle: Sendable {
    let session = KeySession(configuration: ResourceLoaderFactory.default.configuration)
}

/// The loaders that C registered for all pipelines, by what `latchkey_loader_register` returned.
private let registered = Mutex<(loaders: [UInt64: FunctionsLoader], last: UInt64)>(([:], 0))

@c @implementation
public func latchkey_loader_register(
    _ name: UnsafePointer<CChar>!, _ functions: UnsafePointer<LatchkeyLoaderFunctions>!,
    _ userData: UnsafeMutableRawPointer!, _ destroy: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> UInt64 {
    guard let loader = FunctionsLoader(name, functions, userData, destroy) else { return 0 }
    Latchkey.register(loader)
    return registered.withLock { registered in
        registered.last &+= 1
        registered.loaders[registered.last] = loader
        return registered.last
    }
}

@c @implementation
public func latchkey_loader_unregister(_ id: UInt64) -> CInt {
    // The loader goes after the lock: its destroy function may call us.
    guard let loader = registered.withLock({ $0.loaders.removeValue(forKey: id) }) else { return 0 }
    return ResourceLoaderFactory.default.unregister(loader) ? 1 : 0
}

@c @implementation
public func latchkey_session_new() -> OpaquePointer! { SessionHandle().retained() }

@c @implementation
public func latchkey_session_ref(_ session: OpaquePointer!) -> OpaquePointer! {
    SessionHandle.of(session)?.retained()
}

@c @implementation
public func latchkey_session_unref(_ session: OpaquePointer!) { SessionHandle.release(session) }

@c @implementation
public func latchkey_session_add_loader(
    _ session: OpaquePointer!, _ name: UnsafePointer<CChar>!, _ functions: UnsafePointer<LatchkeyLoaderFunctions>!,
    _ userData: UnsafeMutableRawPointer!, _ destroy: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> CInt {
    guard let handle = SessionHandle.of(session), let loader = FunctionsLoader(name, functions, userData, destroy)
    else { return 0 }
    handle.session.addLoader(loader)
    return 1
}

@c @implementation
public func latchkey_session_close(_ session: OpaquePointer!, _ reason: UnsafePointer<CChar>!) {
    let text = reason.map { String(cString: $0) } ?? "the application closed the session"
    SessionHandle.of(session)?.session.close(.sessionClosed(text))
}

/// `void latchkey_session_attach (LatchkeySession *session, GstElement *pipeline)` of latchkey.h
@c(latchkey_session_attach)
public func latchkeySessionAttach(_ session: OpaquePointer?, _ pipeline: UnsafeMutablePointer<GstElement>?) {
    guard let handle = SessionHandle.of(session), let pipeline else { return }
    Latchkey.attach(handle.session, to: pipeline)
}
