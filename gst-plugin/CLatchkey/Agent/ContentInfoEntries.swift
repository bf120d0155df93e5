// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyAgent
import Latchkey
import LatchkeyProtection

// The functions of latchkey-content-info.h. The header is their documentation.

@c @implementation
public func latchkey_content_type_from_url(_ url: UnsafePointer<CChar>!) -> LatchkeyContentType {
    let type = url.flatMap { ContentType(url: String(cString: $0)) }
    return LatchkeyContentType.known.first { $0.type == type }?.code ?? LATCHKEY_CONTENT_UNKNOWN
}

@c @implementation
public func latchkey_rights_status_get_name(_ status: LatchkeyRightsStatus) -> UnsafePointer<CChar>! {
    constant(LatchkeyRightsStatus.known.first { $0.code == status }?.kind.rawValue ?? "unknown")
}

@c @implementation
public func latchkey_rights_ref(_ rights: OpaquePointer!) -> OpaquePointer! { RightsHandle.of(rights)?.retained() }

@c @implementation
public func latchkey_rights_unref(_ rights: OpaquePointer!) { RightsHandle.release(rights) }

@c @implementation
public func latchkey_rights_get_status(_ rights: OpaquePointer!) -> LatchkeyRightsStatus {
    let kind = RightsHandle.of(rights)?.rights.kind
    return LatchkeyRightsStatus.known.first { $0.kind == kind }?.code ?? LATCHKEY_RIGHTS_NONE
}

@c @implementation
public func latchkey_rights_get_reason(_ rights: OpaquePointer!) -> UnsafePointer<CChar>! {
    RightsHandle.of(rights)?.reason.text
}

/// Writes a value that may be missing. Whether it is there.
private func write<Value>(_ value: Value?, _ place: UnsafeMutablePointer<Value>?, else none: Value) -> CInt {
    place?.pointee = value ?? none
    return value == nil ? 0 : 1
}

@c @implementation
public func latchkey_rights_get_begin(_ rights: OpaquePointer!, _ seconds: UnsafeMutablePointer<Int64>!) -> CInt {
    write(RightsHandle.of(rights)?.rights.begins?.seconds, seconds, else: 0)
}

@c @implementation
public func latchkey_rights_get_end(_ rights: OpaquePointer!, _ seconds: UnsafeMutablePointer<Int64>!) -> CInt {
    write(RightsHandle.of(rights)?.rights.ends?.seconds, seconds, else: 0)
}

@c @implementation
public func latchkey_rights_expire_after_first_use(_ rights: OpaquePointer!) -> CInt {
    RightsHandle.of(rights)?.rights.rightsExpireAfterFirstUse == true ? 1 : 0
}

@c @implementation
public func latchkey_content_info_ref(_ info: OpaquePointer!) -> OpaquePointer! {
    ContentInfoHandle.of(info)?.retained()
}

@c @implementation
public func latchkey_content_info_unref(_ info: OpaquePointer!) { ContentInfoHandle.release(info) }

@c @implementation
public func latchkey_content_info_is_protected(_ info: OpaquePointer!) -> CInt {
    ContentInfoHandle.of(info)?.isProtected == true ? 1 : 0
}

@c @implementation
public func latchkey_content_info_get_rights(_ info: OpaquePointer!) -> OpaquePointer! {
    ContentInfoHandle.of(info)?.rights.pointer
}

@c @implementation
public func latchkey_content_info_get_key_id_count(_ info: OpaquePointer!) -> Int {
    ContentInfoHandle.of(info)?.keyIDs.count ?? 0
}

@c @implementation
public func latchkey_content_info_get_key_system(_ info: OpaquePointer!, _ index: Int) -> UnsafePointer<CChar>! {
    ContentInfoHandle.of(info)?.keySystems[at: index]?.text
}

@c @implementation
public func latchkey_content_info_get_key_id(_ info: OpaquePointer!, _ index: Int) -> UnsafePointer<UInt8>! {
    ContentInfoHandle.of(info)?.keyIDs[at: index]?.bytes
}

@c @implementation
public func latchkey_content_info_get_audio_track_name(_ info: OpaquePointer!, _ index: Int) -> UnsafePointer<CChar>! {
    ContentInfoHandle.of(info)?.audioTrackNames[at: index]?.text
}

@c @implementation
public func latchkey_content_info_get_license_url(_ info: OpaquePointer!, _ index: Int) -> UnsafePointer<CChar>! {
    ContentInfoHandle.of(info)?.licenseURLs[at: index]?.text
}

@c @implementation
public func latchkey_content_info_get_track(_ info: OpaquePointer!, _ index: Int) -> OpaquePointer! {
    ContentInfoHandle.of(info)?.tracks[at: index]?.pointer
}

@c @implementation
public func latchkey_content_info_get_key_need(_ info: OpaquePointer!, _ index: Int) -> OpaquePointer! {
    ContentInfoHandle.of(info)?.keyNeeds[at: index]?.pointer
}

@c @implementation
public func latchkey_track_get_kind(_ track: OpaquePointer!) -> LatchkeyTrackKind {
    switch TrackHandle.of(track)?.track.kind {
    case .video: LATCHKEY_TRACK_VIDEO
    case .audio: LATCHKEY_TRACK_AUDIO
    case .text: LATCHKEY_TRACK_TEXT
    case .other, nil: LATCHKEY_TRACK_OTHER
    }
}

@c @implementation
public func latchkey_track_get_name(_ track: OpaquePointer!) -> UnsafePointer<CChar>! {
    TrackHandle.of(track)?.name?.text
}

@c @implementation
public func latchkey_track_get_language(_ track: OpaquePointer!) -> UnsafePointer<CChar>! {
    TrackHandle.of(track)?.language?.text
}

@c @implementation
public func latchkey_track_get_codecs(_ track: OpaquePointer!) -> UnsafePointer<CChar>! {
    TrackHandle.of(track)?.codecs?.text
}

@c @implementation
public func latchkey_track_get_bit_rate(_ track: OpaquePointer!) -> UInt64 {
    TrackHandle.of(track)?.track.bitRate ?? 0
}

@c @implementation
public func latchkey_track_get_width(_ track: OpaquePointer!) -> UInt32 {
    TrackHandle.of(track)?.track.width ?? 0
}

@c @implementation
public func latchkey_track_get_height(_ track: OpaquePointer!) -> UInt32 {
    TrackHandle.of(track)?.track.height ?? 0
}

@c @implementation
public func latchkey_track_get_key_period(_ track: OpaquePointer!, _ index: Int) -> OpaquePointer! {
    TrackHandle.of(track)?.keyPeriods[at: index]?.pointer
}

@c @implementation
public func latchkey_key_period_get_start(_ period: OpaquePointer!, _ seconds: UnsafeMutablePointer<Double>!) -> CInt {
    write(KeyPeriodHandle.of(period)?.start, seconds, else: 0)
}

@c @implementation
public func latchkey_key_period_get_end(_ period: OpaquePointer!, _ seconds: UnsafeMutablePointer<Double>!) -> CInt {
    write(KeyPeriodHandle.of(period)?.end, seconds, else: 0)
}

@c @implementation
public func latchkey_key_period_get_method(_ period: OpaquePointer!) -> UnsafePointer<CChar>! {
    KeyPeriodHandle.of(period)?.method?.text
}

@c @implementation
public func latchkey_key_period_get_key_format(_ period: OpaquePointer!) -> UnsafePointer<CChar>! {
    KeyPeriodHandle.of(period)?.keyFormat?.text
}

@c @implementation
public func latchkey_key_period_get_key_uri(_ period: OpaquePointer!) -> UnsafePointer<CChar>! {
    KeyPeriodHandle.of(period)?.keyURI?.text
}

@c @implementation
public func latchkey_key_period_get_key_id(_ period: OpaquePointer!, _ index: Int) -> UnsafePointer<UInt8>! {
    KeyPeriodHandle.of(period)?.keyIDs[at: index]?.bytes
}

@c @implementation
public func latchkey_key_need_get_key_system(_ need: OpaquePointer!) -> UnsafePointer<CChar>! {
    KeyNeedHandle.of(need)?.keySystem?.text
}

@c @implementation
public func latchkey_key_need_get_key_uri(_ need: OpaquePointer!) -> UnsafePointer<CChar>! {
    KeyNeedHandle.of(need)?.keyURI?.text
}

@c @implementation
public func latchkey_key_need_get_key_id(_ need: OpaquePointer!, _ index: Int) -> UnsafePointer<UInt8>! {
    KeyNeedHandle.of(need)?.keyIDs[at: index]?.bytes
}

@c @implementation
public func latchkey_key_need_get_source(_ need: OpaquePointer!) -> UnsafePointer<CChar>! {
    KeyNeedHandle.of(need)?.source?.text
}
