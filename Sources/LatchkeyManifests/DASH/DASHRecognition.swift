// SPDX-License-Identifier: MPL-2.0

extension DASHManifest {
    /// How many bytes `isManifest(start:)` wants to see.
    public static let recognitionSize = 4096

    /// Whether the first bytes of a file are those of a manifest: its first element is an MPD of the namespace of DASH.
    /// Comments, the declaration and a document type in front of it are stepped over. The bytes may end anywhere behind
    /// the tag's name.
    public static func isManifest(start: [UInt8]) -> Bool {
        var rest = start.prefix(recognitionSize)
        if rest.starts(with: [0xEF, 0xBB, 0xBF]) { rest = rest.dropFirst(3) }
        while true {
            rest = rest.drop { $0 == 0x20 || 0x09...0x0D ~= $0 }
            guard rest.popFirst() == UInt8(ascii: "<"), let first = rest.first else { return false }
            switch first {
            case UInt8(ascii: "?"):
                rest = rest.drop { $0 != UInt8(ascii: ">") }.dropFirst()
            case UInt8(ascii: "!"):
                let isComment = rest.starts(with: "!--".utf8)
                guard isComment || rest.starts(with: "!DOCTYPE".utf8),
                    let end = isComment ? end(ofComment: rest.dropFirst(3)) : end(ofDocumentType: rest)
                else { return false }
                rest = rest[end...]
            default:
                let tag = rest.prefix { $0 != UInt8(ascii: ">") }
                let name = tag.prefix { $0 > 0x20 && $0 != UInt8(ascii: "/") }
                let local = name.split(separator: UInt8(ascii: ":")).last ?? []
                return local.elementsEqual("MPD".utf8)
                    && String(decoding: tag, as: UTF8.self).contains("urn:mpeg:dash:")
            }
        }
    }

    /// Behind the end of the comment.
    private static func end(ofComment bytes: ArraySlice<UInt8>) -> Int? {
        var dashes = 0
        for index in bytes.indices {
            if dashes >= 2, bytes[index] == UInt8(ascii: ">") { return index + 1 }
            dashes = bytes[index] == UInt8(ascii: "-") ? dashes + 1 : 0
        }
        return nil
    }

    /// Behind the end of the document type. Such a manifest is refused, but by whoever reads manifests.
    private static func end(ofDocumentType bytes: ArraySlice<UInt8>) -> Int? {
        var (depth, quote) = (0, UInt8(0))
        for index in bytes.indices {
            switch bytes[index] {
            case quote where quote != 0: quote = 0
            case _ where quote != 0: break
            case UInt8(ascii: "\""), UInt8(ascii: "'"): quote = bytes[index]
            case UInt8(ascii: "["): depth += 1
            case UInt8(ascii: "]"): depth -= 1
            case UInt8(ascii: ">") where depth <= 0: return index + 1
            default: break
            }
        }
        return nil
    }
}
