"""Answers every request for a web page with the address of a login page, as captive networks do: argv[1] the port."""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

LOGIN = "http://10.2.0.1:8080/login"


class Portal(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(302)
        self.send_header("Location", LOGIN)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Nothing."""


if __name__ == "__main__":
    server = HTTPServer(("0.0.0.0", int(sys.argv[1])), Portal)
    print("ready", flush=True)
    server.serve_forever()
