// SPDX-License-Identifier: MPL-2.0

import LatchkeyKeySession
import LatchkeyContainers
import LatchkeyProtection
import LatchkeyTestSupport
import Testing

@Suite("License answers")
struct LicenseResponseTests {
    /// Ends in a byte that is white space in a text.
    private static let ckc: [UInt8] = [0, 0, 0, 1, 0xFB, 0xFF, 0x0A]
    private static let text = Base64.encode(ckc)

    private func read(_ text: String, _ form: LicenseServicePreset.Response = .raw) throws -> [UInt8] {
        try LicenseResponse.ckc(in: Array(text.utf8), form: form)
    }

    @Test func theBytesThemselvesStayWhole() throws {
        #expect(try LicenseResponse.ckc(in: Self.ckc) == Self.ckc)
        #expect(try LicenseResponse.ckc(in: [0, 0, 0, 2, 9]) == [0, 0, 0, 2, 9])
    }

    @Test(arguments: [
        text, " \r\n\(text)\n", "\u{FEFF}\(text)", "<ckc>\(text)</ckc>", "\n<ckc>\n\(text)\r\n</ckc>\n",
        "<?xml version=\"1.0\"?><r><CKC>\(text)</CKC></r>", "\"\(text)\"", #"{"ckc":"\#(text)"}"#,
        #"{"status":1,"CkcMessage":"\#(text)"}"#, #"{"License":"\#(text)"}"#, #"{"license":"\#(text)"}"#,
        #"{"ckc":null,"ckcResponse":"\#(text)"}"#, #"[{"ckc":"\#(text)"}]"#,
        #"{"fairplay-streaming-response":{"streaming-keys":[{"ckc":"\#(text)"}]}}"#,
        #"{"getFairplayLicenseResponse":{"ckcResponse":"\#(text)"}}"#,
    ]) func everyFormIsUnderstood(answer: String) throws {
        #expect(try read(answer) == Self.ckc)
    }

    @Test func lineBreaksAndTheOtherAlphabetAreRead() throws {
        let long = [0, 0, 0, 1] + [UInt8](repeating: 0xFB, count: 200)
        let text = Base64.encode(long)
        let broken = stride(from: 0, to: text.count, by: 76).map { start in
            String(text.dropFirst(start).prefix(76))
        }.joined(separator: "\r\n")
        #expect(try read(broken) == long)
        #expect(try read("<ckc>\(Base64.encodeURLSafe(long))</ckc>") == long)
    }

    @Test func theFormsMemberComesBeforeTheKnownOnes() throws {
        let answer = #"{"ckc":"AAAAAQ==","own":{"key":"\#(Self.text)"}}"#
        #expect(try read(answer, .json(["own", "key"])) == Self.ckc)
        #expect(try read(answer) == [0, 0, 0, 1])
    }

    @Test(arguments: [
        ("", "empty"), ("  \n", "empty"), ("<html>Forbidden</html>", "HTML"), ("<ckc>", "HTML"),
        ("<ckc></ckc>", "Base64"),
        ("<ckc>secret!</ckc>", "Base64"), ("{", "JSON"), ("{}", "no CKC"), (#"{"error":"secret"}"#, "no CKC"),
        (#"{"ckc":"secret!"}"#, "Base64"), (#"{"ckc":5}"#, "no CKC"), ("Unauthorized", "no CKC in Base64"),
        ("secret, forbidden", "no Base64"), ("\u{0}\u{0}\u{0}\u{3}", "no Base64"), ("[]", "no CKC"), ("\"", "JSON"),
    ]) func whatIsNoCKCIsDescribedAndNotQuoted(answer: String, says: String) {
        let error = #expect(throws: KeyError.self) { try read(answer) }
        #expect(error?.isSameKind(as: .malformedResponse("")) == true)
        #expect(error?.description.contains(says) == true, "\(error?.description ?? "")")
        #expect(error?.description.contains("secret") == false)
    }

    @Test func sizesAreBounded() {
        let large = [UInt8](repeating: 0x41, count: LicenseResponse.maximumSize + 1)
        #expect(throws: KeyError.self) { try LicenseResponse.ckc(in: large) }
        let nested = [UInt8](repeating: UInt8(ascii: "["), count: LicenseResponse.maximumSize)
        #expect(throws: KeyError.self) { try LicenseResponse.ckc(in: nested) }
        let tags = Array(String(repeating: "<ckc", count: LicenseResponse.maximumSize / 4).utf8)
        #expect(throws: KeyError.self) { try LicenseResponse.ckc(in: tags) }
    }

    @Test(arguments: 1...20) func anyBytesEndInAnAnswerOrAnError(seed: Int) {
        var random = SeededGenerator(seed: UInt64(seed))
        let sources = [
            Self.ckc, Array(Self.text.utf8), Array("<ckc>\(Self.text)</ckc>".utf8),
            Array(#"{"fairplay-streaming-response":{"streaming-keys":[{"ckc":"\#(Self.text)"}]}}"#.utf8),
        ]
        for _ in 0..<500 {
            guard let source = sources.randomElement(using: &random) else { return }
            do throws(KeyError) {
                let found = try LicenseResponse.ckc(in: random.mutate(source))
                #expect(!found.isEmpty)
            } catch {
                #expect(error.isSameKind(as: .malformedResponse("")))
            }
        }
    }
}
