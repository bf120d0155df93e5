// SPDX-License-Identifier: MPL-2.0

public import CLatchkeyAgent
import LatchkeyOffline
import Latchkey
import LatchkeyManifests

// The functions of latchkey-cached-content.h. The header is their documentation.

@c @implementation
public func latchkey_cached_content_new(
    _ url: UnsafePointer<CChar>!, _ type: LatchkeyContentType, _ options: UnsafePointer<LatchkeyCacheOptions>!
) -> OpaquePointer! {
    guard let url, let type = LatchkeyContentType.known.first(where: { $0.code == type })?.type else { return nil }
    var selection = TrackSelection()
    var folder: String?
    if let options {
        guard let options = readTable(options, into: LatchkeyCacheOptions()) else { return nil }
        if options.maximum_bit_rate > 0 { selection.maximumBitRate = options.maximum_bit_rate }
        // SAFETY: the header asks for strings up to a NULL.
        if var track = options.audio_tracks {
            while let name = track.pointee {
                selection.audioTracks.append(String(cString: name))
                track += 1
            }
        }
        folder = options.folder.map { String(cString: $0) }
    }
    let content = try? CachedContent(
        url: String(cString: url), type: type, selection: selection, cache: folder.map(NamedCaches.cache))
    return content.map { CachedContentHandle($0).retained() }
}

@c @implementation
public func latchkey_cached_content_list(
    _ folder: UnsafePointer<CChar>!, _ callback: LatchkeyCacheListCallback!, _ userData: UnsafeMutableRawPointer!,
    _ destroy: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> UInt64 {
    guard let callback else { return 0 }
    let cache = folder.map { NamedCaches.cache(in: String(cString: $0)) }
    let userData = UserData(userData, destroy)
    return Calls.begin(userData) {
        do throws(CacheError) {
            let items = try await CachedContent.allItems(in: cache).map { CachedContentHandle($0) }
            return {
                items.map { Optional($0.pointer) }.withUnsafeBufferPointer {
                    callback($0.baseAddress, $0.count, LATCHKEY_CACHE_ERROR_NONE, nil, userData.pointer)
                }
                withExtendedLifetime(items) {}
            }
        } catch {
            let code = Task.isCancelled ? LATCHKEY_CACHE_ERROR_CANCELLED : LatchkeyCacheErrorCode(error.code)
            let message = CMemory(text: error.description)
            return {
                callback(nil, 0, code, message.text, userData.pointer)
                withExtendedLifetime(message) {}
            }
        }
    }
}

@c @implementation
public func latchkey_cached_content_ref(_ content: OpaquePointer!) -> OpaquePointer! {
    CachedContentHandle.of(content)?.retained()
}

@c @implementation
public func latchkey_cached_content_unref(_ content: OpaquePointer!) { CachedContentHandle.release(content) }

@c @implementation
public func latchkey_cached_content_get_url(_ content: OpaquePointer!) -> UnsafePointer<CChar>! {
    CachedContentHandle.of(content)?.url.text
}

@c @implementation
public func latchkey_cached_content_get_type(_ content: OpaquePointer!) -> LatchkeyContentType {
    let type = CachedContentHandle.of(content)?.content.type
    return LatchkeyContentType.known.first { $0.type == type }?.code ?? LATCHKEY_CONTENT_UNKNOWN
}

// Operations

@c @implementation
public func latchkey_cached_content_start(_ content: OpaquePointer!) {
    CachedContentHandle.of(content)?.content.start()
}

@c @implementation
public func latchkey_cached_content_start_with_license(_ content: OpaquePointer!) {
    CachedContentHandle.of(content)?.content.start(acquiresLicense: true)
}

@c @implementation
public func latchkey_cached_content_pause(_ content: OpaquePointer!) {
    CachedContentHandle.of(content)?.content.pause()
}

@c @implementation
public func latchkey_cached_content_purge(_ content: OpaquePointer!) {
    CachedContentHandle.of(content)?.content.purge()
}

@c @implementation
public func latchkey_cached_content_refresh(_ content: OpaquePointer!) {
    guard let content = CachedContentHandle.of(content)?.content else { return }
    Task { await content.refresh() }
}

// Progress

@c @implementation
public func latchkey_cached_content_get_progress(_ content: OpaquePointer!) -> OpaquePointer! {
    CachedContentHandle.of(content).map { CacheProgressHandle($0.content.progress).retained() }
}

@c @implementation
public func latchkey_cached_content_add_listener(
    _ content: OpaquePointer!, _ listener: LatchkeyCacheListener!, _ userData: UnsafeMutableRawPointer!,
    _ destroy: (@convention(c) (UnsafeMutableRawPointer?) -> Void)!
) -> UInt64 {
    guard let handle = CachedContentHandle.of(content), let listener else { return 0 }
    let userData = UserData(userData, destroy)
    return handle.listeners.add(to: handle.content.updates, userData) { progress in
        let progress = CacheProgressHandle(progress)
        listener(progress.pointer, userData.pointer)
        withExtendedLifetime(progress) {}
    }
}

@c @implementation
public func latchkey_cached_content_remove_listener(_ content: OpaquePointer!, _ listener: UInt64) -> CInt {
    CachedContentHandle.of(content)?.listeners.remove(listener) == true ? 1 : 0
}

@c @implementation
public func latchkey_cache_progress_ref(_ progress: OpaquePointer!) -> OpaquePointer! {
    CacheProgressHandle.of(progress)?.retained()
}

@c @implementation
public func latchkey_cache_progress_unref(_ progress: OpaquePointer!) { CacheProgressHandle.release(progress) }

@c @implementation
public func latchkey_cache_progress_get_status(_ progress: OpaquePointer!) -> LatchkeyCacheStatus {
    CacheProgressHandle.of(progress).map { LatchkeyCacheStatus($0.progress.status) } ?? LATCHKEY_CACHE_NOT_CACHED
}

@c @implementation
public func latchkey_cache_progress_get_total_duration(_ progress: OpaquePointer!) -> UInt64 {
    CacheProgressHandle.of(progress)?.progress.totalDuration.map(nanoseconds) ?? .max
}

@c @implementation
public func latchkey_cache_progress_get_cached_duration(_ progress: OpaquePointer!) -> UInt64 {
    CacheProgressHandle.of(progress).map { nanoseconds($0.progress.cachedDuration) } ?? 0
}

private func nanoseconds(_ duration: Duration) -> UInt64 {
    let (seconds, attoseconds) = duration.components
    guard seconds >= 0 else { return 0 }
    let (whole, overflow) = UInt64(seconds).multipliedReportingOverflow(by: 1_000_000_000)
    return overflow ? .max - 1 : whole &+ UInt64(clamping: attoseconds / 1_000_000_000)
}

@c @implementation
public func latchkey_cache_progress_get_cached_size(_ progress: OpaquePointer!) -> UInt64 {
    CacheProgressHandle.of(progress)?.progress.cachedSize ?? 0
}

@c @implementation
public func latchkey_cache_progress_is_ready_to_play(_ progress: OpaquePointer!) -> CInt {
    CacheProgressHandle.of(progress)?.progress.isReadyToPlay == true ? 1 : 0
}

@c @implementation
public func latchkey_cache_progress_get_error(_ progress: OpaquePointer!) -> LatchkeyCacheErrorCode {
    (CacheProgressHandle.of(progress)?.progress.error?.code).map { LatchkeyCacheErrorCode($0) }
        ?? LATCHKEY_CACHE_ERROR_NONE
}

@c @implementation
public func latchkey_cache_progress_get_message(_ progress: OpaquePointer!) -> UnsafePointer<CChar>! {
    CacheProgressHandle.of(progress)?.message?.text
}

@c @implementation
public func latchkey_cache_progress_get_http_status(_ progress: OpaquePointer!) -> CInt {
    CInt(clamping: CacheProgressHandle.of(progress)?.progress.error?.httpStatus ?? 0)
}

@c @implementation
public func latchkey_cache_progress_get_warning(_ progress: OpaquePointer!) -> LatchkeyCacheErrorCode {
    (CacheProgressHandle.of(progress)?.progress.warning?.code).map { LatchkeyCacheErrorCode($0) }
        ?? LATCHKEY_CACHE_ERROR_NONE
}

@c @implementation
public func latchkey_cache_progress_get_warning_message(_ progress: OpaquePointer!) -> UnsafePointer<CChar>! {
    CacheProgressHandle.of(progress)?.warning?.text
}
