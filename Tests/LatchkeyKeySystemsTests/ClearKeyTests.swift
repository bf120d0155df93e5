// SPDX-License-Identifier: MPL-2.0

import LatchkeyTestAuthorities
import Foundation
import LatchkeyKeySystems
import LatchkeyProtection
import Testing

@Suite struct ClearKeyTests {
    // The examples of the specification: "License Request Format" and "License Format".
    private let specificationRequest = #"{"kids":["LwVHf8JLtPrv2GUXFW2v_A"],"type":"temporary"}"#
    private let specificationLicense = """
        {"keys":[{"kty":"oct","k":"tQ0bJVWb6b0KPL6KtZIy_A","kid":"LwVHf8JLtPrv2GUXFW2v_A"}],"type":"temporary"}
        """
    private let keyID = KeyID(hex: "2f05477fc24bb4faefd86517156daffc")
    private let key = ContentKey(hex: "b50d1b25559be9bd0a3cbe8ab59232fc")

    @Test func theRequestIsTheSpecificationsText() throws {
        let keyID = try #require(keyID)
        #expect(String(decoding: ClearKey.licenseRequest(for: [keyID]), as: UTF8.self) == specificationRequest)
        #expect(try ClearKey.keyIDs(inLicenseRequest: Array(specificationRequest.utf8)) == [keyID])
        let stored = ClearKey.licenseRequest(for: [keyID], type: .persistentLicense)
        #expect(String(decoding: stored, as: UTF8.self).hasSuffix(#""type":"persistent-license"}"#))
    }

    @Test func readsTheSpecificationsLicense() throws {
        let keys = try ClearKey.keys(inLicense: Array(specificationLicense.utf8))
        let (keyID, key) = (try #require(keyID), try #require(key))
        #expect(keys.count == 1)
        #expect(try #require(keys[keyID]) == key)
    }

    @Test func theLicenseIsJSONThatAnotherReaderAgreesWith() throws {
        struct License: Decodable {
            struct Key: Decodable { var kty, kid, k: String }
            var keys: [Key]
            var type: String
        }
        let (keyID, key) = (try #require(keyID), try #require(key))
        let body = ClearKey.license(for: [keyID: key], type: .persistentLicense)
        let license = try JSONDecoder().decode(License.self, from: Data(body))
        #expect(license.type == "persistent-license")
        #expect(license.keys.map(\.kty) == ["oct"])
        #expect(license.keys.map(\.kid) == ["LwVHf8JLtPrv2GUXFW2v_A"])
        #expect(license.keys.map(\.k) == ["tQ0bJVWb6b0KPL6KtZIy_A"])
    }

    @Test(arguments: [
        // padding, the other alphabet, spaces
        #" { "keys" : [ {"kid":"LwVHf8JLtPrv2GUXFW2v/A==","k":"tQ0bJVWb6b0KPL6KtZIy/A==","kty":"oct"} ] } "#,
        // escapes, as some encoders have them
        #"{"keys":[{"\u006bid":"LwVHf8JLtPrv2GUXFW2v\/A==","k":"tQ0bJVWb6b0KPL6KtZIy\u002fA\u003D=","kty":"oct"}]}"#,
        // a mark of the byte order
        "\u{FEFF}" + #"{"keys":[{"kid":"LwVHf8JLtPrv2GUXFW2v_A","k":"tQ0bJVWb6b0KPL6KtZIy_A"}]}"#,
        // values of all kinds
        #"{"a":{"é\\":[-1.5e+3,true,false,null,"\"}\u00e9\n",[[]],{}]},"keys":[{"kid":"LwVHf8JLtPrv2GUXFW2v_A","k":"tQ0bJVWb6b0KPL6KtZIy_A"}]}"#,
        // no kty
        #"{"keys":[{"kid":"LwVHf8JLtPrv2GUXFW2v_A","k":"tQ0bJVWb6b0KPL6KtZIy_A"}]}"#,
        // extra members, at both levels
        #"{"keys":[{"kty":"oct","alg":"A128KW","kid":"LwVHf8JLtPrv2GUXFW2v_A","k":"tQ0bJVWb6b0KPL6KtZIy_A"}],"x":[1]}"#,
        // keys of other kinds, which are left out
        """
        {"keys":[{"kty":"RSA","n":"x","kid":7},{"kty":"oct","kid":"LwVHf8JLtPrv2GUXFW2v_A",
        "k":"tQ0bJVWb6b0KPL6KtZIy_A"}],"type":7}
        """,
        // the same key twice
        """
        {"keys":[{"kid":"LwVHf8JLtPrv2GUXFW2v_A","k":"tQ0bJVWb6b0KPL6KtZIy_A"},
        {"kid":"LwVHf8JLtPrv2GUXFW2v_A","k":"tQ0bJVWb6b0KPL6KtZIy_A"}]}
        """,
    ])
    func tolerates(license: String) throws {
        let keys = try ClearKey.keys(inLicense: Array(license.utf8))
        let (keyID, key) = (try #require(keyID), try #require(key))
        #expect(keys.count == 1)
        #expect(try #require(keys[keyID]) == key)
    }

    @Test func aLicenseMayHaveNoKeys() throws {
        #expect(try ClearKey.keys(inLicense: Array(#"{"keys":[]}"#.utf8)).isEmpty)
    }

    @Test(arguments: [
        "", "{", "null", "[]", "{}", "<html>502</html>", #"{"keys":{}}"#, #"{"keys":[1]}"#, #"{"keys":[[]]}"#,
        #"{"keys":[{}]}"#, #"{"keys":[]"#, #"{"keys":[]}]"#, #"{"keys":[],}"#, #"{"keys":[] "a":1}"#,
        #"{"keys":[],"a":yes}"#,
        #"{"keys":[{"kid":"\x"}]}"#, #"{"keys":[{"kid":"\u00"}]}"#, #"{"keys":[{"kid":"\"}]}"#,
        #"{"keys":[{"kty":"oct","kid":"LwVHf8JLtPrv2GUXFW2v_A"}]}"#,
        #"{"keys":[{"kty":"oct","k":"tQ0bJVWb6b0KPL6KtZIy_A"}]}"#,
        #"{"keys":[{"kty":"oct","kid":"LwVHf8JLtPrv2GUXFW2v","k":"tQ0bJVWb6b0KPL6KtZIy_A"}]}"#,
        #"{"keys":[{"kty":"oct","kid":"LwVHf8JLtPrv2GUXFW2v_A","k":"tQ0bJVWb6b0KPL6KtZIy"}]}"#,
        #"{"keys":[{"kty":"oct","kid":"LwVHf8JLtPrv2GUXFW2v_A","k":"tQ0bJVWb6b0KPL6KtZIy!!"}]}"#,
        """
        {"keys":[{"kid":"LwVHf8JLtPrv2GUXFW2v_A","k":"tQ0bJVWb6b0KPL6KtZIy_A"},
        {"kid":"LwVHf8JLtPrv2GUXFW2v_A","k":"AAAAAAAAAAAAAAAAAAAAAA"}]}
        """,
    ])
    func refusesWhatIsNoLicense(body: String) throws {
        let error = #expect(throws: KeyError.self) { try ClearKey.keys(inLicense: Array(body.utf8)) }
        #expect(error?.shortDescription == "malformed response")
        #expect(error?.description.contains("tQ0bJVWb6b0KPL6K") == false)
    }

    @Test(arguments: [
        "", "{", "null", "[]", "{}", #"{"kids":{}}"#, #"{"kids":[]}"#, #"{"kids":[1]}"#, #"{"kids":[""]}"#,
        #"{"kids":["LwVHf8JLtPrv2GUXFW2v"]}"#, #"{"kids":["LwVHf8JLtPrv2GUXFW2v_A",null]}"#,
    ])
    func refusesWhatIsNoRequest(body: String) throws {
        let error = #expect(throws: KeyError.self) { try ClearKey.keyIDs(inLicenseRequest: Array(body.utf8)) }
        #expect(error?.shortDescription == "malformed request")
    }

    @Test func limitsTheSizeTheCountAndTheDepth() throws {
        let spaces = [UInt8](repeating: 0x20, count: ClearKey.maximumSize)
        #expect(throws: KeyError.self) { try ClearKey.keys(inLicense: Array(specificationLicense.utf8) + spaces) }
        #expect(throws: KeyError.self) {
            try ClearKey.keyIDs(inLicenseRequest: Array(specificationRequest.utf8) + spaces)
        }
        let deep = Array((#"{"keys":"# + String(repeating: "[", count: 100_000)).utf8)
        #expect(throws: KeyError.self) { try ClearKey.keys(inLicense: deep) }

        let keyIDs = (0...ClearKey.maximumCount).compactMap { number in
            KeyID([UInt8](repeating: 0, count: 14) + [UInt8(number >> 8), UInt8(number & 255)])
        }
        let most = Array(keyIDs.dropLast())
        #expect(try ClearKey.keyIDs(inLicenseRequest: ClearKey.licenseRequest(for: most)) == most)
        let error = #expect(throws: KeyError.self) {
            try ClearKey.keyIDs(inLicenseRequest: ClearKey.licenseRequest(for: keyIDs))
        }
        #expect(error?.description.contains("1024") == true)

        let key = try #require(key)
        let keys = Dictionary(uniqueKeysWithValues: keyIDs.map { ($0, key) })
        #expect(throws: KeyError.self) { try ClearKey.keys(inLicense: ClearKey.license(for: keys)) }
    }
}
