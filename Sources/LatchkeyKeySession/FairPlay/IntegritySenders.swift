// SPDX-License-Identifier: MPL-2.0

import LatchkeyHTTP
import LatchkeyKeySystems
import LatchkeyProtection
import Synchronization

/// The key servers that have sent this project's code over a whole CKC, each for one certificate. From then on a CKC of
/// theirs without the code counts as changed on its way (`IntegrityRule`).
///
/// The process remembers them, and a store does so for the processes that come later. If the application asks the key server
/// itself, its origin is not known, and the certificate decides. Thread-safe.
struct IntegritySenders: Sendable {
    /// What a process remembers.
    final class Memory: Sendable {
        static let process = Memory()
        private let names = Mutex<Set<String>>([])

        func contains(_ name: String) -> Bool { names.withLock { $0.contains(name) } }
        /// Returns whether it is new.
        func insert(_ name: String) -> Bool { names.withLock { $0.insert(name).inserted } }
    }

    /// The most that a store keeps. Only a server that has the private key of a certificate gets in.
    static let limit = 256
    private static let prefix = "sender-"

    let memory: Memory
    let store: (any PersistableKeyStore)?

    /// The key server of `exchange` has sent the code. `complain` hears why that cannot be stored, once.
    func add(_ exchange: FairPlayExchange, complain: (String) -> Void) {
        let names = Set([exchange.keyServer, nil]).compactMap { Self.name(exchange, $0) }
        for name in names {
            let isNew = memory.insert(name)
            do throws(KeyError) {
                try keep(name, of: names)
            } catch {
                if isNew {
                    complain(
                        "warning: that a key server protects its answers is forgotten at the end of this process: "
                            + "\(error.reason); make the folder one that can be written")
                }
            }
        }
    }

    /// Whether the key server of `exchange` has sent the code before.
    func contains(_ exchange: FairPlayExchange) -> Bool {
        // Without a name there is no way to tell.
        guard let name = Self.name(exchange, exchange.keyServer) else { return true }
        return memory.contains(name) || isKept(name)
    }

    /// An entry that cannot be read is one.
    private func isKept(_ name: String) -> Bool {
        guard let store else { return false }
        do throws(KeyError) {
            return try store.data(named: name) != nil
        } catch {
            return true
        }
    }

    /// What is removed for it is none of `names`.
    private func keep(_ name: String, of names: [String]) throws(KeyError) {
        guard let store, !isKept(name) else { return }
        let others = try store.names().filter { $0.hasPrefix(Self.prefix) && !names.contains($0) }
        for other in others.dropFirst(Self.limit - names.count) { try store.remove(named: other) }
        try store.store([], named: name)
    }

    /// Nil if OpenSSL refuses. The name does not tell which service is used.
    private static func name(_ exchange: FairPlayExchange, _ origin: String?) -> String? {
        let text = exchange.certificateDigest + Array((origin ?? "").utf8)
        let digest = try? ExitGate.pass { () throws(CryptoError) in try Digest.sha256(text) }
        return digest.map { prefix + Hex.encode($0) }
    }
}

/// Whether a CKC may come without this project's code over the whole message. Without the code, a change on the way that
/// removes a block, such as an output rule, cannot be seen.
///
/// Without a rule, the code is required if the certificate is one of this project's test authority, or if the key server has
/// sent the code for this certificate before, to this process or an earlier one.
public enum IntegrityRule: String, CaseIterable, Hashable, Sendable {
    /// It is refused.
    case required
    /// The code is checked if it is there.
    case ifOffered = "if-offered"
}
