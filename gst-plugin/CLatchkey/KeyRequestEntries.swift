// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyLoader
import Glibc
import LatchkeyKeySession
import LatchkeyProtection

// The functions of latchkey-loader.h about requests. The header is their documentation.

@c @implementation
public func latchkey_key_request_ref(_ request: OpaquePointer!) -> OpaquePointer! {
    KeyRequestHandle.of(request)?.retained()
}

@c @implementation
public func latchkey_key_request_unref(_ request: OpaquePointer!) { KeyRequestHandle.release(request) }

@c @implementation
public func latchkey_key_request_get_id(_ request: OpaquePointer!) -> UInt64 {
    KeyRequestHandle.of(request)?.request.id ?? 0
}

@c @implementation
public func latchkey_key_request_get_key_system(_ request: OpaquePointer!) -> UnsafePointer<CChar>! {
    KeyRequestHandle.of(request)?.keySystem?.text
}

@c @implementation
public func latchkey_key_request_get_key_id_count(_ request: OpaquePointer!) -> Int {
    KeyRequestHandle.of(request)?.keyIDs.count ?? 0
}

@c @implementation
public func latchkey_key_request_get_key_id(_ request: OpaquePointer!, _ index: Int) -> UnsafePointer<UInt8>! {
    guard let handle = KeyRequestHandle.of(request), handle.keyIDs.indices.contains(index) else { return nil }
    return handle.keyIDs[index].bytes
}

@c @implementation
public func latchkey_key_request_get_key_uri(_ request: OpaquePointer!) -> UnsafePointer<CChar>! {
    KeyRequestHandle.of(request)?.keyURI?.text
}

@c @implementation
public func latchkey_key_request_get_suggested_url(_ request: OpaquePointer!) -> UnsafePointer<CChar>! {
    KeyRequestHandle.of(request)?.suggestedURL?.text
}

@c @implementation
public func latchkey_key_request_get_init_data_count(_ request: OpaquePointer!) -> Int {
    KeyRequestHandle.of(request)?.initializationData.count ?? 0
}

@c @implementation
public func latchkey_key_request_get_init_data(
    _ request: OpaquePointer!, _ index: Int, _ size: UnsafeMutablePointer<Int>!,
    _ origin: UnsafeMutablePointer<UnsafePointer<CChar>?>!
) -> UnsafePointer<UInt8>! {
    size?.pointee = 0
    origin?.pointee = nil
    guard let handle = KeyRequestHandle.of(request), handle.initializationData.indices.contains(index) else {
        return nil
    }
    let data = handle.initializationData[index]
    size?.pointee = data.bytes.size
    origin?.pointee = data.origin.text
    return data.bytes.bytes
}

@c @implementation
public func latchkey_key_request_get_challenge(
    _ request: OpaquePointer!, _ size: UnsafeMutablePointer<Int>!
) -> UnsafePointer<UInt8>! {
    let challenge = KeyRequestHandle.of(request)?.challenge
    size?.pointee = challenge?.size ?? 0
    return challenge?.bytes
}

@c @implementation
public func latchkey_key_request_is_renewal(_ request: OpaquePointer!) -> CInt {
    KeyRequestHandle.of(request)?.request.isRenewal == true ? 1 : 0
}

@c @implementation
public func latchkey_key_request_is_finished(_ request: OpaquePointer!) -> CInt {
    KeyRequestHandle.of(request)?.request.isFinished == true ? 1 : 0
}

@c @implementation
public func latchkey_key_request_make_streaming_content_key_request_data(
    _ request: OpaquePointer!, _ certificate: UnsafePointer<UInt8>!, _ certificateSize: Int,
    _ contentID: UnsafePointer<UInt8>!, _ contentIDSize: Int,
    _ data: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>!, _ size: UnsafeMutablePointer<Int>!,
    _ message: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>!
) -> LatchkeyErrorCode {
    give(data, size, message) { () throws(KeyError) in
        guard let handle = KeyRequestHandle.of(request) else { throw .malformedRequest("no request is given") }
        return try handle.request.streamingContentKeyRequestData(
            forApp: bytes(certificate, certificateSize), contentIdentifier: bytes(contentID, contentIDSize),
            options: handle.exchangeOptions)
    }
}

@c @implementation
public func latchkey_key_request_set_lease(_ request: OpaquePointer!, _ milliseconds: UInt64) {
    KeyRequestHandle.of(request)?
        .setLease(milliseconds > 0 ? .milliseconds(Int64(clamping: min(milliseconds, 1 << 50))) : nil)
}

@c @implementation
public func latchkey_key_request_finish_with_keys(
    _ request: OpaquePointer!, _ keys: UnsafePointer<LatchkeyKey>!, _ count: Int
) -> CInt {
    guard let handle = KeyRequestHandle.of(request) else { return 0 }
    var answer: [KeyID: ContentKey] = [:]
    for var entry in UnsafeBufferPointer(start: keys, count: keys == nil ? 0 : max(count, 0)) {
        withUnsafeMutableBytes(of: &entry) { bytes in
            if let keyID = KeyID(bytes[..<16]), let key = ContentKey(bytes[16...]) { answer[keyID] = key }
            if let start = bytes.baseAddress { explicit_bzero(start, bytes.count) }
        }
    }
    return handle.finish(with: .keys(answer)) ? 1 : 0
}

@c @implementation
public func latchkey_key_request_finish_with_key(
    _ request: OpaquePointer!, _ key: UnsafePointer<UInt8>!, _ iv: UnsafePointer<UInt8>!
) -> CInt {
    guard let handle = KeyRequestHandle.of(request) else { return 0 }
    let vector = iv.flatMap { InitializationVector(UnsafeBufferPointer(start: $0, count: 16)) }
    guard let key, let key = ContentKey(UnsafeBufferPointer(start: key, count: 16), initializationVector: vector) else {
        return handle.finish(with: .malformedResponse("the application's answer has no key")) ? 1 : 0
    }
    return handle.finish(with: .key(key)) ? 1 : 0
}

@c @implementation
public func latchkey_key_request_finish_with_license(
    _ request: OpaquePointer!, _ license: UnsafePointer<UInt8>!, _ size: Int
) -> CInt {
    guard let handle = KeyRequestHandle.of(request) else { return 0 }
    var license = bytes(license, size)
    defer { wipe(&license) }
    return handle.finish(with: .license(license)) ? 1 : 0
}

@c @implementation
public func latchkey_key_request_finish_with_persistable_key(
    _ request: OpaquePointer!, _ key: UnsafePointer<UInt8>!, _ size: Int
) -> CInt {
    KeyRequestHandle.of(request)?.finish(with: .persistableKey(bytes(key, size))) == true ? 1 : 0
}

@c @implementation
public func latchkey_key_request_finish_with_error(
    _ request: OpaquePointer!, _ code: LatchkeyErrorCode, _ message: UnsafePointer<CChar>!
) -> CInt {
    guard let handle = KeyRequestHandle.of(request) else { return 0 }
    let text = message.map { String(cString: $0) } ?? "the application gives no reason"
    return handle.finish(with: code.error(text)) ? 1 : 0
}

@c @implementation
public func latchkey_free(_ memory: UnsafeMutableRawPointer!) { free(memory) }

// Stored keys

@c @implementation
public func latchkey_key_request_is_for_storage(_ request: OpaquePointer!) -> CInt {
    KeyRequestHandle.of(request)?.request.isForStorage == true ? 1 : 0
}

@c @implementation
public func latchkey_key_request_set_requests_persistable_key(_ request: OpaquePointer!, _ requests: CInt) {
    KeyRequestHandle.of(request)?.setRequestsPersistableKey(requests != 0)
}

@c @implementation
public func latchkey_key_request_can_store_key(
    _ request: OpaquePointer!, _ license: UnsafePointer<UInt8>!, _ size: Int
) -> CInt {
    let canStore = try? KeyRequestHandle.of(request)?.request
        .canStoreContentKey(ofKeyVendorResponse: bytes(license, size))
    return canStore == true ? 1 : 0
}

@c @implementation
public func latchkey_key_request_make_persistable_key(
    _ request: OpaquePointer!, _ license: UnsafePointer<UInt8>!, _ licenseSize: Int,
    _ key: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>!, _ size: UnsafeMutablePointer<Int>!,
    _ message: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>!
) -> LatchkeyErrorCode {
    give(key, size, message) { () throws(KeyError) in
        guard let handle = KeyRequestHandle.of(request) else { throw .malformedRequest("no request is given") }
        return try handle.request.persistableContentKey(fromKeyVendorResponse: bytes(license, licenseSize))
    }
}

@c @implementation
public func latchkey_key_request_did_not_store(
    _ request: OpaquePointer!, _ code: LatchkeyErrorCode, _ message: UnsafePointer<CChar>!
) {
    let text = message.map { String(cString: $0) } ?? "the application gives no reason"
    KeyRequestHandle.of(request)?.request.didNotStore(code.error(text))
}

/// Hands out bytes that C frees, or why there are none.
private func give(
    _ data: UnsafeMutablePointer<UnsafeMutablePointer<UInt8>?>?, _ size: UnsafeMutablePointer<Int>?,
    _ message: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?, _ make: () throws(KeyError) -> [UInt8]
) -> LatchkeyErrorCode {
    data?.pointee = nil
    size?.pointee = 0
    message?.pointee = nil
    do throws(KeyError) {
        let made = try make()
        guard let data, let size else { throw .malformedRequest("there is no place for what is made") }
        guard let copy = malloc(made.count) else { throw .malformedRequest("out of memory") }
        // SAFETY: the new memory has as many bytes.
        UnsafeMutableRawBufferPointer(start: copy, count: made.count).copyBytes(from: made)
        data.pointee = copy.assumingMemoryBound(to: UInt8.self)
        size.pointee = made.count
        return LATCHKEY_ERROR_NONE
    } catch {
        message?.pointee = strdup(error.description)
        return LatchkeyErrorCode(error)
    }
}

/// A copy of what C lends. Nothing where there is nothing.
private func bytes(_ start: UnsafePointer<UInt8>?, _ count: Int) -> [UInt8] {
    // SAFETY: the header asks for so many bytes.
    Array(UnsafeBufferPointer(start: start, count: start == nil ? 0 : max(count, 0)))
}
