#compdef latchkey

__latchkey_complete() {
    local -ar non_empty_completions=("${@:#(|:*)}")
    local -ar empty_completions=("${(M)@:#(|:*)}")
    _describe -V '' non_empty_completions -- empty_completions -P $'\'\''
}

__latchkey_custom_complete() {
    local -a completions
    completions=("${(@f)"$("${command_name}" "${@}" "${command_line[@]}")"}")
    if [[ "${#completions[@]}" -gt 1 ]]; then
        __latchkey_complete "${completions[@]:0:-1}"
    fi
}

__latchkey_cursor_index_in_current_word() {
    if [[ -z "${QIPREFIX}${IPREFIX}${PREFIX}" ]]; then
        printf 0
    else
        printf %s "${#${(z)LBUFFER}[-1]}"
    fi
}

_latchkey() {
    emulate -RL zsh -G
    setopt extendedglob nullglob numericglobsort
    unsetopt aliases banghist

    local -xr SAP_SHELL=zsh
    local -x SAP_SHELL_VERSION
    SAP_SHELL_VERSION="$(builtin emulate zsh -c 'printf %s "${ZSH_VERSION}"')"
    local -r SAP_SHELL_VERSION

    local context state state_descr line
    local -A opt_args

    local -r command_name="${words[1]}"
    local -ar command_line=("${words[@]}")
    local -ir current_word_index="$((CURRENT - 1))"

    local -i ret=1
    local -ar arg_specs=(
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
        '(-): :->command'
        '(-)*:: :->arg'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0
    case "${state}" in
    command)
        local -ar subcommands=(
            'inspect:Show the tracks and keys of some content, the rights on this device, and what playing would do.'
            'play:Play some content, and say what happens.'
            'acquire:Acquire the licenses for some content and keep them on this device.'
            'cache:Download content, list what is on disk, or remove it.'
            'licenses:List the licenses on this device, or remove all of them.'
            'session:List the viewing sessions of this device, end those that were left over, or try the server.'
            'outputs:What the kernel tells of the outputs, as the output guard sees it.'
            'doctor:Say which decoder a clip would get here, why, and what is missing.'
            'provision:Put model certificates and keys into a provisioning folder, and check it.'
            'package:Encrypt the segments of an HLS presentation, each in an envelope.'
            'help:Show subcommand help information.'
        )
        _describe -V subcommand subcommands && ret=0
        ;;
    arg)
        case "${words[1]}" in
        inspect|play|acquire|cache|licenses|session|outputs|doctor|provision|package|help)
            "_latchkey_${words[1]}" && ret=0
            ;;
        esac
        ;;
    esac

    return "${ret}"
}

_latchkey_inspect() {
    local -i ret=1
    local -ar arg_specs=(
        '--type[What it is\: hls, smooth, piff, dash, mp4. Left out\: the end of the URL tells.]:type:'
        ':url:'
        '--json[Write JSON, for programs.]'
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_play() {
    local -i ret=1
    local -ar arg_specs=(
        '--type[What it is\: hls, smooth, piff, dash, mp4. Left out\: the end of the URL tells.]:type:'
        ':url:'
        '--cache[The folder of the cache. Left out\: the user'\''s own.]:folder:'
        '(--yes -y)'{--yes,-y}'[Acquire licenses without asking.]'
        '--audio[The audio track, of the audio names that latchkey inspect shows. Left out\: the default.]:name:'
        '--hdmi-mode[What playback does at external digital outputs; default follows the license\: default, disable, allow, audio-only, alternative.]:mode:'
        '--outputs[Where the outputs are read\: kms, application, script\:FILE.]:where:'
        '--video-sink[For pictures, in the words of gst-launch.]:sink:'
        '--audio-sink[For sound, in the words of gst-launch.]:sink:'
        '--json[Write JSON, for programs. Nothing is asked.]'
        '--log[Show the log from this level on\: debug, info, warning, error.]:level:'
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_acquire() {
    local -i ret=1
    local -ar arg_specs=(
        '--type[What it is\: hls, smooth, piff, dash, mp4. Left out\: the end of the URL tells.]:type:'
        ':url:'
        '--custom-data[Goes into the signed part of the challenge, for the service to read.]:text:'
        '--json[Write JSON, for programs.]'
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_cache() {
    local -i ret=1
    local -ar arg_specs=(
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
        '(-): :->command'
        '(-)*:: :->arg'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0
    case "${state}" in
    command)
        local -ar subcommands=(
            'list:List the content on disk, and how much of it there is.'
            'add:Download content, or go on with a download.'
            'purge:Remove content from the disk. Licenses stay.'
        )
        _describe -V subcommand subcommands && ret=0
        ;;
    arg)
        case "${words[1]}" in
        list|add|purge)
            "_latchkey_cache_${words[1]}" && ret=0
            ;;
        esac
        ;;
    esac

    return "${ret}"
}

_latchkey_cache_list() {
    local -i ret=1
    local -ar arg_specs=(
        '--cache[The folder of the cache. Left out\: the user'\''s own.]:folder:'
        '--json[Write JSON, for programs.]'
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_cache_add() {
    local -i ret=1
    local -ar arg_specs=(
        '--cache[The folder of the cache. Left out\: the user'\''s own.]:folder:'
        '--type[What it is\: hls, smooth, piff, dash, mp4. Left out\: the end of the URL tells.]:type:'
        ':url:'
        '--maximum-bit-rate[The best variant up to this, in bits a second, of a new download.]:rate:'
        '*--audio[An audio track, by name or language, of a new download. May be given again. Left out\: the one that plays by default.]:name:'
        '--license[Acquire the PlayReady-style licenses too, where none is stored that may be used.]'
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_cache_purge() {
    local -i ret=1
    local -ar arg_specs=(
        '--cache[The folder of the cache. Left out\: the user'\''s own.]:folder:'
        '--all[Everything that is cached.]'
        '(--yes -y)'{--yes,-y}'[Do not ask.]'
        '*:url:'
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_licenses() {
    local -i ret=1
    local -ar arg_specs=(
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
        '(-): :->command'
        '(-)*:: :->arg'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0
    case "${state}" in
    command)
        local -ar subcommands=(
            'list:List the PlayReady-style licenses on this device, and how their rights stand.'
            'reset:Remove every license, domain, device key and stored FairPlay-style key (reset DRM database).'
        )
        _describe -V subcommand subcommands && ret=0
        ;;
    arg)
        case "${words[1]}" in
        list|reset)
            "_latchkey_licenses_${words[1]}" && ret=0
            ;;
        esac
        ;;
    esac

    return "${ret}"
}

_latchkey_licenses_list() {
    local -i ret=1
    local -ar arg_specs=(
        '--store[The folder of the license store. Left out\: store in \[playready\] of latchkey.conf, or else the user'\''s own.]:folder:'
        '--json[Write JSON, for programs.]'
        '--secure-clock[Only signed time counts, as with clock=secure in \[playready\].]'
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_licenses_reset() {
    local -i ret=1
    local -ar arg_specs=(
        '--store[The folder of the license store. Left out\: store in \[playready\] of latchkey.conf, or else the user'\''s own.]:folder:'
        '(--yes -y)'{--yes,-y}'[Do not ask.]'
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_session() {
    local -i ret=1
    local -ar arg_specs=(
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
        '(-): :->command'
        '(-)*:: :->arg'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0
    case "${state}" in
    command)
        local -ar subcommands=(
            'list:List the sessions that servers may count.'
            'end:End the sessions that crashed players left over.'
            'check:Set a session up at the configured server and end it again.'
        )
        _describe -V subcommand subcommands && ret=0
        ;;
    arg)
        case "${words[1]}" in
        list|end|check)
            "_latchkey_session_${words[1]}" && ret=0
            ;;
        esac
        ;;
    esac

    return "${ret}"
}

_latchkey_session_list() {
    local -i ret=1
    local -ar arg_specs=(
        '--json[Write JSON, for programs.]'
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_session_end() {
    local -i ret=1
    local -ar arg_specs=(
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_session_check() {
    local -i ret=1
    local -ar arg_specs=(
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_outputs() {
    local -i ret=1
    local -ar ___request=('type-0' 'type-1')
    local -ar arg_specs=(
        '--request[Ask the digital outputs of --device for HDCP. Only the owner of the display may.]:request:{__latchkey_complete "${___request[@]}"}'
        '--device[The display device to ask on.]:path:'
        '--watch[Go on, with a line for each reading that says something else, until standard input ends.]'
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_doctor() {
    local -i ret=1
    local -ar arg_specs=(
        '*--codec[Look at this codec\: h264, h265, av1, vp9, vp8, aac, mp3, ac3, eac3, opus, flac. May be given again.]:name:'
        '*--caps[Look at media of these caps. May be given again.]:caps:'
        '--json[Print JSON.]'
        ':clip:'
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_provision() {
    local -i ret=1
    local -ar arg_specs=(
        '--model-certificate[The model'\''s certificate chain.]:file:'
        '--model-key[The model'\''s private key.]:file:'
        '--root-key[The public key that all certificates go back to.]:file:'
        '--server-key[The public key that challenges are encrypted for.]:file:'
        '--time-key[The public key of the time service'\''s chain, where that is not the root'\''s.]:file:'
        '--revocation-list[A revocation list\: Latchkey'\''s own format, LKRL….]:file:'
        '--authority[All of them, out of the folder of a test authority.]:dir:'
        ':folder:'
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_package() {
    local -i ret=1
    local -ar arg_specs=(
        '--keys-file[The file with the key.]:file:'
        '--key-id[The key of the file that is taken; may be left out where there is one.]:kid:'
        '--license-url[The license service, for the PlayReady header.]:url:'
        '--web-url[The web page on which a license is bought, for the PlayReady header.]:url:'
        '--key-tag[Write an EXT-X-KEY with KEYFORMAT com.microsoft.playready into the media playlists too.]'
        '(--verbose -v)'{--verbose,-v}'[Name each file that is written.]'
        ':playlist:'
        ':folder:'
        '--version[Show the version.]'
        '(-h --help)'{-h,--help}'[Show help information.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

_latchkey_help() {
    local -i ret=1
    local -ar arg_specs=(
        '*:subcommands:'
        '--version[Show the version.]'
    )
    _arguments -w -s -S : "${arg_specs[@]}" && ret=0

    return "${ret}"
}

if [[ "${funcstack[1]}" = _latchkey ]]; then
    _latchkey "${@}"
else
    compdef _latchkey latchkey
fi
