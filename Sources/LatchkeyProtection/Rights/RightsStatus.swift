// SPDX-License-Identifier: MPL-2.0

/// Whether the rights for some content may be used now, and the dates that decide it.
public struct RightsStatus: Hashable, Sendable {
    /// How rights stand; what can be done about it stands with each.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// They may be used.
        case valid
        /// There are none; acquire a licence.
        case none
        /// They cannot be used yet.
        case future
        /// They cannot be used any more; acquire a licence.
        case expired
        /// They depend on dates, and the clock cannot be trusted; correct the clock.
        case untrustedTime
    }

    /// Says whether samples may be decrypted: only `valid` lets them.
    public var kind: Kind
    /// When they begin; nil for no limit.
    public var begins: UnixTime?
    /// When they end, as far as it is known: the earliest of all limits; nil for no limit.
    public var ends: UnixTime?
    /// When playing that is under way has to stop; nil for never. Later than `ends` where the time after the first play
    /// only limits new starts.
    public var stops: UnixTime?
    /// Whether they will end some time after they are first used for playing. False once they were: then `ends` says
    /// when.
    public var rightsExpireAfterFirstUse: Bool
    /// Why it is so, in words for people; holds no secret.
    public var reason: String

    /// `reason` is for people and holds no secret; nothing is checked.
    public init(
        kind: Kind, begins: UnixTime? = nil, ends: UnixTime? = nil, stops: UnixTime? = nil,
        rightsExpireAfterFirstUse: Bool = false, reason: String
    ) {
        self.kind = kind
        self.begins = begins
        self.ends = ends
        self.stops = stops
        self.rightsExpireAfterFirstUse = rightsExpireAfterFirstUse
        self.reason = reason
    }

    /// There is no licence.
    public static let noLicense = RightsStatus(kind: .none, reason: "no licence is installed for this content")
}

extension RightsStatus: CustomStringConvertible {
    /// Kind and reason, without the dates.
    public var description: String { "\(kind.rawValue): \(reason)" }
}

extension RightsStatus.Kind: Comparable {
    /// The greater one is the more useful: of several licences for the same content the greatest stands for all.
    public static func < (left: Self, right: Self) -> Bool { left.rank < right.rank }

    private var rank: Int {
        switch self {
        case .none: 0
        case .expired: 1
        case .future: 2
        case .untrustedTime: 3
        case .valid: 4
        }
    }
}
