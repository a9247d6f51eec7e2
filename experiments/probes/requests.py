"""Asks for a URL again and again, each time on a new connection, and tells how long each took.

    {"ms": [MILLISECONDS, ...]}      from the connection's first packet to the last byte of the response

The requests begin at regular intervals, or as soon as the one before is done.
"""

import argparse
import json
import time

from experiments.probes.http import Request, read_body, read_head


def main() -> None:
    """Ask as the command line says; a failure is an exception, hence exit code 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    Request.add_arguments(parser)
    parser.add_argument("--seconds", type=float, required=True, help="no request begins later")
    parser.add_argument("--every", type=float, default=0.05, metavar="SECONDS", help="between requests (default: 0.05)")
    arguments = parser.parse_args()
    request = Request.of_arguments(arguments)
    times, end = [], time.monotonic() + arguments.seconds
    while (begun := time.monotonic()) < end:
        times.append(1000 * _ask(request))
        time.sleep(max(0.0, begun + arguments.every - time.monotonic()))
    print(json.dumps({"ms": [round(each, 3) for each in times]}))


def _ask(request: Request) -> float:
    """Seconds; raises OSError for a response other than 200."""
    begun = time.monotonic()
    with request.send() as connection:
        status, length, body = read_head(connection)
        for _ in read_body(connection, length - len(body)):
            pass
        took = time.monotonic() - begun
    if status != 200:
        raise OSError(f"{request.url}: status {status}")
    return took


if __name__ == "__main__":
    main()
