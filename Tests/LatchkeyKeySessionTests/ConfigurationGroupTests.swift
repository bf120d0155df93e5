// SPDX-License-Identifier: MPL-2.0

import Foundation
import LatchkeyKeySession
import LatchkeyProtection
import Testing

@Suite("Configuration groups", .timeLimit(.minutes(8)))
struct ConfigurationGroupTests {
    private static let known = [
        ConfigurationGroup("one", keys: ["a", "b"]), ConfigurationGroup("free", keys: nil),
    ]

    @Test func whatIsKnownPasses() throws {
        try ConfigurationGroup.check(
            [("one", ["b", "a", "a"]), ("free", ["X-Any"]), ("one", [])], against: Self.known)
        try ConfigurationGroup.check([], against: Self.known)
    }

    @Test(arguments: [
        ([("two", [String]())], "there is the unknown group “two”; known are [one], [free]"),
        ([("one", ["a", "c"])], "[one] has the unknown key “c”; known are a, b"),
        (
            [("free", ["c"]), ("one", ["A"])],
            "[one] has an unknown key, which is not shown because it may be a secret; known are a, b"
        ),
        (
            [("one", ["00112233445566778899aabbccddeeff"])],
            "[one] has an unknown key, which is not shown because it may be a secret; known are a, b"
        ),
    ]) func whatIsNotKnownIsNamed(groups: [(String, [String])], says: String) {
        let error = #expect(throws: KeyError.self) {
            try ConfigurationGroup.check(groups.map { (name: $0.0, keys: $0.1) }, against: Self.known)
        }
        #expect(error == .invalidConfiguration(says))
    }

    /// Two parts that add the same group, or a group that has a key twice, would be a mistake of this project.
    @Test func everyGroupAndKeyIsThereOnce() {
        let groups = ControlSettings.groups
        #expect(Set(groups.map(\.name)).count == groups.count)
        for group in groups { #expect(Set(group.keys ?? []).count == group.keys?.count ?? 0, "[\(group.name)]") }
        #expect(groups.contains(ControlSettings.group) && groups.contains(FairPlaySettings.group))
    }

    /// docs/latchkey.conf.example shows every key, commented out, and no other.
    @Test func theExampleHasEveryKey() throws {
        let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let example = try String(
            contentsOf: root.appendingPathComponent("gst-plugin/docs/latchkey.conf.example"), encoding: .utf8)
        var groups: [(name: String, keys: [String])] = []
        for line in example.split(separator: "\n") {
            if line.hasPrefix("["), let end = line.firstIndex(of: "]") {
                groups.append((String(line[line.index(after: line.startIndex)..<end]), []))
            } else if let name = line.prefixMatch(of: /#?([A-Za-z-]+)=/)?.1, !groups.isEmpty {
                groups[groups.count - 1].keys.append(String(name))
            }
        }
        try ConfigurationGroup.check(groups, against: ControlSettings.groups)
        for group in ControlSettings.groups {
            let shown = groups.first { $0.name == group.name }?.keys
            #expect(shown != nil, "[\(group.name)]")
            for key in group.keys ?? [] { #expect(shown?.contains(key) == true, "\(key) of [\(group.name)]") }
        }
    }
}
