// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection
import Testing

/// RFC 3986, 6.2.2 and 6.2.3.
struct URINormalizationTests {
    @Test(arguments: [
        // Case.
        ("HTTP://Example.COM/Path?Query", "http://example.com/Path?Query"),
        ("https://user:Word@Example.com/", "https://user:Word@example.com/"),
        ("http://h/%c3%a9%2f", "http://h/%C3%A9%2F"),
        ("http://%4C%c3%a9/", "http://l%c3%a9/"),
        // Escapes that none needs, and those that something else would be without.
        ("http://h/%41%7e%2D%2e%5f%39", "http://h/A~-._9"),
        ("http://h/a%2Fb%3Fc%23d%25e", "http://h/a%2Fb%3Fc%23d%25e"),
        ("http://h/?%61=%26&b=+%2b", "http://h/?a=%26&b=+%2B"),
        // What has to have one.
        ("http://h/a b\"<>^`{|}\\", "http://h/a%20b%22%3C%3E%5E%60%7B%7C%7D%5C"),
        ("http://h/é?ü", "http://h/%C3%A9?%C3%BC"),
        // What is none.
        ("http://h/100%", "http://h/100%25"),
        ("http://h/%zz%1", "http://h/%25zz%251"),
        ("http://h/%%341", "http://h/%2541"),
        // Dot segments, escaped ones too.
        ("http://h/a/b/../c/./d", "http://h/a/c/d"),
        ("http://h/../a/%2E%2e/b/.", "http://h/b/"),
        ("http://h/a//b", "http://h/a//b"),
        // Ports.
        ("http://h:80/", "http://h/"),
        ("https://h:443/", "https://h/"),
        ("http://h:/", "http://h/"),
        ("http://h:443/", "http://h:443/"),
        ("https://h::443/", "https://h/"),
        ("https://h:443:80:/", "https://h:443:80/"),
        ("http://h:0080/", "http://h/"),
        ("http://[::1]:80/", "http://[::1]/"),
        ("http://[FE80::1]/", "http://[fe80::1]/"),
        ("http://[::80]/", "http://[::80]/"),
        // Paths, queries and fragments.
        ("http://h", "http://h/"),
        ("http://h?q", "http://h/?q"),
        ("http://h/#part", "http://h/"),
        ("http://h/?", "http://h/?"),
        // What is no http or https URL stays as it is.
        ("skd://Key%7e", "skd://Key%7e"),
        ("data:,%41", "data:,%41"),
        ("a/../b", "a/../b"),
        ("http:///path", "http:///path"),
        ("", ""),
    ])
    func oneSpellingForAll(_ text: String, _ expected: String) {
        #expect(URIReference.normalized(text) == expected)
        #expect(URIReference.normalized(expected) == expected)
    }

    /// A playlist may have lines of this size.
    @Test func whatIsHugeTakesNoLongerThanItIsLong() {
        let colons = String(repeating: ":", count: 4095)
        #expect(URIReference.normalized("http://h\(colons)/%41") == "http://h/A")
        for unit in [":", ":80", "@", "a:0", "%3a", "/..", "/./", "?%41"] {
            let text = "http://h" + String(repeating: unit, count: (unit == ":" ? 1 << 20 : 1 << 16) / unit.utf8.count)
            let normalized = URIReference.normalized(text)
            #expect(URIReference.normalized(normalized) == normalized)
            // Too long for the name of a server.
            if !unit.contains("/"), !unit.contains("?") { #expect(normalized == text) }
        }
    }
}
