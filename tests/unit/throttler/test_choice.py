import subprocess
import sys

from tributary.paths import ROOT


def test_a_throttler_that_listens_to_the_kernel_does_not_load_scapy() -> None:
    look = "import sys, throttler.service.start; print('scapy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
