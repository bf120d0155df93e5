// SPDX-License-Identifier: MPL-2.0

/// What a unit of `SampleAESStream` may hold.
public struct UnitContents: OptionSet, Sendable, Hashable {
    /// One bit a medium.
    public let rawValue: UInt8

    /// Any bits; those that have no name count as nothing.
    public init(rawValue: UInt8) { self.rawValue = rawValue }

    /// What may be a picture.
    public static let pictures = UnitContents(rawValue: 1)
    /// What may be sound.
    public static let sound = UnitContents(rawValue: 2)
}
