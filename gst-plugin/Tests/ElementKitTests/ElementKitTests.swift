// SPDX-License-Identifier: MPL-2.0

import CLatchkeyGStreamer
import LatchkeyElementKit
import LatchkeyElementTestSupport
import Foundation
import Testing

@Suite struct ElementKitTests {
    init() {
        TestProcess.prepare
        #expect(ElementType.register(Inverter.factory))
    }

    @Test func theElementOfTheReadmeIsTheOneThatIsBuilt() throws {
        let here = URL(fileURLWithPath: #filePath).deletingLastPathComponent()
        let readme = try String(
            contentsOf: here.appendingPathComponent("../../ElementKit/README.md"), encoding: .utf8)
        let code = try String(contentsOf: here.appendingPathComponent("Inverter.swift"), encoding: .utf8)
        let page = try #require(readme.components(separatedBy: "```swift\n").dropFirst().first)
        let shown = try #require(page.components(separatedBy: "```").first)
        #expect(code == "// SPDX-License-Identifier: MPL-2.0\n\n" + shown)
    }

    @Test func theElementOfTheReadmeInvertsBytes() throws {
        let harness = try Harness("ekinverter")
        harness.start(caps: "application/octet-stream")
        #expect(harness.push([0x00, 0x0f, 0xff]) == .ok)
        #expect(harness.pull() == [0xff, 0xf0, 0x00])
        harness.set("mask", .uint(0x01))
        #expect(harness.push([0x10]) == .ok)
        #expect(harness.pull() == [0x11])
    }

    @Test func registeringAgainIsHarmless() {
        #expect(ElementType.register(Inverter.factory))
        #expect(ElementType.register(Inverter.factory))
    }

    @Test func elementsGoWithTheirSwiftObject() throws {
        weak var element: Element?
        do {
            let harness = try Harness("ekinverter")
            element = Inverter.implementation(of: harness.element)
            #expect(element != nil)
        }
        #expect(element == nil)
    }

    @Test func aSharedBufferIsNotChanged() throws {
        let buffer = try makeBuffer([1, 2, 3])
        let other = buffer.share()
        let isWritable = buffer.isWritable
        #expect(!isWritable)
        let changed: Void? = buffer.withMutableBytes { $0[0] = 9 }
        #expect(changed == nil)
        let bytes = other.copyBytes()
        #expect(bytes == [1, 2, 3])
    }

    @Test func theQueueKeepsOrderAndCounts() throws {
        var queue = StreamItemQueue()
        for size in 1...600 {
            queue.append(try makeBuffer([UInt8](repeating: 0, count: size)))
            if size.isMultiple(of: 3) { queue.append(Event.endOfStream()) }
        }
        #expect(queue.count == 800)
        #expect(queue.byteCount == 600 * 601 / 2)
        var sizes: [Int] = []
        var events = 0
        while let item = queue.popFirst() {
            switch item {
            case .buffer(let buffer): sizes.append(buffer.size)
            case .event: events += 1
            }
        }
        #expect(sizes == Array(1...600))
        #expect(events == 200)
        #expect(queue.byteCount == 0)
    }

    @Test func outputMemoryIsUsedAgain() throws {
        let memory = OutputMemory()
        func address() throws -> UInt {
            let buffer = try memory.makeBuffer(size: 5000)
            let size = buffer.size
            #expect(size == 5000)
            return try #require(buffer.withBytes { UInt(bitPattern: $0.baseAddress) })
        }
        let first = try address()
        let second = try address()
        #expect(first == second)
        #expect(try memory.makeBuffer(size: 0).size == 0)
        #expect(try memory.makeBuffer(size: 5 << 20).size == 5 << 20)
    }

    @Test func protectionFieldsAreReadWithTheirTypes() throws {
        let buffer = try makeBuffer([0])
        #expect(buffer.withProtectionInfo { _ in true } == nil)
        buffer.addProtectionInfo(
            [("encrypted", .boolean(true)), ("iv_size", .uint(8))],
            buffers: [("iv", [1, 2, 3, 4, 5, 6, 7, 8]), ("kid", (0..<20).map { UInt8($0) })])
        let read = buffer.withProtectionInfo { info in
            (
                info.boolean(.init("encrypted")), info.uint(.init("iv_size")), info.uint(.init("encrypted")),
                info.shortBytes(.init("iv")), info.shortBytes(.init("kid")), info.shortBytes(.init("none"))?.count
            )
        }
        let (encrypted, size, wrongType, vector, keyID, none) = try #require(read)
        #expect(encrypted == true)
        #expect(size == 8)
        #expect(wrongType == nil)
        #expect(vector?.count == 8)
        #expect(vector?.high == 0x0102_0304_0506_0708)
        #expect(vector?.low == 0)
        #expect(keyID?.count == 20)
        #expect(none == nil)
        buffer.removeProtectionInfo()
        #expect(buffer.withProtectionInfo { _ in true } == nil)
    }
}

/// `#require` takes no values that cannot be copied.
private func makeBuffer(_ bytes: [UInt8]) throws -> Buffer {
    guard let buffer = Buffer(copying: bytes) else { throw TestFailure("no memory") }
    return buffer
}
