// SPDX-License-Identifier: MPL-2.0

import Testing

@testable import LatchkeyHTTP

struct ContentRangeTests {
    @Test(
        arguments: [
            ("bytes 0-99/1000", 0, 99, 1000), ("bytes 5-5/6", 5, 5, 6), ("bytes 9-20/*", 9, 20, nil),
            ("bytes 9-/*", 9, nil, nil), ("bytes 9", 9, nil, nil), ("bytes */5000", nil, nil, 5000),
            ("bytes 0-140737488355326/*", 0, 140_737_488_355_326, nil),
            // What cannot be read is not told.
            ("bytes 0-x/1000", 0, nil, 1000), ("bytes 0-9/-1", 0, 9, nil),
            ("bytes 0-9/18446744073709551616", 0, 9, nil),
        ] as [(String, Int?, Int?, Int?)])
    func isRead(_ field: String, _ first: Int?, _ last: Int?, _ size: Int?) throws {
        let range = try #require(ContentRange(field))
        #expect(range.first == first && range.last == last && range.size == size)
    }

    @Test(arguments: [
        "", "bytes", "bytes ", "bytes -1-4/5", "bytes +1-4/5", "bytes  1-4/5", "bytes x", "items 0-9/10", "bytes=0-9",
        "bytes 10-5/100", "bytes 0-99/99", "bytes 100-/100", "bytes 140737488355328-/*", "bytes ٠-٩/١٠",
        "bytes\u{301} 0-9/10",
        "bytes 9223372036854775808-9223372036854775809/*",
    ])
    func isRefused(_ field: String) { #expect(ContentRange(field) == nil) }

    @Test(
        arguments: [
            (200, "70", "bytes 0-9/80", 70), (206, "10", "bytes 0-9/80", 80), (416, "0", "bytes */80", 80),
            (200, "-1", "", nil), (200, "+7", "", nil), (200, "7 ", "", nil), (206, "10", "bytes 0-9/*", nil),
        ] as [(Int, String, String, Int?)])
    func theSizeOfTheResourceIsThatOfTheStatus(_ status: Int, _ length: String, _ range: String, _ size: Int?) {
        let headers = [
            HTTPHeader(name: "Content-Length", value: length), HTTPHeader(name: "Content-Range", value: range),
        ]
        #expect(HTTPResponse(status: status, headers: headers, url: "").resourceSize == size)
    }
}
