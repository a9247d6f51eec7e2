"""How long a browser takes to show something of a page, without anything in its cache.

    python -m experiments.probes.first_paint URL

Prints the median of five in milliseconds: from the start of the navigation to the first text (First Contentful Paint,
W3C Paint Timing). Needs Debian's Chromium.
"""

import sys
from statistics import median

CHROMIUM = "/usr/bin/chromium"
_TIMES = 5
_PAINTED = "() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime"


def _painted(url: str) -> list[float]:
    # Not at the top: the benchmarks, which all load this module, need no browser.
    from playwright.sync_api import sync_playwright

    times = []
    with sync_playwright() as playwright:
        # Root has no sandbox; the page is our own.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for _ in range(_TIMES):
            context = browser.new_context()
            page = context.new_page()
            page.goto(url)
            times.append(float(page.wait_for_function(_PAINTED).json_value()))
            context.close()
        browser.close()
    return times


if __name__ == "__main__":
    print(median(_painted(sys.argv[1])))
