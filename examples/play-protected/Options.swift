// SPDX-License-Identifier: MPL-2.0

import LatchkeyOffline
import Glibc
import Latchkey
import LatchkeyManifests
import LatchkeyOutputs

/// What the command line says.
struct Options {
    /// One piece of content.
    struct Content {
        var url: String
        var type: ContentType
        var title: String

        init(url: String, type: ContentType, title: String? = nil) {
            self.url = url
            self.type = type
            self.title = title ?? url
        }

        /// The URL tells the type, where it does.
        init?(url: String) {
            guard url.contains("://"), let type = ContentType(url: url) else { return nil }
            self.init(url: url, type: type)
        }
    }

    enum Caching { case download, show, purge }

    struct Problem: Error { let text: String }

    var content: Content?
    /// What is downloaded or purged.
    var contents: [Content] = []
    var samples: [Content] = []
    var agent = Agent.Configuration()
    /// To every question.
    var agrees = false
    /// Looks, and does not play.
    var onlyInforms = false
    /// Never acquires, not even when asked for.
    var refuses = false
    var showsLog = false
    var showsHelp = false
    var resets = false
    var customData: String?
    var audioTrack: String?
    var hdmiMode = HDMIMode.standard
    var hdmiImage: String?
    /// Another mode, some milliseconds after playback has begun.
    var laterHDMIMode: (milliseconds: UInt64, mode: HDMIMode)?
    /// A field for the delegate to add to license requests, `NAME: VALUE`.
    var delegateHeader: (name: String, value: String)?
    var rounds = 1
    /// Gives the agent up after so many milliseconds of playback.
    var releaseAfter: UInt64?
    /// Takes the content out of the cache after so many milliseconds of playback.
    var purgeAfter: UInt64?
    /// Goes there when playback has begun, in milliseconds.
    var seeksTo: UInt64?
    var attaches = false
    /// Takes commands for downloads and a playback.
    var hasConsole = false
    /// What is done with the cache in the place of playing.
    var caching: Caching?
    var selection = TrackSelection()
    /// So many items at once.
    var downloadLimit = 3
    /// In the place of the program's own pipeline.
    var pipeline: String?

    static let usage = """
        Usage: play-protected [OPTION…] [URL [TYPE]]

        TYPE is hls, smooth, piff, dash or mp4; without it the URL's end has to tell.

          --samples FILE       the list of samples: lines of TYPE, URL and title
          --info               show the content and its rights, and do not play
          --yes                acquire licenses without asking
          --no                 acquire none
          --automatic          have the elements acquire licenses
          --delegate-header F  send license requests by a delegate, which adds the field NAME: VALUE
          --custom-data XML    for the license service, in the signed part of the challenge
          --audio NAME         the audio track to play
          --hdmi-mode MODE     default, disable, allow, audio-only or alternative
          --hdmi-image FILE    the picture of the mode alternative
          --hdmi-later MS:MODE another mode in the middle of playback
          --hold SECONDS       how long playback waits for a license
          --outage SECONDS     how long playback waits for the network
          --video-sink SINK    in the words of gst-launch; so --audio-sink
          --outputs WHO        kms, application or script:FILE
          --attach             use a pipeline of this program's own in the place of the agent's player
          --pipeline WORDS     the same, in the words of gst-launch
          --repeat N           play so many times
          --release-after MS   give the agent up in the middle of playback
          --cache DIR          where content is kept for playback offline, in the place of the user's cache
          --console            list, start, pause, resume, purge and play downloads by commands, and pause playback
          --download           download the content, and do not play; several URLs are downloaded at once. With --yes,
                               their licenses are acquired, too
          --cached             show what is in the cache, and do not play
          --purge              take the content out of the cache; without a URL, everything
          --bit-rate N         download the best variant up to N kbit/s
          --keep-audio NAME    download this audio track; may be given several times
          --limit N            download so many at once
          --purge-after MS     take the content out of the cache in the middle of playback
          --seek MS            go there when playback has begun
          --log                show the log
          --reset              remove all licenses from this device

        Exit status: 0 played to the end, 1 failed, 2 no rights, 3 the content cannot be used, 64 wrong use.
        """

    static func read(_ arguments: [String]) -> Result<Options, Problem> {
        var options = Options()
        var rest = arguments[...]
        var plain: [String] = []
        do throws(Problem) {
            while let argument = rest.popFirst() {
                guard argument.hasPrefix("--") else {
                    plain.append(argument)
                    continue
                }
                try options.take(argument, &rest)
            }
            if options.caching != nil {
                options.contents = try plain.map { (url) throws(Problem) in
                    guard let content = Content(url: url) else {
                        throw Problem(text: "what type of content is \(url)?")
                    }
                    return content
                }
            } else if let url = plain.first {
                let type = plain.count > 1 ? ContentType(rawValue: plain[1]) : ContentType(url: url)
                guard plain.count <= 2, let type else { throw Problem(text: "what type of content is \(url)?") }
                options.content = Content(url: url, type: type)
            }
            return .success(options)
        } catch {
            return .failure(error)
        }
    }

    private mutating func take(_ argument: String, _ rest: inout ArraySlice<String>) throws(Problem) {
        func value() throws(Problem) -> String {
            guard let value = rest.popFirst() else { throw Problem(text: "\(argument) needs a value") }
            return value
        }
        func number() throws(Problem) -> UInt64 {
            let text = try value()
            guard let number = UInt64(text), number < 1_000_000 else { throw Problem(text: "\(text) is no number") }
            return number
        }
        switch argument {
        case "--samples": samples = try Self.samples(try value())
        case "--info": onlyInforms = true
        case "--yes": agrees = true
        case "--no": refuses = true
        case "--automatic": agent.acquisition = .automatic
        case "--delegate-header":
            let parts = try value().split(separator: ":", maxSplits: 1).map(String.init)
            guard parts.count == 2 else { throw Problem(text: "--delegate-header wants NAME: VALUE") }
            delegateHeader = (parts[0], String(parts[1].drop { $0 == " " }))
        case "--custom-data": customData = try value()
        case "--audio": audioTrack = try value()
        case "--hdmi-mode":
            guard let mode = HDMIMode(rawValue: try value()) else { throw Problem(text: "no such --hdmi-mode") }
            hdmiMode = mode
        case "--hdmi-image": hdmiImage = try value()
        case "--hdmi-later":
            let parts = try value().split(separator: ":").map(String.init)
            guard parts.count == 2, let time = UInt64(parts[0]), let mode = HDMIMode(rawValue: parts[1]) else {
                throw Problem(text: "--hdmi-later wants MS:MODE")
            }
            laterHDMIMode = (time, mode)
        case "--outage": agent.outageTimeout = .seconds(Int64(try number()))
        case "--hold": agent.holdTimeout = .seconds(Int64(try number()))
        case "--video-sink": agent.videoSink = try value()
        case "--audio-sink": agent.audioSink = try value()
        case "--outputs": agent.outputs = try value()
        case "--attach": attaches = true
        case "--pipeline":
            pipeline = try value()
            attaches = true
        case "--repeat": rounds = Int(try number())
        case "--release-after": releaseAfter = try number()
        case "--cache": agent.cache = ContentCache(ContentCache.Configuration(folder: try value()))
        case "--console": hasConsole = true
        case "--download": caching = .download
        case "--cached": caching = .show
        case "--purge": caching = .purge
        case "--bit-rate": selection.maximumBitRate = try number() * 1000
        case "--keep-audio": selection.audioTracks.append(try value())
        case "--limit": downloadLimit = Int(try number())
        case "--purge-after": purgeAfter = try number()
        case "--seek": seeksTo = try number()
        case "--log": showsLog = true
        case "--reset": resets = true
        case "--help": showsHelp = true
        default: throw Problem(text: "there is no option \(argument)")
        }
    }

    private static func samples(_ path: String) throws(Problem) -> [Content] {
        guard let file = fopen(path, "r") else { throw Problem(text: "\(path) cannot be read") }
        defer { fclose(file) }
        var samples: [Content] = []
        var line: UnsafeMutablePointer<CChar>?
        var size = 0
        defer { free(line) }
        while getline(&line, &size, file) > 0, let text = line.map({ String(cString: $0) }) {
            let words = text.split(maxSplits: 2, whereSeparator: \.isWhitespace).map(String.init)
            guard words.count >= 2, let type = ContentType(rawValue: words[0]) else { continue }
            let title = words.count > 2 ? String(words[2].prefix { !$0.isNewline }) : nil
            samples.append(Content(url: words[1], type: type, title: title))
        }
        return samples
    }
}
