// SPDX-License-Identifier: MPL-2.0

public import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization

/// The certificates that an integrator provisions the process with, once at the start, before the first use.
///
/// What configuration files name comes before it. Thread-safe; prints without keys.
public enum PlayReadyModel {
    /// The kinds of model certificates that integrators have.
    public enum CertificateType: String, Sendable, CaseIterable {
        /// A `BCertChain` whose leaf may issue devices.
        case playReady = "PlayReady"
        /// Latchkey has no exchange of this kind: an import throws.
        case windowsMedia = "Windows Media DRM"
    }

    private struct State {
        var certificate: [UInt8]?
        var privateKey: ContentBytes?
        var rootKey: [UInt8]?
        var serverKey: [UInt8]?
        var timeKey: [UInt8]?
        var revocationLists: [[UInt8]] = []
        var isUsed = false
    }

    private static let state = Mutex(State())

    /// A text that wipes itself.
    private final class ContentBytes: Sendable {
        private let bytes: Mutex<[UInt8]>
        init(_ bytes: [UInt8]) { self.bytes = Mutex(bytes) }
        deinit { bytes.withLock { wipe(&$0) } }
        func withBytes<Value: Sendable>(_ body: (inout [UInt8]) -> Value) -> Value { bytes.withLock { body(&$0) } }
    }

    /// Takes the model's certificate chain, as the authority wrote it.
    ///
    /// Throws `provisioning` where it cannot be read, was imported before, or the model is in use already.
    public static func importModelCertificate(
        _ certificate: [UInt8], for type: CertificateType = .playReady
    ) throws(PlayReadyError) {
        try check(type)
        try PlayReadyProvisioning.checkModelCertificate(certificate)
        try change { state in
            guard state.certificate == nil else { return "the model certificate was imported before" }
            state.certificate = certificate
            return nil
        }
    }

    /// Takes the model's private key: PEM, without a pass phrase. The caller's copy is the caller's to wipe. Throws
    /// `provisioning` for another kind, for no P-256 key, for a second import and once the model is in use.
    public static func importModelPrivateKey(
        _ privateKey: [UInt8], for type: CertificateType = .playReady
    ) throws(PlayReadyError) {
        try check(type)
        try PlayReadyProvisioning.checkPrivateKey(pem: privateKey)
        try change { state in
            guard state.privateKey == nil else { return "the model's private key was imported before" }
            state.privateKey = ContentBytes(privateKey)
            return nil
        }
    }

    /// Takes the public keys that are trusted: the root's, and the one that challenges are encrypted for. Each is a
    /// point of P-256, x and y, 64 bytes. Throws `provisioning` for anything else, for a second import and once the
    /// model is in use.
    public static func importTrust(rootKey: [UInt8], serverKey: [UInt8]) throws(PlayReadyError) {
        try PlayReadyProvisioning.checkPublicKeys(root: rootKey, server: serverKey)
        try change { state in
            guard state.rootKey == nil else { return "the trusted keys were imported before" }
            (state.rootKey, state.serverKey) = (rootKey, serverKey)
            return nil
        }
    }

    /// Takes the public key that the time service's chain goes back to, where that is not the root: a point of P-256, x
    /// and y, 64 bytes. Throws `provisioning` for anything else, for a second import and once the model is in use.
    public static func importTimeKey(_ key: [UInt8]) throws(PlayReadyError) {
        try PlayReadyProvisioning.checkTimeKey(key)
        try change { state in
            guard state.timeKey == nil else { return "the time key was imported before" }
            state.timeKey = key
            return nil
        }
    }

    /// Takes a revocation list (`RevocationList`), one for each id. Newer ones that services send take its place.
    /// Throws `provisioning` where it cannot be read, and once the model is in use.
    public static func importRevocationList(_ list: [UInt8]) throws(PlayReadyError) {
        try PlayReadyProvisioning.checkRevocationList(list)
        try change { state in
            state.revocationLists.append(list)
            return nil
        }
    }

    /// Whether a model certificate was imported.
    public static var isImported: Bool { state.withLock { $0.certificate != nil } }

    /// What was imported, checked as a whole. From here on imports throw. Nil where nothing was imported.
    ///
    /// Throws `provisioning` where a part is missing or the parts do not belong together.
    public static func provisioning() throws(PlayReadyError) -> PlayReadyProvisioning? {
        let known = state.withLock { state -> State in
            if state.certificate != nil || state.privateKey != nil || state.rootKey != nil { state.isUsed = true }
            return state
        }
        guard known.isUsed else { return nil }
        guard let certificate = known.certificate, let privateKey = known.privateKey, let rootKey = known.rootKey,
            let serverKey = known.serverKey
        else { throw .provisioning("import the model certificate, its private key, and the trusted keys") }
        var pem = privateKey.withBytes { $0 }
        defer { wipe(&pem) }
        return try PlayReadyProvisioning(
            modelCertificate: certificate, modelPrivateKeyPEM: pem, rootKey: rootKey, serverKey: serverKey,
            timeKey: known.timeKey, revocationLists: known.revocationLists)
    }

    /// Forgets everything, for tests.
    package static func reset() { state.withLock { $0 = State() } }

    private static func check(_ type: CertificateType) throws(PlayReadyError) {
        guard type == .playReady else { throw .provisioning("\(type.rawValue) is not supported") }
    }

    /// `body` says why not.
    private static func change(_ body: (inout State) -> String?) throws(PlayReadyError) {
        let problem = state.withLock { state in
            state.isUsed ? "the model is in use; imports come before the first license" : body(&state)
        }
        if let problem { throw .provisioning(problem) }
    }
}
