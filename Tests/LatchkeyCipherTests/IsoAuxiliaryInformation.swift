// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// The IVs and subsample maps of a run of samples, from `saiz` and `saio`, else from `senc` or PIFF's box.
struct IsoAuxiliaryInformation {
    private static let piffSampleEncryption = "a2394f525a9b4f14a2446c427c648df4"

    private enum Source {
        case none
        /// The size of each sample's information, and where it stands.
        case sized([Int], IsoReader)
        case box(IsoReader, hasSubsamples: Bool, count: Int)
    }

    private var source = Source.none

    init(_ containers: [Range<Int>], base: Int, count: Int, in file: IsoFile) throws {
        if let sizes = try Self.sizes(containers[0], in: file), sizes.contains(where: { $0 > 0 }),
            let offset = try Self.offset(containers[0], in: file)
        {
            guard sizes.count == count else {
                throw IsoFile.Unreadable(description: "saiz for \(sizes.count) of \(count)")
            }
            source = .sized(sizes, IsoReader(file.bytes, base + offset..<file.bytes.count))
            return
        }
        for container in containers {
            var range = try file.box(uuid: Self.piffSampleEncryption, in: container)
            if let box = try file.box(["senc"], in: container) { range = box.body }
            guard let range else { continue }
            var reader = IsoReader(file.bytes, range)
            let flags = try reader.versionAndFlags().flags
            if flags & 1 != 0 { try reader.skip(20) }
            let count = try reader.int(4)
            source = .box(reader, hasSubsamples: flags & 2 != 0, count: count)
            return
        }
    }

    private static func sizes(_ range: Range<Int>, in file: IsoFile) throws -> [Int]? {
        guard let box = try file.box(["saiz"], in: range) else { return nil }
        var reader = IsoReader(file.bytes, box.body)
        if try reader.versionAndFlags().flags & 1 != 0 { try reader.skip(8) }
        let size = try reader.int(1)
        return try (0..<(try reader.int(4))).map { _ in size > 0 ? size : try reader.int(1) }
    }

    /// The one offset that the files of the corpus have.
    private static func offset(_ range: Range<Int>, in file: IsoFile) throws -> Int? {
        guard let box = try file.box(["saio"], in: range) else { return nil }
        var reader = IsoReader(file.bytes, box.body)
        let (version, flags) = try reader.versionAndFlags()
        if flags & 1 != 0 { try reader.skip(8) }
        let count = try reader.int(4)
        guard count == 1 else { throw IsoFile.Unreadable(description: "saio with \(count) offsets") }
        return try reader.int(version == 0 ? 4 : 8)
    }

    mutating func skip(_ index: Int) throws {
        // A sample that is not protected has no information in saiz terms; in senc terms it has an empty entry.
        guard case .sized(let sizes, var reader) = source else { return }
        try reader.skip(sizes[index])
        source = .sized(sizes, reader)
    }

    mutating func read(
        _ index: Int, _ encryption: IsoEncryption
    ) throws -> (vector: InitializationVector?, subsamples: [Subsample]) {
        switch source {
        case .none:
            return (nil, [])
        case .sized(let sizes, var reader):
            let end = reader.position + sizes[index]
            let vector = try Self.vector(&reader, encryption.vectorSize)
            let subsamples = reader.position < end ? try Self.subsamples(&reader) : []
            guard reader.position == end else { throw IsoFile.Unreadable(description: "saiz of sample \(index)") }
            source = .sized(sizes, reader)
            return (vector, subsamples)
        case .box(var reader, let hasSubsamples, let count):
            guard index < count else { throw IsoFile.Unreadable(description: "senc ends before sample \(index)") }
            let vector = try Self.vector(&reader, encryption.vectorSize)
            let subsamples = hasSubsamples ? try Self.subsamples(&reader) : []
            source = .box(reader, hasSubsamples: hasSubsamples, count: count)
            return (vector, subsamples)
        }
    }

    private static func vector(_ reader: inout IsoReader, _ size: Int) throws -> InitializationVector? {
        size == 0 ? nil : InitializationVector(try reader.bytes(size))
    }

    private static func subsamples(_ reader: inout IsoReader) throws -> [Subsample] {
        try (0..<(try reader.int(2))).map { _ in
            Subsample(clear: UInt32(try reader.int(2)), protected: UInt32(try reader.int(4)))
        }
    }
}
