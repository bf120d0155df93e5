// SPDX-License-Identifier: MPL-2.0

import CGStreamer
import ElementKit

/// Why something of a presentation cannot be had, with the error that the demuxer posts and the status that it answers
/// to the stock demuxer. Names the URL without its query, and what to do.
struct PresentationFailure: Error, Sendable {
    enum Kind: Sendable {
        /// The origin does not answer, or not with what was asked for.
        case notFound, notAuthorized, network
        /// What came is no manifest, or one that cannot be read.
        case format
        case unsupported
        case key
    }

    let kind: Kind
    let text: String
    let advice: String
    /// For the stock demuxer: the origin's own; where the origin cannot be reached, 502, after which it tries again; else
    /// 404, after which it gives up.
    var status = 404

    /// Trying again cannot help.
    var isFinal: Bool {
        switch kind {
        case .format, .unsupported, .key: true
        case .notFound, .notAuthorized, .network: false
        }
    }

    func post(on element: ElementReference) {
        switch kind {
        case .notFound: element.postResourceError(GST_RESOURCE_ERROR_NOT_FOUND, text, debug: advice)
        case .notAuthorized: element.postResourceError(GST_RESOURCE_ERROR_NOT_AUTHORIZED, text, debug: advice)
        case .network: element.postResourceError(GST_RESOURCE_ERROR_OPEN_READ, text, debug: advice)
        case .format: element.postStreamError(GST_STREAM_ERROR_DEMUX, text, debug: advice)
        case .unsupported: element.postStreamError(GST_STREAM_ERROR_DECRYPT, text, debug: advice)
        case .key: element.postStreamError(GST_STREAM_ERROR_DECRYPT_NOKEY, text, debug: advice)
        }
    }
}
