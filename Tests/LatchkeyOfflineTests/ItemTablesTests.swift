// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyOffline

struct ItemTablesTests {
    private let urls = (0..<3).map { "https://media.example/\($0).m4s" }

    /// One piece for each resource, none of which the index knows.
    private var unknown: ItemTables {
        var tables = ItemTables(blockSize: 1024)
        var pieces: [CachedPiece] = []
        for (number, url) in urls.enumerated() {
            pieces.append(
                CachedPiece(
                    track: 0, resource: tables.resource(url).number, offset: 0, length: nil, begin: .seconds(number),
                    duration: .seconds(1)))
        }
        tables.pieces = pieces
        return tables
    }

    @Test func piecesFollowTheNumbersOfTheirResources() {
        var tables = unknown
        #expect(tables.pieces.allSatisfy { $0.resource < 0 })
        let added = tables.number(urls + urls)
        #expect(added.map(\.url) == urls && added.map(\.number) == [1, 2, 3])
        #expect(tables.pieces.map(\.resource) == [1, 2, 3])
        #expect(tables.pieces.map { tables.url(of: $0) } == urls)
        let none = tables.number(urls)
        #expect(none.isEmpty)
        let other = tables.number(["https://media.example/3.m4s"])
        #expect(other.map(\.number) == [4] && tables.pieces.map(\.resource) == [1, 2, 3])
    }

    /// Another process has stored some of them meanwhile.
    @Test func piecesFollowTheNumbersThatTheIndexHas() {
        var tables = unknown
        let last = tables.pieces[2].resource
        let contents = IndexContents(
            record: nil, resources: [CachedResource(number: 7, url: urls[1]), CachedResource(number: 9, url: urls[0])],
            pieces: [], blocks: [:], keys: [:], refusals: [:])
        tables.take(contents, keepingPlan: true)
        #expect(tables.pieces.map(\.resource) == [9, 7, last])
        #expect(tables.pieces.map { tables.url(of: $0) } == urls)
    }
}
