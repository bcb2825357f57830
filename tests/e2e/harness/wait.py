"""Waiting for something to become true, with a message that says what did not."""
import time


def until(check, timeout=10.0, what="", every=0.02):
    """Calls check() until it returns something true, and returns that. AssertionError after timeout seconds."""
    end = time.monotonic() + timeout
    while True:
        got = check()
        if got:
            return got
        if time.monotonic() > end:
            why = what() if callable(what) else what
            raise AssertionError(f"not within {timeout:g} s: {why or check.__name__}")
        time.sleep(every)


def stays(check, seconds, what=""):
    """check() stays true for that long."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert check(), f"did not stay so for {seconds:g} s: {what}"
        time.sleep(0.05)
