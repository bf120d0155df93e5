// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyGStreamer
public import CLatchkeySecureDecryptor
import LatchkeyElements
import LatchkeyProtection
import Synchronization

// The functions of latchkey-secure-decryptor.h. The header is their documentation.

/// The decryptors that C registered, by what `latchkey_secure_decryptor_register` returned.
private let registered = Mutex<(decryptors: [UInt64: FunctionsSecureDecryptor], last: UInt64)>(([:], 0))

@c @implementation
public func latchkey_secure_decryptor_register(
    _ name: UnsafePointer<CChar>!, _ functions: UnsafePointer<LatchkeySecureDecryptorFunctions>!,
    _ userData: UnsafeMutableRawPointer!, _ destroy: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> UInt64 {
    guard let decryptor = FunctionsSecureDecryptor(name, functions, userData, destroy) else { return 0 }
    SecureDecryptors.register(decryptor)
    return registered.withLock { registered in
        registered.last &+= 1
        registered.decryptors[registered.last] = decryptor
        return registered.last
    }
}

@c @implementation
public func latchkey_secure_decryptor_unregister(_ id: UInt64) -> CInt {
    // The decryptor goes after the lock: its destroy function may call us.
    guard let decryptor = registered.withLock({ $0.decryptors.removeValue(forKey: id) }) else { return 0 }
    return SecureDecryptors.unregister(decryptor) ? 1 : 0
}

@c @implementation
public func latchkey_secure_stream_get_media_type(_ stream: OpaquePointer!) -> UnsafePointer<CChar>! {
    SecureStreamHandle.of(stream)?.mediaType.text
}

@c @implementation
public func latchkey_secure_stream_get_caps(_ stream: OpaquePointer!) -> UnsafePointer<CChar>! {
    SecureStreamHandle.of(stream)?.caps.text
}

@c @implementation
public func latchkey_secure_stream_set_error(_ stream: OpaquePointer!, _ message: UnsafePointer<CChar>!) {
    SecureStreamHandle.of(stream)?.error = message.map { String(cString: $0) }
}

@c @implementation
public func latchkey_secure_sample_get_scheme(_ sample: OpaquePointer!) -> LatchkeyScheme {
    guard let handle = SecureSampleHandle.of(sample), handle.key != nil else { return LATCHKEY_SCHEME_NONE }
    return switch handle.plan?.scheme {
    case .cenc: LATCHKEY_SCHEME_CENC
    case .cbc1: LATCHKEY_SCHEME_CBC1
    case .cens: LATCHKEY_SCHEME_CENS
    case .cbcs: LATCHKEY_SCHEME_CBCS
    case nil: LATCHKEY_SCHEME_NONE
    }
}

@c @implementation
public func latchkey_secure_sample_get_pattern(
    _ sample: OpaquePointer!, _ crypt: UnsafeMutablePointer<UInt8>!, _ skip: UnsafeMutablePointer<UInt8>!
) {
    let plan = SecureSampleHandle.of(sample)?.plan
    let pattern = plan?.scheme == .cens || plan?.scheme == .cbcs ? plan?.pattern : nil
    crypt?.pointee = pattern?.crypt ?? 0
    skip?.pointee = pattern?.skip ?? 0
}

@c @implementation
public func latchkey_secure_sample_get_key_id(_ sample: OpaquePointer!) -> UnsafePointer<UInt8>! {
    guard let handle = SecureSampleHandle.of(sample), handle.hasKeyID else { return nil }
    return UnsafePointer(handle.keyID)
}

@c @implementation
public func latchkey_secure_sample_get_key(_ sample: OpaquePointer!) -> UnsafePointer<UInt8>! {
    SecureSampleHandle.of(sample)?.key
}

@c @implementation
public func latchkey_secure_sample_get_iv(_ sample: OpaquePointer!) -> UnsafePointer<UInt8>! {
    guard let handle = SecureSampleHandle.of(sample), handle.key != nil else { return nil }
    return UnsafePointer(handle.vector)
}

@c @implementation
public func latchkey_secure_sample_get_subsample_count(_ sample: OpaquePointer!) -> Int {
    guard let handle = SecureSampleHandle.of(sample), handle.key != nil else { return 0 }
    return handle.plan?.subsamples.count ?? 0
}

@c @implementation
public func latchkey_secure_sample_get_subsample(
    _ sample: OpaquePointer!, _ index: Int, _ clear: UnsafeMutablePointer<UInt32>!,
    _ protected: UnsafeMutablePointer<UInt32>!
) -> CInt {
    clear?.pointee = 0
    protected?.pointee = 0
    guard let handle = SecureSampleHandle.of(sample), handle.key != nil, let subsamples = handle.plan?.subsamples,
        subsamples.indices.contains(index)
    else { return 0 }
    clear?.pointee = subsamples[index].clear
    protected?.pointee = subsamples[index].protected
    return 1
}

@c @implementation
public func latchkey_secure_sample_get_data(
    _ sample: OpaquePointer!, _ size: UnsafeMutablePointer<Int>!
) -> UnsafePointer<UInt8>! {
    let source = SecureSampleHandle.of(sample)?.source
    size?.pointee = source?.count ?? 0
    return source?.baseAddress?.assumingMemoryBound(to: UInt8.self)
}

@c @implementation
public func latchkey_secure_sample_get_memory(_ sample: OpaquePointer!) -> UnsafeMutablePointer<GstMemory>! {
    SecureSampleHandle.of(sample)?.destination
}

@c @implementation
public func latchkey_secure_sample_set_error(_ sample: OpaquePointer!, _ message: UnsafePointer<CChar>!) {
    SecureSampleHandle.of(sample)?.error = message.map { String(cString: $0) }
}
