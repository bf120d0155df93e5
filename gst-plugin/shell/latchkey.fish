function __latchkey_should_offer_completions_for_flags_or_options -a expected_commands
    set -l non_repeating_flags_or_options $argv[2..]
    set -l non_repeating_flags_or_options_absent 0
    set -l positional_index 0
    set -l commands
    __latchkey_parse_tokens
    test "$commands" = "$expected_commands"; and return $non_repeating_flags_or_options_absent
end

function __latchkey_should_offer_completions_for_positional -a expected_commands positional_index_comparison expected_positional_index
    set -l non_repeating_flags_or_options
    set -l non_repeating_flags_or_options_absent 0
    set -l positional_index 0
    set -l commands
    __latchkey_parse_tokens
    test "$commands" = "$expected_commands" -a \( "$positional_index" "$positional_index_comparison" "$expected_positional_index" \)
end

function __latchkey_parse_tokens -S
    set -l unparsed_tokens (__latchkey_tokens -pc)
    switch $unparsed_tokens[1]
    case 'latchkey'
        __latchkey_parse_subcommand 0 'version' 'h/help'
        switch $unparsed_tokens[1]
        case 'inspect'
            __latchkey_parse_subcommand 1 'type=' 'json' 'version' 'h/help'
        case 'play'
            __latchkey_parse_subcommand 1 'type=' 'cache=' 'y/yes' 'audio=' 'hdmi-mode=' 'outputs=' 'video-sink=' 'audio-sink=' 'json' 'log=' 'version' 'h/help'
        case 'acquire'
            __latchkey_parse_subcommand 1 'type=' 'custom-data=' 'json' 'version' 'h/help'
        case 'cache'
            __latchkey_parse_subcommand 0 'version' 'h/help'
            switch $unparsed_tokens[1]
            case 'list'
                __latchkey_parse_subcommand 0 'cache=' 'json' 'version' 'h/help'
            case 'add'
                __latchkey_parse_subcommand 1 'cache=' 'type=' 'maximum-bit-rate=' 'audio=+' 'license' 'version' 'h/help'
            case 'purge'
                __latchkey_parse_subcommand -r 1 'cache=' 'all' 'y/yes' 'version' 'h/help'
            end
        case 'licenses'
            __latchkey_parse_subcommand 0 'version' 'h/help'
            switch $unparsed_tokens[1]
            case 'list'
                __latchkey_parse_subcommand 0 'store=' 'json' 'secure-clock' 'version' 'h/help'
            case 'reset'
                __latchkey_parse_subcommand 0 'store=' 'y/yes' 'version' 'h/help'
            end
        case 'session'
            __latchkey_parse_subcommand 0 'version' 'h/help'
            switch $unparsed_tokens[1]
            case 'list'
                __latchkey_parse_subcommand 0 'json' 'version' 'h/help'
            case 'end'
                __latchkey_parse_subcommand 0 'version' 'h/help'
            case 'check'
                __latchkey_parse_subcommand 0 'version' 'h/help'
            end
        case 'outputs'
            __latchkey_parse_subcommand 0 'request=' 'device=' 'watch' 'version' 'h/help'
        case 'doctor'
            __latchkey_parse_subcommand 1 'codec=+' 'caps=+' 'json' 'version' 'h/help'
        case 'provision'
            __latchkey_parse_subcommand 1 'model-certificate=' 'model-key=' 'root-key=' 'server-key=' 'time-key=' 'revocation-list=' 'authority=' 'version' 'h/help'
        case 'package'
            __latchkey_parse_subcommand 2 'keys-file=' 'key-id=' 'license-url=' 'web-url=' 'key-tag' 'v/verbose' 'version' 'h/help'
        case 'help'
            __latchkey_parse_subcommand -r 1 'version'
        end
    end
end

function __latchkey_tokens
    if test (string split -m 1 -f 1 -- . "$FISH_VERSION") -gt 3
        commandline --tokens-raw $argv
    else
        commandline -o $argv
    end
end

function __latchkey_parse_subcommand -S -a positional_count
    argparse -s r -- $argv
    set -l option_specs $argv[2..]
    set -l is_repeating_positional $_flag_r
    set -el _flag_r
    set -a commands $unparsed_tokens[1]
    set positional_index 0
    while true
        set -e unparsed_tokens[1]
        argparse -sn "$commands" $option_specs -- $unparsed_tokens 2> /dev/null
        set unparsed_tokens $argv
        set positional_index (math $positional_index + 1)
        for non_repeating_flag_or_option in $non_repeating_flags_or_options
            if set -ql "_flag_$(string replace -a - _ -- $non_repeating_flag_or_option)"
                set non_repeating_flags_or_options_absent 1
                break
            end
        end
        test (count $unparsed_tokens) -eq 0 -o \( -z "$is_repeating_positional" -a "$positional_index" -gt "$positional_count" \) && break
    end
end

function __latchkey_complete_directories
    set -l token (commandline -t)
    string match -- '*/' $token
    set -l subdirs $token*/
    printf %s\n $subdirs
end

function __latchkey_custom_completion
    set -x SAP_SHELL fish
    set -x SAP_SHELL_VERSION $FISH_VERSION
    set -l tokens (__latchkey_tokens -p)
    if test -z "$(__latchkey_tokens -t)"
        set -l index (count (__latchkey_tokens -pc))
        set tokens $tokens[..$index] \'\' $tokens[(math $index + 1)..]
    end
    command $tokens[1] $argv $tokens
end

complete -c 'latchkey' -f
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey" -eq 1' -fa 'inspect' -d 'Show the tracks and keys of some content, the rights on this device, and what playing would do.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey" -eq 1' -fa 'play' -d 'Play some content, and say what happens.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey" -eq 1' -fa 'acquire' -d 'Acquire the licenses for some content and keep them on this device.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey" -eq 1' -fa 'cache' -d 'Download content, list what is on disk, or remove it.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey" -eq 1' -fa 'licenses' -d 'List the licenses on this device, or remove all of them.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey" -eq 1' -fa 'session' -d 'List the viewing sessions of this device, end those that were left over, or try the server.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey" -eq 1' -fa 'outputs' -d 'What the kernel tells of the outputs, as the output guard sees it.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey" -eq 1' -fa 'doctor' -d 'Say which decoder a clip would get here, why, and what is missing.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey" -eq 1' -fa 'provision' -d 'Put model certificates and keys into a provisioning folder, and check it.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey" -eq 1' -fa 'package' -d 'Encrypt the segments of an HLS presentation, each in an envelope.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey" -eq 1' -fa 'help' -d 'Show subcommand help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey inspect" type' -l 'type' -d 'What it is: hls, smooth, piff, dash, mp4. Left out: the end of the URL tells.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey inspect" json' -l 'json' -d 'Write JSON, for programs.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey inspect" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey inspect" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey play" type' -l 'type' -d 'What it is: hls, smooth, piff, dash, mp4. Left out: the end of the URL tells.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey play" cache' -l 'cache' -d 'The folder of the cache. Left out: the user\'s own.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey play" y yes' -l 'yes' -s 'y' -d 'Acquire licenses without asking.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey play" audio' -l 'audio' -d 'The audio track, of the audio names that latchkey inspect shows. Left out: the default.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey play" hdmi-mode' -l 'hdmi-mode' -d 'What playback does at external digital outputs; default follows the license: default, disable, allow, audio-only, alternative.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey play" outputs' -l 'outputs' -d 'Where the outputs are read: kms, application, script:FILE.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey play" video-sink' -l 'video-sink' -d 'For pictures, in the words of gst-launch.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey play" audio-sink' -l 'audio-sink' -d 'For sound, in the words of gst-launch.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey play" json' -l 'json' -d 'Write JSON, for programs. Nothing is asked.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey play" log' -l 'log' -d 'Show the log from this level on: debug, info, warning, error.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey play" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey play" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey acquire" type' -l 'type' -d 'What it is: hls, smooth, piff, dash, mp4. Left out: the end of the URL tells.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey acquire" custom-data' -l 'custom-data' -d 'Goes into the signed part of the challenge, for the service to read.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey acquire" json' -l 'json' -d 'Write JSON, for programs.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey acquire" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey acquire" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey cache" -eq 1' -fa 'list' -d 'List the content on disk, and how much of it there is.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey cache" -eq 1' -fa 'add' -d 'Download content, or go on with a download.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey cache" -eq 1' -fa 'purge' -d 'Remove content from the disk. Licenses stay.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache list" cache' -l 'cache' -d 'The folder of the cache. Left out: the user\'s own.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache list" json' -l 'json' -d 'Write JSON, for programs.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache list" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache list" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache add" cache' -l 'cache' -d 'The folder of the cache. Left out: the user\'s own.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache add" type' -l 'type' -d 'What it is: hls, smooth, piff, dash, mp4. Left out: the end of the URL tells.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache add" maximum-bit-rate' -l 'maximum-bit-rate' -d 'The best variant up to this, in bits a second, of a new download.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache add"' -l 'audio' -d 'An audio track, by name or language, of a new download. May be given again. Left out: the one that plays by default.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache add" license' -l 'license' -d 'Acquire the PlayReady-style licenses too, where none is stored that may be used.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache add" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache add" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache purge" cache' -l 'cache' -d 'The folder of the cache. Left out: the user\'s own.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache purge" all' -l 'all' -d 'Everything that is cached.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache purge" y yes' -l 'yes' -s 'y' -d 'Do not ask.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache purge" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey cache purge" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey licenses" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey licenses" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey licenses" -eq 1' -fa 'list' -d 'List the PlayReady-style licenses on this device, and how their rights stand.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey licenses" -eq 1' -fa 'reset' -d 'Remove every license, domain, device key and stored FairPlay-style key (reset DRM database).'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey licenses list" store' -l 'store' -d 'The folder of the license store. Left out: store in [playready] of latchkey.conf, or else the user\'s own.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey licenses list" json' -l 'json' -d 'Write JSON, for programs.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey licenses list" secure-clock' -l 'secure-clock' -d 'Only signed time counts, as with clock=secure in [playready].'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey licenses list" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey licenses list" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey licenses reset" store' -l 'store' -d 'The folder of the license store. Left out: store in [playready] of latchkey.conf, or else the user\'s own.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey licenses reset" y yes' -l 'yes' -s 'y' -d 'Do not ask.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey licenses reset" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey licenses reset" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey session" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey session" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey session" -eq 1' -fa 'list' -d 'List the sessions that servers may count.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey session" -eq 1' -fa 'end' -d 'End the sessions that crashed players left over.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_positional "latchkey session" -eq 1' -fa 'check' -d 'Set a session up at the configured server and end it again.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey session list" json' -l 'json' -d 'Write JSON, for programs.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey session list" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey session list" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey session end" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey session end" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey session check" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey session check" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey outputs" request' -l 'request' -d 'Ask the digital outputs of --device for HDCP. Only the owner of the display may.' -rfka 'type-0 type-1'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey outputs" device' -l 'device' -d 'The display device to ask on.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey outputs" watch' -l 'watch' -d 'Go on, with a line for each reading that says something else, until standard input ends.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey outputs" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey outputs" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey doctor"' -l 'codec' -d 'Look at this codec: h264, h265, av1, vp9, vp8, aac, mp3, ac3, eac3, opus, flac. May be given again.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey doctor"' -l 'caps' -d 'Look at media of these caps. May be given again.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey doctor" json' -l 'json' -d 'Print JSON.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey doctor" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey doctor" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey provision" model-certificate' -l 'model-certificate' -d 'The model\'s certificate chain.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey provision" model-key' -l 'model-key' -d 'The model\'s private key.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey provision" root-key' -l 'root-key' -d 'The public key that all certificates go back to.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey provision" server-key' -l 'server-key' -d 'The public key that challenges are encrypted for.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey provision" time-key' -l 'time-key' -d 'The public key of the time service\'s chain, where that is not the root\'s.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey provision" revocation-list' -l 'revocation-list' -d 'A revocation list: Latchkey\'s own format, LKRL….' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey provision" authority' -l 'authority' -d 'All of them, out of the folder of a test authority.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey provision" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey provision" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey package" keys-file' -l 'keys-file' -d 'The file with the key.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey package" key-id' -l 'key-id' -d 'The key of the file that is taken; may be left out where there is one.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey package" license-url' -l 'license-url' -d 'The license service, for the PlayReady header.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey package" web-url' -l 'web-url' -d 'The web page on which a license is bought, for the PlayReady header.' -rfka ''
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey package" key-tag' -l 'key-tag' -d 'Write an EXT-X-KEY with KEYFORMAT com.microsoft.playready into the media playlists too.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey package" v verbose' -l 'verbose' -s 'v' -d 'Name each file that is written.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey package" version' -l 'version' -d 'Show the version.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey package" h help' -s 'h' -l 'help' -d 'Show help information.'
complete -c 'latchkey' -n '__latchkey_should_offer_completions_for_flags_or_options "latchkey help" version' -l 'version' -d 'Show the version.'
