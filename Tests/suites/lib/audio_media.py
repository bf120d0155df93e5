# SPDX-License-Identifier: MPL-2.0
"""Films with two audio tracks, each a tone of its own, encoded by ffmpeg: DASH, HLS with AES-128, and an encrypted file. And
which of the tones is heard."""

import array
import os
import subprocess

import children
import hls_origin

KEY, KID = "a5" * 16, "5a" * 16
RATE = 48000
# Of the first track, which is the default, and of the second, in hertz.
TONES = 440, 1760
# The entry, and the names of the tracks. Those of HLS have one language.
KINDS = {
    "dash": ("stream.mpd", ("fin", "eng")), "hls": ("master.m3u8", ("Film", "Commentary")),
    "mp4": ("film.mp4", ("fin", "eng")),
}
CODECS = ("-c:v", "libx264", "-preset", "ultrafast", "-pix_fmt", "yuv420p", "-g", "10", "-c:a", "aac", "-shortest",
          "-metadata:s:a:0", "language=fin", "-metadata:s:a:1", "language=eng")
MASTER = "#EXTM3U\n" + "".join(
    f'#EXT-X-MEDIA:TYPE=AUDIO,GROUP-ID="a",NAME="{name}",LANGUAGE="fi",{choice},URI="a{index}.m3u8"\n'
    for index, (name, choice) in enumerate((("Film", "DEFAULT=YES,AUTOSELECT=YES"), ("Commentary", "AUTOSELECT=YES")))
) + '#EXT-X-STREAM-INF:BANDWIDTH=200000,CODECS="avc1.42c00a,mp4a.40.2",AUDIO="a"\nv.m3u8\n'


class Film:
    """The film at an origin, or in a folder if it is a file, with a configuration that has its keys, and where its sound goes."""

    def __init__(self, kind, seconds=2):
        self.kind = kind
        entry, self.names = KINDS[kind]
        self._folder = children.Folder().__enter__()
        self.origin = hls_origin.Origin().__enter__()
        self.url = f"file://{self._folder.path}/{entry}" if kind == "mp4" else f"{self.origin.url}/{entry}"
        self._encode(seconds)
        for name in os.listdir(self._folder.path):
            with open(os.path.join(self._folder.path, name), "rb") as file:
                self.origin.files[name] = file.read()
        os.environ["LATCHKEY_CONFIG"] = self._folder.write(
            "latchkey.conf", f"[latchkey]\nkeys-file={self._folder.write('keys.txt', f'{KID} {KEY}')}\n")
        self._sound = os.path.join(self._folder.path, "sound.raw")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.origin.__exit__(*_)
        self._folder.__exit__(*_)

    def _encode(self, seconds):
        inputs = [f"color=gray:s=64x64:r=10:d={seconds}"]
        inputs += [f"sine={tone}:r={RATE}:d={seconds}" for tone in TONES]
        if self.kind == "mp4":
            output = ["-map", "0", "-map", "1", "-map", "2", *CODECS, "-encryption_scheme", "cenc-aes-ctr",
                      "-encryption_key", KEY, "-encryption_kid", KID, "film.mp4"]
        elif self.kind == "dash":
            output = ["-map", "0", "-map", "1", "-map", "2", *CODECS, "-f", "dash", "-seg_duration", "1",
                      "-adaptation_sets", "id=0,streams=0 id=1,streams=1 id=2,streams=2",
                      "-media_seg_name", "$RepresentationID$-$Number$.m4s", "stream.mpd"]
        else:
            self._folder.write("master.m3u8", MASTER)
            self._folder.write("key.bin", bytes.fromhex(KEY))
            self._folder.write("key.info", f"key.bin\n{self._folder.path}/key.bin\n")
            output = []
            for index, name in enumerate(("v", "a0", "a1")):
                output += ["-map", str(index), *CODECS[:10], "-f", "hls", "-hls_time", "1", "-hls_list_size", "0",
                           "-hls_key_info_file", "key.info", "-hls_segment_filename", f"{name}-%d.ts", f"{name}.m3u8"]
        arguments = [argument for source in inputs for argument in ("-f", "lavfi", "-i", source)]
        subprocess.run(["ffmpeg", "-loglevel", "error", *arguments, *output], cwd=self._folder.path, check=True,
                       stdin=subprocess.DEVNULL)

    def sink(self, is_paced=False):
        """What brings the sound to a file, in the words of gst-launch."""
        return (f"audioconvert ! audioresample ! audio/x-raw,format=S16LE,channels=1,rate={RATE} "
                f"! filesink sync={str(is_paced).lower()} location={self._sound}")

    def heard(self):
        """The index of the track whose tone is heard at the end; None where it is neither."""
        samples = array.array("h")
        with open(self._sound, "rb") as file:
            data = file.read()
        samples.frombytes(data[:len(data) // 2 * 2])
        # What comes last may be padding. A tone crosses zero twice in a period.
        part = samples[-RATE // 2:-RATE // 4]
        pitch = 2 * sum((first < 0) != (second < 0) for first, second in zip(part, part[1:]))
        return next((index for index, tone in enumerate(TONES) if abs(pitch - tone) < tone // 10), None)

    def fetched(self, index):
        """The segments of a track that were asked for."""
        start = {"dash": f"{index + 1}-", "hls": f"a{index}-"}[self.kind]
        return [request.path for request in self.origin.requests if request.path.startswith(start)]
