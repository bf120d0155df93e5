# SPDX-License-Identifier: MPL-2.0
"""A program whose first call of Latchkey is one entry of the modules for Python: first_call.py ENTRY. It starts GStreamer
only if the entry takes an object of GStreamer. With a number in place of the entry, it calls all, in the order of that seed.
Run by 38-embedding."""

import base64
import inspect
import os
import random
import sys

import bindings

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "..", "examples"))
import latchkey  # noqa: E402
import latchkey_cache  # noqa: E402
import latchkey_records  # noqa: E402

# No server listens there, nothing is configured, and nothing can be kept.
URL, CONFIGURATION, FOLDER = "http://127.0.0.1:9/film.mpd", "/dev/null", "/dev/null/cache"
# Of one pixel.
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==")


def heard(*_):
    pass


def agent():
    return latchkey.Agent(URL, configuration_file=CONFIGURATION)


def content():
    return latchkey_cache.CachedContent(URL, "dash", folder=FOLDER)


def answered(_call):
    """For what a call does behind its return."""
    latchkey.wait(1)


def listen(source):
    """Closed at once, so that no later `wait` is for its listener."""
    source.add_listener(heard)
    source.close()


def set_picture():
    agent().set_hdmi_alternative_image(PNG)
    agent().set_hdmi_alternative_image(None)


def attach():
    Gst = bindings.start()
    pipeline = Gst.Pipeline.new("first")
    attached = agent()
    attached.attach(pipeline)
    attached.close()


CALLS = {
    "latchkey.register_elements": latchkey.register_elements,
    "latchkey.cancel": lambda: latchkey.cancel(1),
    "latchkey.wait": lambda: latchkey.wait(1),
    "latchkey.reset_licenses": lambda: answered(latchkey.reset_licenses(heard, CONFIGURATION)),
    "latchkey.Agent": agent,
    "latchkey.Agent.close": lambda: agent().close(),
    "latchkey.Agent.content_info": lambda: answered(agent().content_info(heard)),
    "latchkey.Agent.acquire_license": lambda: answered(agent().acquire_license(heard)),
    "latchkey.Agent.add_listener": lambda: listen(agent()),
    "latchkey.Agent.remove_listener": lambda: agent().remove_listener(1),
    "latchkey.Agent.set_custom_challenge_data": lambda: agent().set_custom_challenge_data("<a/>"),
    "latchkey.Agent.set_hdmi_mode": lambda: agent().set_hdmi_mode("alternative"),
    "latchkey.Agent.set_hdmi_alternative_image": set_picture,
    "latchkey.Agent.set_audio_track": lambda: agent().set_audio_track("english"),
    "latchkey.Agent.state": lambda: agent().state,
    "latchkey.Agent.attach": attach,
    "latchkey_cache.all_items": lambda: answered(latchkey_cache.all_items(heard, FOLDER)),
    "latchkey_cache.CachedContent": content,
    "latchkey_cache.CachedContent.close": lambda: content().close(),
    "latchkey_cache.CachedContent.url": lambda: content().url,
    "latchkey_cache.CachedContent.type": lambda: content().type,
    "latchkey_cache.CachedContent.start": lambda: content().start(),
    "latchkey_cache.CachedContent.start(acquires_license)": lambda: content().start(acquires_license=True),
    "latchkey_cache.CachedContent.pause": lambda: content().pause(),
    "latchkey_cache.CachedContent.purge": lambda: content().purge(),
    "latchkey_cache.CachedContent.refresh": lambda: content().refresh(),
    "latchkey_cache.CachedContent.progress": lambda: content().progress,
    "latchkey_cache.CachedContent.add_listener": lambda: listen(content()),
    "latchkey_cache.CachedContent.remove_listener": lambda: content().remove_listener(1),
    "latchkey_records.licenses": lambda: answered(latchkey_records.licenses(heard, CONFIGURATION)),
    "latchkey_records.remove_license": lambda: answered(
        latchkey_records.remove_license("01" * 16, heard, CONFIGURATION)),
    "latchkey_records.viewing_sessions": lambda: answered(latchkey_records.viewing_sessions(heard, CONFIGURATION)),
    "latchkey_records.end_left_over_sessions": lambda: answered(
        latchkey_records.end_left_over_sessions(heard, CONFIGURATION)),
}


def entries():
    """What a program can call first: functions, and what it makes and closes, with its members. Calls give other objects."""
    found = set()
    for module in (latchkey, latchkey_cache, latchkey_records):
        for name, value in vars(module).items():
            if name.startswith("_") or getattr(value, "__module__", None) != module.__name__:
                continue
            if inspect.isfunction(value):
                found.add(f"{module.__name__}.{name}")
            elif inspect.isclass(value) and hasattr(value, "close"):
                members = [member for member in vars(value) if not member.startswith("_")]
                found.update([f"{module.__name__}.{name}", *(f"{module.__name__}.{name}.{member}" for member in members)])
    return found


if __name__ == "__main__":
    if sys.argv[1].isdigit():
        for name in random.Random(int(sys.argv[1])).sample(sorted(CALLS), len(CALLS)):
            print(name, file=sys.stderr, flush=True)
            CALLS[name]()
    else:
        CALLS[sys.argv[1]]()
