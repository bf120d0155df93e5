// SPDX-License-Identifier: MPL-2.0

/// What stands behind an opaque pointer of the C interface; the pointer's references are Swift's.
protocol OpaqueReference: AnyObject {}

extension OpaqueReference {
    /// For C, without a reference of its own.
    var pointer: OpaquePointer { OpaquePointer(Unmanaged.passUnretained(self).toOpaque()) }

    /// For C, with a reference that `release` gives back.
    func retained() -> OpaquePointer { OpaquePointer(Unmanaged.passRetained(self).toOpaque()) }

    /// The object behind a pointer that `pointer` or `retained` made.
    static func of(_ pointer: OpaquePointer?) -> Self? {
        // SAFETY: the C interface hands out no other pointers of this type, and the caller has a reference.
        pointer.map { Unmanaged<Self>.fromOpaque(UnsafeRawPointer($0)).takeUnretainedValue() }
    }

    static func release(_ pointer: OpaquePointer?) {
        // SAFETY: as for `of`.
        if let pointer { Unmanaged<Self>.fromOpaque(UnsafeRawPointer(pointer)).release() }
    }
}

extension KeyRequestHandle: OpaqueReference {}
extension SessionHandle: OpaqueReference {}
