// SPDX-License-Identifier: MPL-2.0

import LatchkeyProtection

/// Who may have which key, as an entitlement server knows it: tokens that were handed out, and the device of each user.
/// A value: the time and the tokens' names come from outside.
struct EntitlementBook {
    /// How long a token can be redeemed.
    static let lifetime = Duration.seconds(300)
    /// Tokens that are remembered. Above this, the oldest are forgotten.
    static let limit = 10_000

    enum Refusal: Error, Equatable {
        /// Nobody handed it out, it was redeemed before, or its time is over.
        case unknownToken
        /// It is for other content.
        case otherContent
        /// It is bound to another device.
        case otherDevice
        /// It is to be bound to the user's device, and the user has played on none yet.
        case noDevice
    }

    struct Token: Equatable {
        let contentIdentifier: [UInt8]
        let user: String
        /// The only device that may redeem it; nil: any, and it becomes the user's where there is none yet.
        let device: [UInt8]?
        let end: Duration
    }

    private var tokens: [String: Token] = [:]
    private var order: [String] = []
    private var devices: [String: [UInt8]] = [:]

    /// Hands out a token. With `enforcesDevice` it is bound to the device that the user played on first.
    mutating func issue(
        _ name: String, for contentIdentifier: [UInt8], to user: String, enforcesDevice: Bool, now: Duration
    ) throws(Refusal) {
        if enforcesDevice, devices[user] == nil { throw .noDevice }
        if order.count >= Self.limit {
            for old in order.prefix(Self.limit / 2) { tokens[old] = nil }
            order.removeFirst(Self.limit / 2)
        }
        tokens[name] = Token(
            contentIdentifier: contentIdentifier, user: user, device: enforcesDevice ? devices[user] : nil,
            end: now + Self.lifetime)
        order.append(name)
    }

    /// Takes a token in, and notes the device of a user who had none. A token that is refused stays good.
    mutating func redeem(
        _ name: String, device: [UInt8], now: Duration, isContent: ([UInt8]) -> Bool
    ) throws(Refusal) -> Token {
        guard let token = tokens[name], now < token.end else { throw .unknownToken }
        guard isContent(token.contentIdentifier) else { throw .otherContent }
        if let bound = token.device, bound != device { throw .otherDevice }
        tokens[name] = nil
        if devices[token.user] == nil, devices.count < Self.limit { devices[token.user] = device }
        return token
    }
}
