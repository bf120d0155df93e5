// SPDX-License-Identifier: MPL-2.0

/// A value that many segments have in common, so that each of them costs a reference and not the value's size.
final class HLSShared<Value: Hashable & Sendable>: Hashable, Sendable {
    let value: Value

    init(_ value: Value) { self.value = value }

    static func == (left: HLSShared, right: HLSShared) -> Bool { left === right || left.value == right.value }

    func hash(into hasher: inout Hasher) { value.hash(into: &hasher) }
}
