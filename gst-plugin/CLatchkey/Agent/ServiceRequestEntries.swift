// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyAgent
import LatchkeyProtection

// The functions of latchkey-agent.h about requests to services. The header is their documentation.

@c @implementation
public func latchkey_service_request_ref(_ request: OpaquePointer!) -> OpaquePointer! {
    ServiceRequestHandle.of(request)?.retained()
}

@c @implementation
public func latchkey_service_request_unref(_ request: OpaquePointer!) { ServiceRequestHandle.release(request) }

@c @implementation
public func latchkey_service_request_get_operation(_ request: OpaquePointer!) -> LatchkeyServiceOperation {
    ServiceRequestHandle.of(request)?.operation ?? LATCHKEY_SERVICE_ACQUIRE_LICENSE
}

@c @implementation
public func latchkey_service_request_get_url(_ request: OpaquePointer!) -> UnsafePointer<CChar>! {
    ServiceRequestHandle.of(request)?.url.text
}

@c @implementation
public func latchkey_service_request_get_challenge(
    _ request: OpaquePointer!, _ size: UnsafeMutablePointer<Int>!
) -> UnsafePointer<UInt8>! {
    let challenge = ServiceRequestHandle.of(request)?.challenge
    size?.pointee = challenge?.size ?? 0
    return challenge?.bytes
}

@c @implementation
public func latchkey_service_request_get_soap_action(_ request: OpaquePointer!) -> UnsafePointer<CChar>! {
    ServiceRequestHandle.of(request)?.soapAction.text
}

@c @implementation
public func latchkey_service_request_set_url(_ request: OpaquePointer!, _ url: UnsafePointer<CChar>!) {
    if let url { ServiceRequestHandle.of(request)?.setURL(String(cString: url)) }
}

@c @implementation
public func latchkey_service_request_add_header(
    _ request: OpaquePointer!, _ name: UnsafePointer<CChar>!, _ value: UnsafePointer<CChar>!
) {
    guard let name, let value else { return }
    ServiceRequestHandle.of(request)?.addHeader(String(cString: name), String(cString: value))
}

@c @implementation
public func latchkey_service_request_send(_ request: OpaquePointer!) -> CInt {
    ServiceRequestHandle.of(request)?.send() == true ? 1 : 0
}

@c @implementation
public func latchkey_service_request_finish_with_response(
    _ request: OpaquePointer!, _ response: UnsafePointer<UInt8>!, _ size: Int
) -> CInt {
    // SAFETY: the header asks for so many bytes.
    let body = Array(UnsafeBufferPointer(start: response, count: response == nil ? 0 : max(size, 0)))
    return ServiceRequestHandle.of(request)?.finish(with: body) == true ? 1 : 0
}

@c @implementation
public func latchkey_service_request_finish_with_error(
    _ request: OpaquePointer!, _ code: LatchkeyErrorCode, _ message: UnsafePointer<CChar>!
) -> CInt {
    let text = message.map { String(cString: $0) } ?? "the application gives no reason"
    return ServiceRequestHandle.of(request)?.finish(with: code.error(text)) == true ? 1 : 0
}
