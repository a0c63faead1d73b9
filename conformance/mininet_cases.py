"""Runs the cases of test files of Mininet one by one: mininet_cases.py [-quick] FILE...

Prints `case NAME pass|fail|skip WHY` as each ends. Run by conformance/mininet.
"""
import importlib.util
import os
import sys
import time
import unittest

# A case, in seconds; Mininet's own waits are bounded by less.
CASE_MAX = 300


class Result(unittest.TestResult):
    def startTest(self, test):
        self.began = time.monotonic()
        super().startTest(test)

    def say(self, test, word, why=""):
        lines = str(why).strip().splitlines()
        line = lines[-1][:120] if lines else ""
        print(f"case {test.id()} {word} {time.monotonic() - self.began:.0f}s {line}", flush=True)

    def addSuccess(self, test):
        self.say(test, "pass")

    def addSkip(self, test, reason):
        self.say(test, "skip", reason)

    def addFailure(self, test, err):
        self.say(test, "fail", self._exc_info_to_string(err, test))
        tidy()

    def addError(self, test, err):
        self.say(test, "fail", self._exc_info_to_string(err, test))
        tidy()


def tidy():
    """As Mininet's own runner does after a failure: the next case finds nothing of it."""
    from mininet.clean import cleanup
    cleanup()


def main():
    from mininet.log import setLogLevel
    setLogLevel("warning")
    signal_after(CASE_MAX)
    for path in [word for word in sys.argv[1:] if word != "-quick"]:
        name = os.path.basename(path)[:-3]
        spec = importlib.util.spec_from_file_location(name, path)
        module = importlib.util.module_from_spec(spec)
        try:
            spec.loader.exec_module(module)
        except Exception as error:    # what it imports is not there
            print(f"case {name} fail 0s {error}", flush=True)
            continue
        unittest.defaultTestLoader.loadTestsFromModule(module).run(Result())


def signal_after(seconds):
    import faulthandler
    faulthandler.dump_traceback_later(seconds * 4, exit=True)


main()
