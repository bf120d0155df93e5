# SPDX-License-Identifier: MPL-2.0
"""The ways in which a player gets keys, for checks of where keys are then."""

import os

from reference_server import ReferenceServer

CASE = "bento4-cenc-muxed"
DASH_CASE = "dash-cenc-static-live"
SAMPLE_AES_CASE = "hls-ts-sampleaes-skd-aac"
KEY_WAYS = {
    # Way: the case, and the file of it that plays.
    "keys-file": (CASE, "media.mp4"), "clear-key": (DASH_CASE, "stream.mpd"), "answer": (DASH_CASE, "stream.mpd"),
    "playready": (DASH_CASE, "stream.mpd"), "fairplay": (SAMPLE_AES_CASE, "master.m3u8"),
    "stored": (SAMPLE_AES_CASE, "master.m3u8"),
    "aes-128": ("hls-ts-aes128-ffmpeg-iv", "stream.m3u8"),
}


def server_of(way, case, folder):
    authority, is_fairplay = os.path.join(folder.path, "authority"), way in ("fairplay", "stored")
    return ReferenceServer(
        case.key_server_file if is_fairplay else case.keys_file, case.folder, authority if is_fairplay else None,
        authority if way == "playready" else None)


def settings_of(way, case, folder, server):
    """The configuration file with which `way` gets its keys."""
    if way == "fairplay":
        return server.fairplay_configuration()
    if way == "stored":
        # The key is stored as it comes.
        configuration = server.fairplay_configuration().replace("/fairplay/license", "/fairplay/license?persist=unlimited")
        return f"{configuration}stored-keys={os.path.join(folder.path, 'stored-keys')}\n"
    if way == "playready":
        return server.playready_configuration(
            os.path.join(folder.path, "store"), f"{server.url}/playready/rightsmanager.asmx")
    if way == "keys-file":
        return f"[latchkey]\nkeys-file={folder.write('keys', case.keys_file)}\n"
    return "[latchkey]\n" + (f"license-url={server.url}/clearkey\n" if way == "clear-key" else "")
