// SPDX-License-Identifier: MPL-2.0

import FoundationEssentials
import LatchkeyContainers
public import LatchkeyProtection

/// Finds the content key context (CKC) in a license service's answer, whatever form it has.
///
/// In this order: white space around it goes; `<ckc>` with Base64 inside; a JSON text with Base64 in one of the members
/// that services use; Base64; the bytes themselves. A CKC starts with its version: three zero bytes, then 1 or 2. No
/// text starts so, and the bytes themselves are handed on untouched. Pure; any thread.
public enum LicenseResponse {
    /// The most bytes of an answer that are read.
    public static let maximumSize = 256 * 1024

    /// The members that are looked for, beside the ones that the preset names.
    private static let knownPaths: [[String]] = [
        ["ckc"], ["CkcMessage"], ["ckcResponse"], ["License"], ["license"],
        ["fairplay-streaming-response", "streaming-keys", "ckc"], ["getFairplayLicenseResponse", "ckcResponse"],
    ]

    /// The CKC. Throws `malformedResponse`, which says what the answer looks like and never quotes it.
    public static func ckc(
        in body: [UInt8], form: LicenseServicePreset.Response = .raw, keyURI: String? = nil
    ) throws(KeyError) -> [UInt8] {
        guard body.count <= maximumSize else {
            throw .malformedResponse("\(body.count) bytes are too many for a CKC; \(maximumSize) are read")
        }
        let text = trimmed(body[...])
        guard let first = text.first else { throw .malformedResponse("the answer is empty") }
        switch first {
        case UInt8(ascii: "<"):
            guard let inner = element(in: text) else {
                throw .malformedResponse("the answer is HTML or XML and has no <ckc> in it")
            }
            return try decode(inner, "the <ckc> of the answer")
        case UInt8(ascii: "{"), UInt8(ascii: "["), UInt8(ascii: "\""):
            return try decode(try member(in: text, form, keyURI)[...], "the member of the JSON answer")
        default: break
        }
        if looksLikeCKC(body[...]) { return body }
        if let bytes = base64(text) {
            guard looksLikeCKC(bytes[...]) else {
                throw .malformedResponse("the answer is text of \(text.count) characters and no CKC in Base64")
            }
            return bytes
        }
        throw .malformedResponse(
            "the answer of \(body.count) bytes is no CKC, no Base64, no JSON and has no <ckc>")
    }

    /// The number of a failure, where the body is a JSON object with one in the usual place. For error texts.
    static func errorCode(in body: [UInt8]) -> Int? {
        guard body.count <= maximumSize, trimmed(body[...]).first == UInt8(ascii: "{"),
            JSONNesting.isBounded(body),
            case .object(let members)? = try? JSONDecoder().decode(LicenseJSON.self, from: Data(body))
        else { return nil }
        for name in ["code", "errorCode", "error_code", "ErrorCode", "error"] {
            if case .number(let code)? = members[name] { return code }
        }
        return nil
    }

    private static func looksLikeCKC(_ bytes: ArraySlice<UInt8>) -> Bool {
        bytes.starts(with: [0, 0, 0, 1]) || bytes.starts(with: [0, 0, 0, 2])
    }

    /// Where the form says that it is a CKC, its version is left to those who open it.
    private static func decode(_ text: ArraySlice<UInt8>, _ place: String) throws(KeyError) -> [UInt8] {
        guard let bytes = base64(text), !bytes.isEmpty else { throw .malformedResponse("\(place) is no Base64") }
        return bytes
    }

    /// Without the line breaks that some encoders make.
    private static func base64(_ text: ArraySlice<UInt8>) -> [UInt8]? {
        let characters = text.filter { !isSpace($0) }
        return String(validating: characters, as: UTF8.self).flatMap { Base64.decode($0) }
    }

    private static func element(in text: ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        guard let start = position(of: "<ckc>", in: text),
            let end = position(of: "</ckc>", in: text[start.upperBound...])
        else { return nil }
        return text[start.upperBound..<end.lowerBound]
    }

    /// ASCII letters match in either case.
    private static func position(of tag: String, in text: ArraySlice<UInt8>) -> Range<Int>? {
        let tag = Array(tag.utf8)
        guard text.count >= tag.count else { return nil }
        for start in text.startIndex...(text.endIndex - tag.count) where text[start] == tag[0] {
            if zip(text[start...], tag).allSatisfy({ $0 == $1 || (0x41...0x5A ~= $0 && $0 | 0x20 == $1) }) {
                return start..<(start + tag.count)
            }
        }
        return nil
    }

    private static func member(
        in text: ArraySlice<UInt8>, _ form: LicenseServicePreset.Response, _ keyURI: String?
    ) throws(KeyError) -> [UInt8] {
        guard JSONNesting.isBounded(text), let root = try? JSONDecoder().decode(LicenseJSON.self, from: Data(text))
        else {
            throw .malformedResponse("the answer starts like JSON and cannot be read as such")
        }
        if case .string(let text) = root { return Array(text.utf8) }
        var paths = knownPaths
        if case .json(let path) = form { paths.insert(path, at: 0) }
        for path in paths {
            if let text = root.text(at: path[...], keyURI: keyURI) { return Array(text.utf8) }
        }
        throw .malformedResponse(
            "the JSON answer has no CKC; looked for \(paths.map { $0.joined(separator: ".") }.joined(separator: ", "))")
    }

    private static func isSpace(_ byte: UInt8) -> Bool { byte == 0x20 || 0x09...0x0D ~= byte }

    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let mark: [UInt8] = [0xEF, 0xBB, 0xBF]
        var text = (bytes.starts(with: mark) ? bytes.dropFirst(3) : bytes).drop(while: isSpace)
        while let last = text.last, isSpace(last) { text.removeLast() }
        return text
    }
}

/// A JSON text of which only objects, lists and texts count.
indirect enum LicenseJSON: Decodable {
    case object([String: LicenseJSON])
    case array([LicenseJSON])
    case string(String)
    case number(Int)
    case other

    init(from decoder: any Decoder) throws {
        if let text = try? decoder.singleValueContainer().decode(String.self) {
            self = .string(text)
        } else if let number = try? decoder.singleValueContainer().decode(Int.self) {
            self = .number(number)
        } else if var list = try? decoder.unkeyedContainer() {
            var items: [LicenseJSON] = []
            while !list.isAtEnd { items.append(try list.decode(LicenseJSON.self)) }
            self = .array(items)
        } else if let object = try? decoder.container(keyedBy: Name.self) {
            var members: [String: LicenseJSON] = [:]
            for name in object.allKeys { members[name.stringValue] = try object.decode(LicenseJSON.self, forKey: name) }
            self = .object(members)
        } else {
            self = .other
        }
    }

    /// The text that the members lead to. Of a list, the item whose `uri` is `keyURI`, else the first.
    func text(at path: ArraySlice<String>, keyURI: String?) -> String? {
        switch self {
        case .string(let text): return path.isEmpty ? text : nil
        case .object(let members):
            guard let name = path.first else { return nil }
            return members[name]?.text(at: path.dropFirst(), keyURI: keyURI)
        case .array(let items):
            let named = items.first { item in
                guard let keyURI, case .object(let members) = item, case .string(keyURI) = members["uri"] else {
                    return false
                }
                return true
            }
            return (named ?? items.first)?.text(at: path, keyURI: keyURI)
        case .number, .other: return nil
        }
    }

    private struct Name: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }
}
