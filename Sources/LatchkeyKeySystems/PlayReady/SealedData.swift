// SPDX-License-Identifier: MPL-2.0

import LatchkeyManifests
import LatchkeyProtection

/// EncryptedData of a message: a random point for the receiver's key, whose x coordinate is IV and key of AES-128-CBC.
package enum SealedData {
    /// The EncryptedData element.
    package static func seal(
        _ clear: [UInt8], for receiver: [UInt8], keyName: String, random: RandomSource
    ) throws(CryptoError) -> String {
        let point = try P256.Point.base(times: .random(random))
        let wrapped = try P256.encrypt(point, for: receiver, random: random)
        var secret = try point.bytes()
        defer { wipe(&secret) }
        var key = Array(secret[16..<32])
        defer { wipe(&key) }
        guard let key = ContentKey(key) else { throw CryptoError(reason: 0) }
        let iv = Array(secret[..<16])
        let sealed = iv + (try AES.cbcSeal(key: key, iv: iv, clear))
        let method = "EncryptionMethod"
        return "<EncryptedData xmlns=\"\(SOAP.xmlEncryption)\" Type=\"\(SOAP.xmlEncryption)Element\">"
            + "<\(method) Algorithm=\"\(SOAP.xmlEncryption)aes128-cbc\"></\(method)>"
            + "<KeyInfo xmlns=\"\(SOAP.xmlSignature)\"><EncryptedKey xmlns=\"\(SOAP.xmlEncryption)\">"
            + "<\(method) Algorithm=\"\(SOAP.protocols)#ecc256\"></\(method)>"
            + "<KeyInfo xmlns=\"\(SOAP.xmlSignature)\">\(SOAP.element("KeyName", keyName))</KeyInfo>"
            + "<CipherData>\(SOAP.element("CipherValue", SOAP.base64(wrapped)))</CipherData></EncryptedKey></KeyInfo>"
            + "<CipherData>\(SOAP.element("CipherValue", SOAP.base64(sealed)))</CipherData></EncryptedData>"
    }

    /// What an EncryptedData element holds. Throws where it is laid out otherwise or was made for another key.
    package static func open(_ element: XMLElement, with key: P256PrivateKey) throws(CryptoError) -> [UInt8] {
        guard let wrapped = element.descendant("KeyInfo", "EncryptedKey", "CipherData"),
            let sealed = element.child("CipherData"), let wrapped = SOAP.bytes("CipherValue", in: wrapped),
            let sealed = SOAP.bytes("CipherValue", in: sealed), sealed.count >= 32
        else { throw CryptoError(reason: 0) }
        let isInToken = key.tokenURI != nil
        return try key.decrypt(wrapped) { secret throws(CryptoError) in
            // The first half is the IV, which tells the right message from the other one of a token.
            guard !isInToken || secret.prefix(16).elementsEqual(sealed[..<16]) else { return nil }
            var bytes = Array(secret[16...])
            defer { wipe(&bytes) }
            guard let key = ContentKey(bytes) else { throw CryptoError(reason: 0) }
            return try AES.cbcOpen(key: key, iv: Array(sealed[..<16]), Array(sealed[16...]))
        }
    }
}
