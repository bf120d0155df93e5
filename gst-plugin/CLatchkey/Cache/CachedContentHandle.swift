// SPDX-License-Identifier: MPL-2.0

import CLatchkeyAgent
import LatchkeyOffline
import Latchkey
import Synchronization

/// A `LatchkeyCachedContent`.
final class CachedContentHandle: OpaqueReference, Sendable {
    let content: CachedContent
    let url: CMemory
    let listeners = Listeners()

    init(_ content: CachedContent) {
        self.content = content
        url = CMemory(text: content.contentURL)
    }
}

/// A `LatchkeyCacheProgress`.
final class CacheProgressHandle: OpaqueReference, Sendable {
    let progress: CachedItem.Progress
    let message: CMemory?
    let warning: CMemory?

    init(_ progress: CachedItem.Progress) {
        self.progress = progress
        warning = progress.warning.map { CMemory(text: $0.description) }
        message = progress.error.map { CMemory(text: $0.description) }
    }
}

/// The caches in folders that C named: one for each, since it alone knows what is being written there.
enum NamedCaches {
    private static let caches = Mutex<[String: ContentCache]>([:])

    static func cache(in folder: String) -> ContentCache {
        let place = ContentCache.place(of: folder)
        // The one that agents play from.
        if let standard = ContentCache.standard, ContentCache.place(of: standard.configuration.folder) == place {
            return standard
        }
        return caches.withLock { caches in
            if let known = caches[place] { return known }
            let cache = ContentCache(ContentCache.Configuration(folder: place))
            caches[place] = cache
            return cache
        }
    }
}

extension CachedItem.Progress {
    var error: CacheError? {
        guard case .failed(let error) = status else { return nil }
        return error
    }
}

extension LatchkeyCacheStatus {
    init(_ status: CachedItem.Status) {
        self =
            switch status {
            case .notCached: LATCHKEY_CACHE_NOT_CACHED
            case .waiting: LATCHKEY_CACHE_WAITING
            case .caching: LATCHKEY_CACHE_CACHING
            case .paused: LATCHKEY_CACHE_PAUSED
            case .complete: LATCHKEY_CACHE_COMPLETE
            case .failed: LATCHKEY_CACHE_FAILED
            }
    }
}

extension LatchkeyCacheErrorCode {
    init(_ code: CacheError.Code) {
        self =
            switch code {
            case .invalidURL: LATCHKEY_CACHE_ERROR_INVALID_URL
            case .unreachable: LATCHKEY_CACHE_ERROR_UNREACHABLE
            case .serverError: LATCHKEY_CACHE_ERROR_SERVER_ERROR
            case .invalidContent: LATCHKEY_CACHE_ERROR_INVALID_CONTENT
            case .unsupportedContent: LATCHKEY_CACHE_ERROR_UNSUPPORTED_CONTENT
            case .contentChanged: LATCHKEY_CACHE_ERROR_CONTENT_CHANGED
            case .diskFull: LATCHKEY_CACHE_ERROR_DISK_FULL
            case .notPermitted: LATCHKEY_CACHE_ERROR_NOT_PERMITTED
            case .damaged: LATCHKEY_CACHE_ERROR_DAMAGED
            case .inUse: LATCHKEY_CACHE_ERROR_IN_USE
            case .inputOutput: LATCHKEY_CACHE_ERROR_INPUT_OUTPUT
            case .notCached: LATCHKEY_CACHE_ERROR_NOT_CACHED
            case .cancelled: LATCHKEY_CACHE_ERROR_CANCELLED
            case .laterVersion: LATCHKEY_CACHE_ERROR_LATER_VERSION
            case .licenseNotKept: LATCHKEY_CACHE_ERROR_LICENSE_NOT_KEPT
            }
    }
}
