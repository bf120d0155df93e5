// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// What `tenc` or a `seig` entry says of samples.
struct IsoEncryption {
    var isProtected = true
    var vectorSize = 0
    var constantVector: InitializationVector?
    var pattern = BlockPattern.none
    var kid: KeyID

    /// `tenc` behind its version and flags and `seig` entries are made alike, but for the pattern's place in version 0.
    init(_ reader: inout IsoReader, hasPattern: Bool) throws {
        try reader.skip(1)
        let blocks = UInt8(try reader.int(1))
        if hasPattern { pattern = BlockPattern(crypt: blocks >> 4, skip: blocks & 15) }
        isProtected = try reader.int(1) != 0
        vectorSize = try reader.int(1)
        guard let kid = KeyID(try reader.bytes(16)) else { throw IsoFile.Unreadable(description: "KID") }
        self.kid = kid
        if isProtected, vectorSize == 0 {
            constantVector = InitializationVector(try reader.bytes(try reader.int(1)))
        }
    }

    /// PIFF's form, which also stands for the scheme: algorithm 1 is AES-CTR, 2 is AES-CBC.
    init(piff reader: inout IsoReader) throws {
        isProtected = try reader.int(3) != 0
        vectorSize = try reader.int(1)
        guard let kid = KeyID(try reader.bytes(16)) else { throw IsoFile.Unreadable(description: "KID") }
        self.kid = kid
    }
}

/// Sample entry and defaults of a track.
struct IsoTrack {
    struct Entry {
        var scheme: ProtectionScheme?
        var encryption: IsoEncryption?
    }

    static let piffTrackEncryption = "8974dbce7be74c5184f97148f9882554"

    var id = 0
    var handler = ""
    var entries: [Entry] = []
    var groups: [IsoEncryption] = []
    var table: Range<Int>
    var whole: Range<Int>
    var defaultEntry = 1
    var defaultSize = 0

    init(_ range: Range<Int>, in file: IsoFile) throws {
        whole = range
        guard let header = try file.box(["tkhd"], in: range),
            let handlerBox = try file.box(["mdia", "hdlr"], in: range),
            let table = try file.box(["mdia", "minf", "stbl"], in: range)
        else { throw IsoFile.Unreadable(description: "track without tkhd, hdlr or stbl") }
        self.table = table.body
        var reader = IsoReader(file.bytes, header.body)
        try reader.skip(try reader.versionAndFlags().version == 1 ? 16 : 8)
        id = try reader.int(4)
        reader = IsoReader(file.bytes, handlerBox.body)
        try reader.skip(8)
        handler = try reader.text(4)
        guard let descriptions = try file.box(["stsd"], in: table.body) else {
            throw IsoFile.Unreadable(description: "no stsd")
        }
        for box in try file.boxes(in: descriptions.body.dropFirst(8)) {
            entries.append(try Self.entry(box, isVideo: handler == "vide", in: file))
        }
        groups = try Self.groups(in: table.body, file)
    }

    private static func entry(_ box: IsoFile.Box, isVideo: Bool, in file: IsoFile) throws -> Entry {
        let inner = box.body.dropFirst(isVideo ? 78 : 28)
        guard let protection = try file.box(["sinf"], in: inner) else { return Entry() }
        guard let scheme = try file.box(["schm"], in: protection.body),
            let information = try file.box(["schi"], in: protection.body)
        else { throw IsoFile.Unreadable(description: "sinf without schm or schi") }
        var reader = IsoReader(file.bytes, scheme.body)
        try reader.skip(4)
        let type = try reader.text(4)
        if let box = try file.box(["tenc"], in: information.body) {
            reader = IsoReader(file.bytes, box.body)
            let version = try reader.versionAndFlags().version
            let encryption = try IsoEncryption(&reader, hasPattern: version > 0)
            return Entry(scheme: ProtectionScheme(rawValue: type), encryption: encryption)
        }
        guard type == "piff", let range = try file.box(uuid: piffTrackEncryption, in: information.body) else {
            throw IsoFile.Unreadable(description: "scheme \(type) without tenc")
        }
        reader = IsoReader(file.bytes, range)
        try reader.skip(4)
        var peek = reader
        let algorithm = try peek.int(3)
        return Entry(scheme: algorithm == 2 ? .cbc1 : .cenc, encryption: try IsoEncryption(piff: &reader))
    }

    mutating func readExtends(_ movie: Range<Int>, in file: IsoFile) throws {
        guard let extends = try file.box(["mvex"], in: movie) else { return }
        for box in try file.boxes(in: extends.body) where box.type == "trex" {
            var reader = IsoReader(file.bytes, box.body)
            try reader.skip(4)
            guard try reader.int(4) == id else { continue }
            defaultEntry = try reader.int(4)
            try reader.skip(4)
            defaultSize = try reader.int(4)
        }
    }

    /// The `seig` entries of the `sgpd` boxes in a container.
    static func groups(in range: Range<Int>, _ file: IsoFile) throws -> [IsoEncryption] {
        var groups: [IsoEncryption] = []
        for box in try file.boxes(in: range) where box.type == "sgpd" {
            var reader = IsoReader(file.bytes, box.body)
            let version = try reader.versionAndFlags().version
            guard try reader.text(4) == "seig" else { continue }
            let size = version >= 1 ? try reader.int(4) : 0
            if version >= 2 { try reader.skip(4) }
            for _ in 0..<(try reader.int(4)) {
                let length = size == 0 && version >= 1 ? try reader.int(4) : size
                let start = reader.position
                groups.append(try IsoEncryption(&reader, hasPattern: true))
                if length > 0 { try reader.skip(length - (reader.position - start)) }
            }
        }
        return groups
    }

    /// For each sample the index of its `seig` group, 0 for none.
    static func groupIndices(in range: Range<Int>, count: Int, _ file: IsoFile) throws -> [Int] {
        var indices: [Int] = []
        for box in try file.boxes(in: range) where box.type == "sbgp" {
            var reader = IsoReader(file.bytes, box.body)
            let version = try reader.versionAndFlags().version
            guard try reader.text(4) == "seig" else { continue }
            if version == 1 { try reader.skip(4) }
            for _ in 0..<(try reader.int(4)) {
                let run = try reader.int(4)
                let index = try reader.int(4)
                guard indices.count + run <= count else { throw IsoFile.Unreadable(description: "sbgp") }
                indices += Array(repeating: index, count: run)
            }
        }
        return indices + Array(repeating: 0, count: count - indices.count)
    }
}

extension Range<Int> {
    func dropFirst(_ count: Int) -> Range<Int> { Swift.min(lowerBound + count, upperBound)..<upperBound }
}
