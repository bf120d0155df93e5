// SPDX-License-Identifier: MPL-2.0

public import LatchkeyContainers
public import LatchkeyManifests

extension PlayReadyExchange {
    /// What a service answered.
    public struct Answer: Sendable {
        /// In the order of the answer. None where the header did not ask for one.
        public var licenses: [PlayReadyLicense] = []
        /// The service's word for the application.
        public var customData: String?
        /// Where it is there, the service wants to hear that the licences have been stored: `PlayReadyAcknowledgement`.
        public var transactionID: [UInt8]?
        /// Revocation lists as they came, by the id that the answer says, whether they can be used or not.
        public var revocationListData: [GUID: [UInt8]] = [:]
        /// Those that are newer than the client's, and were checked. They count for this answer already.
        public var revocationLists: [LatchkeyKeySystems.RevocationList] = []
        /// Whether any licence may be stored.
        public var isPersistent: Bool { licenses.contains { !$0.terms.cannotPersist } }
    }

    /// The most licences of an answer that are read.
    public static let maximumLicenseCount = 64

    /// Checks an answer and opens its licences. `now` is the trusted time, where there is one.
    ///
    /// Checked are the signature of the answer, the certificates of the signer up to the provisioned root, the nonce (in
    /// the answer where a licence may be stored, and in each licence that may not), and the signature of each licence.
    ///
    /// A newer revocation list that comes with the answer counts already, also against the signer of the answer.
    ///
    /// Throws `fault` for the service's own faults, `malformedResponse`, `signatureMissing`, `invalidSignature`,
    /// `untrustedCertificate`, `certificateRevoked`, `wrongNonce`, and the errors of `PlayReadyLicense`.
    public func open(response bytes: [UInt8], now: UInt32? = nil) throws(PlayReadyError) -> Answer {
        var (answer, trust) = (Answer(), trust)
        let (revocations, newer) = revocations(after: bytes)
        answer.revocationLists = revocations.lists.filter { newer.contains($0.id) }
        trust.revoked = revocations.keyDigests
        let message = try ServiceMessage.open(
            response: bytes, .acquireLicense, trust: trust, kind: .licenseSigner,
            requiresSignature: options.requiresSignature, now: now)
        let encoded = message.child("Licenses")?.children.filter { $0.localName == "License" } ?? []
        guard encoded.count <= Self.maximumLicenseCount else {
            throw .malformedResponse("\(encoded.count) licences; \(Self.maximumLicenseCount) are read")
        }
        for element in encoded {
            guard let bytes = SOAP.bytes("License", in: element) else {
                throw .malformedResponse("a licence not in Base64")
            }
            answer.licenses.append(try PlayReadyLicense(reading: bytes, keyring: keyring))
        }
        if options.requiresNonce { try checkNonce(of: message, answer) }
        answer.customData = message.child("CustomData")?.text
        if let acknowledgement = message.child("Acknowledgement") {
            answer.transactionID = SOAP.bytes("TransactionID", in: acknowledgement)
        }
        for list in message.child("RevInfo")?.children ?? [] where list.localName == "Revocation" {
            guard let id = SOAP.bytes("ListID", in: list).flatMap({ GUID(guidOrder: $0) }),
                let data = SOAP.bytes("ListData", in: list)
            else { throw .malformedResponse("a revocation list that cannot be read") }
            answer.revocationListData[id] = data
        }
        return answer
    }

    private func checkNonce(of message: XMLElement, _ answer: Answer) throws(PlayReadyError) {
        for license in answer.licenses where license.terms.cannotPersist {
            guard license.xmr.rightsID.uuidOrderBytes == nonce else {
                throw .wrongNonce("the licence for KID \(license.keyID) was made for another request")
            }
        }
        let answered = message.child("LicenseNonce").flatMap { SOAP.bytes("LicenseNonce", in: $0) }
        // Where nothing may be stored, the licences carry the nonce, and the answer need not.
        guard answered == nonce || answered == nil && !answer.licenses.isEmpty && !answer.isPersistent else {
            throw .wrongNonce("ask again")
        }
    }
}

extension PlayReadyExchange.Answer: CustomStringConvertible, CustomReflectable {
    /// How many licences there are, never keys or custom data.
    public var description: String { "\(licenses.count) licences" }
    /// The licences, which hide their keys themselves.
    public var customMirror: Mirror { Mirror(self, children: ["licenses": licenses]) }
}
