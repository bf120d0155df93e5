// SPDX-License-Identifier: MPL-2.0

/// A file of fragments of one second each, of a track of video.
enum TestFile {
    static func box(_ type: String, _ body: [UInt8]) -> [UInt8] { number(body.count + 8) + Array(type.utf8) + body }
    static func number(_ value: Int) -> [UInt8] { (0..<4).map { UInt8(truncatingIfNeeded: value >> (24 - 8 * $0)) } }

    /// A `moov` of one track; with `isFragmented`, the samples are elsewhere.
    static func movie(seconds: Int, isFragmented: Bool = true) -> [UInt8] {
        let times = number(0) + number(0) + number(0)
        let tkhd = box("tkhd", times + number(1) + [UInt8](repeating: 0, count: 68))
        let mdhd = box("mdhd", times + number(1000) + number(0) + number(0))
        let hdlr = box("hdlr", number(0) + number(0) + Array("vide".utf8) + [UInt8](repeating: 0, count: 13))
        let trak = box("trak", tkhd + box("mdia", mdhd + hdlr))
        let length = number(seconds * 1000)
        let mvex = box(
            "mvex",
            box("mehd", number(0) + length)
                + box("trex", number(0) + number(1) + number(1) + number(100) + number(0) + number(0)))
        let mvhd = box(
            "mvhd", times + number(1000) + (isFragmented ? number(0) : length) + [UInt8](repeating: 0, count: 80))
        return box("moov", mvhd + trak + (isFragmented ? mvex : []))
    }

    /// Ten samples of 100 ms.
    static func fragment(_ index: Int, size: Int) -> [UInt8] {
        let tfhd = box("tfhd", number(0x020000) + number(1))
        let tfdt = box("tfdt", number(0) + number(index * 1000))
        let trun = box("trun", number(0) + number(10))
        let media = (0..<size).map { UInt8(truncatingIfNeeded: $0 &* 31 &+ index &* 7 &+ $0 >> 8) }
        return box("moof", box("mfhd", number(0) + number(index + 1)) + box("traf", tfhd + tfdt + trun))
            + box("mdat", media)
    }

    /// Begins as a segment does; `byte` fills the rest.
    static func segment(_ byte: Int, size: Int = 3000) -> [UInt8] {
        let start = box("styp", Array("msdh".utf8) + number(0))
        return start + [UInt8](repeating: UInt8(byte), count: size - start.count)
    }

    static func file(seconds: Int, size: Int = 4000) -> [UInt8] {
        box("ftyp", Array("piff".utf8) + number(0)) + movie(seconds: seconds)
            + (0..<seconds).flatMap { fragment($0, size: size) }
    }
}
