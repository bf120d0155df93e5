// SPDX-License-Identifier: MPL-2.0

/// Why bytes from outside cannot be read.
///
/// `description` says where: the structure and the offset. It never quotes the bytes, because they may hold a key.
public struct FormatError: Error, Hashable, Sendable {
    private enum Code: String {
        case truncated
        case malformed
        case tooLarge = "too large"
        case unsupported
        case duplicate
        case otherFormat = "another format"
    }

    private let code: Code
    private let detail: String

    private init(_ code: Code, _ detail: String) {
        self.code = code
        self.detail = detail
    }

    /// The bytes end before the structure does.
    public static func truncated(_ detail: String) -> FormatError { FormatError(.truncated, detail) }
    /// The bytes break a rule of the format.
    public static func malformed(_ detail: String) -> FormatError { FormatError(.malformed, detail) }
    /// The bytes ask for more than this reader is willing to take.
    public static func tooLarge(_ detail: String) -> FormatError { FormatError(.tooLarge, detail) }
    /// A version or a variant that this reader does not know.
    public static func unsupported(_ detail: String) -> FormatError { FormatError(.unsupported, detail) }

    /// Something that may stand there once stands there twice.
    public static func duplicate(_ detail: String) -> FormatError { FormatError(.duplicate, detail) }

    /// The bytes are of another format altogether.
    public static func otherFormat(_ detail: String) -> FormatError { FormatError(.otherFormat, detail) }

    /// The kind of failure alone.
    public var shortDescription: String { code.rawValue }

    /// What is wrong and where, without the kind.
    public var reason: String { detail }

    /// The same failure, with a place in front of the text.
    public func within(_ place: String) -> FormatError { FormatError(code, "\(place): \(detail)") }

    /// Whether `other` is of the same kind, whatever the details.
    public func isSameKind(as other: FormatError) -> Bool { code == other.code }
}

extension FormatError: CustomStringConvertible {
    /// The kind and the reason.
    public var description: String { detail.isEmpty ? code.rawValue : "\(code.rawValue): \(detail)" }
}
